// The operations training graphs may hold: what the CPU, CUDA, Vulkan and Metal backends all run.
// Conditions are the strictest of the four backends' own, as read in ggml 0.25 (support tables of
// ggml-cuda, ggml-vulkan and ggml-metal); comments name the backend a condition comes from.
#include "graph/train_graph.h"

namespace lumi {
namespace {

bool is_f32(const ggml_tensor * t) {
    return t->type == GGML_TYPE_F32;
}

// Weight types that all backends multiply with. BF16 on Metal depends on the device: preflight.
bool multiplies_everywhere(ggml_type type) {
    switch (type) {
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_Q4_1:
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_Q2_K:
    case GGML_TYPE_Q3_K:
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_Q5_K:
    case GGML_TYPE_Q6_K:
    case GGML_TYPE_IQ1_S:
    case GGML_TYPE_IQ1_M:
    case GGML_TYPE_IQ2_XXS:
    case GGML_TYPE_IQ2_XS:
    case GGML_TYPE_IQ2_S:
    case GGML_TYPE_IQ3_XXS:
    case GGML_TYPE_IQ3_S:
    case GGML_TYPE_IQ4_XS:
    case GGML_TYPE_IQ4_NL:
    case GGML_TYPE_MXFP4:
        return true;
    default:
        return false;
    }
}

// 256 bytes: the most that a Vulkan device may ask of an offset (its limit for storage buffers).
bool starts_bindable(const ggml_tensor * t) {
    constexpr size_t kOffset = 256;
    return t->view_src == nullptr || t->view_offs % kOffset == 0;
}

const char * objection_to_product(const ggml_tensor * node) {
    const ggml_tensor * a = node->src[0];
    const ggml_tensor * b = node->src[1];
    if (!multiplies_everywhere(a->type)) {
        return "not every backend multiplies with this weight type";
    }
    if (!is_f32(b)) {
        return "the second operand must be F32";
    }
    if (a->nb[0] != ggml_type_size(a->type) || b->nb[0] != sizeof(float)) {
        return "rows must be contiguous (CUDA)";
    }
    if (ggml_is_quantized(a->type) && a->nb[1] != ggml_row_size(a->type, a->ne[0])) {
        return "a quantised matrix must be contiguous (Vulkan)";
    }
    if (!starts_bindable(a) || !starts_bindable(b)) {
        return "operands must start at a multiple of 256 bytes (Vulkan)";
    }
    if (a->ne[3] != b->ne[3] || a->ne[2] != b->ne[2]) {
        return "products do not broadcast here";
    }
    return nullptr;
}

const char * objection_to_unary(ggml_unary_op op, const ggml_tensor * x) {
    switch (op) {
    case GGML_UNARY_OP_TANH:
    case GGML_UNARY_OP_EXP:
    case GGML_UNARY_OP_SIGMOID:
    case GGML_UNARY_OP_GELU:
    case GGML_UNARY_OP_SILU:
        return is_f32(x) && ggml_is_contiguous(x) ? nullptr : "input must be contiguous F32 (CUDA)";
    default:
        return "this function is not in the set";
    }
}

const char * objection_to_glu(const ggml_tensor * node) {
    const ggml_glu_op op = ggml_get_glu_op(node);
    if (op != GGML_GLU_OP_GEGLU && op != GGML_GLU_OP_SWIGLU) {
        return "this function is not in the set";
    }
    return is_f32(node->src[0]) && ggml_is_contiguous_1(node->src[0])
               ? nullptr
               : "input must be contiguous F32 (CUDA, Metal)";
}

const char * objection(const ggml_tensor * node) {
    const ggml_tensor * a = node->src[0];
    const ggml_tensor * b = node->src[1];
    switch (node->op) {
    case GGML_OP_NONE:
    case GGML_OP_RESHAPE:
    case GGML_OP_VIEW:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
        return nullptr;
    case GGML_OP_MUL_MAT:
        return objection_to_product(node);
    case GGML_OP_UNARY:
        return objection_to_unary(ggml_get_unary_op(node), a);
    case GGML_OP_GLU:
        return objection_to_glu(node);
    case GGML_OP_ADD:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV:
        return is_f32(a) && is_f32(b) && ggml_is_contiguous_rows(a) && ggml_is_contiguous_rows(b)
                   ? nullptr
                   : "operands must be F32 with contiguous rows (Metal)";
    case GGML_OP_SUM_ROWS:
    case GGML_OP_RMS_NORM:
        return is_f32(a) && ggml_is_contiguous_rows(a)
                   ? nullptr
                   : "input must be F32 with contiguous rows (Metal, CUDA)";
    // CUDA says yes to rows with gaps for SQR, SQRT, LOG, CLAMP, SCALE, FILL and SOFT_MAX, but its
    // kernels walk memory as one piece: they abort, or compute the gaps.
    case GGML_OP_SQR:
    case GGML_OP_SQRT:
    case GGML_OP_LOG:
    case GGML_OP_CLAMP:
    case GGML_OP_FILL:
    case GGML_OP_SCALE:
    case GGML_OP_SOFT_MAX:
    case GGML_OP_SUM:
    case GGML_OP_SILU_BACK:
    case GGML_OP_OPT_STEP_ADAMW:
        return is_f32(a) && ggml_is_contiguous(a)
                   ? nullptr
                   : "input must be contiguous F32 (CUDA, Vulkan, Metal)";
    case GGML_OP_ROPE:
    case GGML_OP_ROPE_BACK:
        return is_f32(a) && ggml_is_contiguous_rows(a) && ggml_is_contiguous_2(a)
                   ? nullptr
                   : "input must be F32, contiguous but for its last dimensions (CUDA, Vulkan)";
    case GGML_OP_GET_ROWS:
        return is_f32(a) && b->type == GGML_TYPE_I32 && ggml_is_contiguous_rows(a)
                   ? nullptr
                   : "rows must be contiguous F32, their indices I32 (CUDA)";
    case GGML_OP_SET_ROWS:
        return is_f32(a) && is_f32(node) && (b->type == GGML_TYPE_I32 || b->type == GGML_TYPE_I64)
                   ? nullptr
                   : "rows must be F32, their indices I32 or I64";
    case GGML_OP_ACC:
        return is_f32(a) && is_f32(b) && ggml_is_contiguous(a) && ggml_is_contiguous(b)
                   ? nullptr
                   : "operands must be contiguous F32 (CUDA)";
    case GGML_OP_CONCAT:
        return is_f32(a) && is_f32(b) ? nullptr : "operands must be F32";
    case GGML_OP_REPEAT:
        return is_f32(a) ? nullptr : "input must be F32 (CUDA)";
    case GGML_OP_CPY:
    case GGML_OP_CONT:
        return is_f32(a) && (is_f32(node) || node->type == GGML_TYPE_F16)
                   ? nullptr
                   : "copies go from F32 to F32 or F16";
    default:
        return "not every backend has this operation";
    }
}

}  // namespace

bool in_allowed_set(const ggml_tensor * node, std::string & why_not) {
    const char * why = objection(node);
    if (why == nullptr) {
        return true;
    }
    why_not = std::string(ggml_op_desc(node)) + " '" + node->name + "': " + why;
    return false;
}

}  // namespace lumi
