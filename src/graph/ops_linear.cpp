// Linear maps: a frozen, possibly quantised weight plus any number of LoRA pairs.
// Frozen weights never get a gradient; their input gets W^T dY by a transposed copy or by panels.
#include "graph/ops.h"

#include "device/dense_product.h"
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

bool is_dense(const GraphContext & g) {
    return g.products == Products::panels;
}

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

// The products of one pair: MUL_MAT with transposes made beforehand, which every device has, or on
// the CPU oneDNN's, which reads operands transposed and adds in place (device/dense_product.h).

ggml_tensor * low_rank(GraphContext & g, const LoraTensors & lora, ggml_tensor * x) {
    ggml_tensor * ax =
        is_dense(g) ? dense_product(g.ctx, lora.a, x) : product(g, lora.a, x);  // [r, T]
    return ggml_scale(g.ctx, ax, lora.scale);
}

// y + B u. y is a product of this function's caller that nothing else reads.
ggml_tensor * plus_b(GraphContext & g, ggml_tensor * y, const LoraTensors & lora, ggml_tensor * u) {
    return is_dense(g) ? add_dense_product(g.ctx, y, lora.b, u)
                       : ggml_add(g.ctx, y, product(g, lora.b, u));
}

// du = scale * B^T dY, [r, T].
ggml_tensor * low_rank_gradient(GraphContext & g, const LoraTensors & lora, ggml_tensor * dy) {
    ggml_tensor * du = is_dense(g) ? dense_product_transposed(g.ctx, lora.b, dy)
                                   : product(g, g.tape->transposed(lora.b), dy);
    return ggml_scale(g.ctx, du, lora.scale);
}

// Sum over tokens of p's column times q's: p [n, T], q [m, T] -> [n, m].
ggml_tensor * outer(GraphContext & g, ggml_tensor * p, ggml_tensor * q) {
    return is_dense(g) ? outer_product(g.ctx, p, q)
                       : product(g, g.tape->transposed(p), g.tape->transposed(q));
}

// dB = u dY^T, du = scale * B^T dY, dA = x du^T, and A^T du for what A reads: returns dx with that
// added when dx is the gradient of the very same tensor, else gives it to the tape and returns dx.
ggml_tensor * lora_vjp(GraphContext & g, const AppliedLora & applied, ggml_tensor * dy,
                       ggml_tensor * x, ggml_tensor * dx) {
    Tape & tape = *g.tape;
    const LoraTensors & lora = applied.lora;
    if (tape.wants(lora.b)) {
        tape.add_grad(lora.b, outer(g, applied.u, dy));  // [r, out]
    }
    if (!tape.wants(lora.a) && !tape.wants(applied.x)) {
        return dx;
    }
    ggml_tensor * du = low_rank_gradient(g, lora, dy);
    if (tape.wants(lora.a)) {
        tape.add_grad(lora.a, outer(g, applied.x, du));  // [in, r]
    }
    if (!tape.wants(applied.x)) {
        return dx;
    }
    if (is_dense(g) && dx != nullptr && applied.x == x) {
        return add_dense_product_transposed(g.ctx, dx, lora.a, du);
    }
    tape.add_grad(applied.x, is_dense(g) ? dense_product_transposed(g.ctx, lora.a, du)
                                         : product(g, tape.transposed(lora.a), du));  // [in, T]
    return dx;
}

}  // namespace

ggml_tensor * linear(GraphContext & g, ggml_tensor * weight, ggml_tensor * x,
                     const std::vector<LoraTensors> & loras) {
    ggml_tensor * y = frozen_product(g, weight, x);  // [out, T]
    std::vector<AppliedLora> applied;
    std::vector<ggml_tensor *> inputs = {x};
    for (const LoraTensors & lora : loras) {
        ggml_tensor * read = dropped(g, x, lora);
        ggml_tensor * u = low_rank(g, lora, read);
        y = plus_b(g, y, lora, u);
        applied.push_back({lora, read, u});
        inputs.insert(inputs.end(), {read, lora.a, lora.b});
    }
    if (g.tape != nullptr) {
        g.tape->record(y, inputs, [g, weight, x, applied](ggml_tensor * dy) mutable {
            ggml_tensor * dx = nullptr;
            if (g.tape->wants(x)) {
                dx = frozen_product_transposed(g, weight, dy);
                if (dx == nullptr) {
                    g.tape->fail(std::string("no transposed copy of ") + weight->name +
                                 " for the gradient of its input");
                    return;
                }
            }
            for (const AppliedLora & one : applied) {
                dx = lora_vjp(g, one, dy, x, dx);
            }
            g.tape->add_grad(x, dx);
        });
    }
    return y;
}

}  // namespace lumi
