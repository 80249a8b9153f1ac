// Linear maps: a frozen, possibly quantised weight plus any number of LoRA pairs.
// Frozen weights never get a gradient; their input gets W^T dY by a transposed copy or by panels.
#include "graph/ops.h"

#include "device/panel_product.h"

namespace lumi {

ggml_tensor * product(GraphContext & g, ggml_tensor * a, ggml_tensor * b) {
    ggml_tensor * y = ggml_mul_mat(g.ctx, a, b);
    // Without this some backends accumulate in half precision.
    ggml_prec_set_acc(y, GGML_PREC_F32);
    if (g.differentiable) {
        // Metal then scales its half-precision inputs by their largest value: gradients are small.
        ggml_prec_set_src(y, GGML_PREC_F32, 1);
    }
    return y;
}

ggml_tensor * frozen_product(GraphContext & g, ggml_tensor * weight, ggml_tensor * x) {
    if (g.products == Products::panels) {
        return panel_product(g.ctx, weight, x);
    }
    return product(g, weight, x);
}

ggml_tensor * frozen_product_transposed(GraphContext & g, ggml_tensor * weight, ggml_tensor * dy) {
    if (g.products == Products::panels) {
        return panel_product_transposed(g.ctx, weight, dy);
    }
    ggml_tensor * transposed = g.transposed ? g.transposed(weight) : nullptr;
    if (transposed == nullptr || transposed->ne[0] != weight->ne[1] ||
        transposed->ne[1] != weight->ne[0]) {
        return nullptr;
    }
    return product(g, transposed, dy);
}

namespace {

// What one LoRA pair's adjoint needs from the forward pass.
struct AppliedLora {
    LoraTensors lora;
    ggml_tensor * x;  // what A reads, [in, T]
    ggml_tensor * u;  // scale * A x, [r, T]
};

// x as the pair reads it: itself, or with some of its numbers dropped.
ggml_tensor * dropped(GraphContext & g, ggml_tensor * x, const LoraTensors & lora) {
    if (g.dropout == nullptr) {
        return x;
    }
    const auto found = g.dropout->starts.find(lora.a);
    if (found == g.dropout->starts.end()) {
        return x;
    }
    ggml_tensor * factors = ggml_view_2d(g.ctx, g.dropout->factors, x->ne[0], x->ne[1],
                                         ggml_row_size(x->type, x->ne[0]),
                                         static_cast<size_t>(found->second) * sizeof(float));
    return mul(g, x, factors);
}

// dB = u dY^T, du = scale * B^T dY, dA = x du^T, dX += A^T du.
void lora_vjp(GraphContext & g, const AppliedLora & applied, ggml_tensor * dy) {
    Tape & tape = *g.tape;
    const LoraTensors & lora = applied.lora;
    ggml_tensor * x = applied.x;
    if (tape.wants(lora.b)) {
        ggml_tensor * ut = tape.transposed(applied.u);  // [T, r]
        ggml_tensor * dyt = tape.transposed(dy);        // [T, out]
        tape.add_grad(lora.b, product(g, ut, dyt));     // [r, out]
    }
    if (!tape.wants(lora.a) && !tape.wants(x)) {
        return;
    }
    ggml_tensor * du = product(g, tape.transposed(lora.b), dy);  // [r, T]
    du = ggml_scale(g.ctx, du, lora.scale);
    if (tape.wants(lora.a)) {
        ggml_tensor * xt = tape.transposed(x);                       // [T, in]
        tape.add_grad(lora.a, product(g, xt, tape.transposed(du)));  // [in, r]
    }
    if (tape.wants(x)) {
        tape.add_grad(x, product(g, tape.transposed(lora.a), du));  // [in, T]
    }
}

}  // namespace

ggml_tensor * linear(GraphContext & g, ggml_tensor * weight, ggml_tensor * x,
                     const std::vector<LoraTensors> & loras) {
    ggml_tensor * y = frozen_product(g, weight, x);  // [out, T]
    std::vector<AppliedLora> applied;
    std::vector<ggml_tensor *> inputs = {x};
    for (const LoraTensors & lora : loras) {
        ggml_tensor * read = dropped(g, x, lora);
        ggml_tensor * u = ggml_scale(g.ctx, product(g, lora.a, read), lora.scale);  // [r, T]
        y = ggml_add(g.ctx, y, product(g, lora.b, u));
        applied.push_back({lora, read, u});
        inputs.insert(inputs.end(), {read, lora.a, lora.b});
    }
    if (g.tape != nullptr) {
        g.tape->record(y, inputs, [g, weight, x, applied](ggml_tensor * dy) mutable {
            if (g.tape->wants(x)) {
                ggml_tensor * dx = frozen_product_transposed(g, weight, dy);
                if (dx == nullptr) {
                    g.tape->fail(std::string("no transposed copy of ") + weight->name +
                                 " for the gradient of its input");
                    return;
                }
                g.tape->add_grad(x, dx);
            }
            for (const AppliedLora & one : applied) {
                lora_vjp(g, one, dy);
            }
        });
    }
    return y;
}

}  // namespace lumi
