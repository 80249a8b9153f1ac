// The parts of a training step that are not products: norms, rope and GEGLU, each with its adjoint,
// reading and writing BF16 where a product is next. One thread; built and called by fast_ops.py.
#include <bit>
#include <cmath>
#include <cstdint>

namespace {

using Bf16 = uint16_t;

inline float widen(Bf16 v) {
    return std::bit_cast<float>(uint32_t(v) << 16);
}

inline Bf16 narrow(float f) {
    const uint32_t bits = std::bit_cast<uint32_t>(f);
    return Bf16((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// tanh GELU as x * sigmoid(2u); also its derivative.
struct Gelu {
    float value, slope;
};
inline Gelu gelu(float x) {
    constexpr float kScale = 1.5957691216f, kCubic = 0.044715f;  // 2 sqrt(2 / pi)
    const float t = kScale * (x + kCubic * x * x * x);
    const float s = 1.0f / (1.0f + std::exp(-std::fmin(std::fmax(t, -60.0f), 60.0f)));
    return {x * s, s + x * s * (1 - s) * kScale * (1 + 3 * kCubic * x * x)};
}

}  // namespace

extern "C" {

// y = norm(x) * w, x F32 [n, c], y BF16; keeps 1 / rms in r.
void norm_forward(const float * x, const float * w, Bf16 * y, float * r, long n, long c,
                  float eps) {
    for (long i = 0; i < n; ++i, x += c, y += c) {
        float sum = 0;
        for (long j = 0; j < c; ++j)
            sum += x[j] * x[j];
        r[i] = 1 / std::sqrt(sum / float(c) + eps);
        for (long j = 0; j < c; ++j)
            y[j] = narrow(x[j] * r[i] * w[j]);
    }
}

void norm_backward(const Bf16 * g, const float * x, const float * w, const float * r, float * dx,
                   float * dw, long n, long c) {
    for (long i = 0; i < n; ++i, x += c, g += c, dx += c) {
        float dot = 0;
        for (long j = 0; j < c; ++j)
            dot += widen(g[j]) * w[j] * x[j];
        const float m = dot * r[i] * r[i] / float(c);
        for (long j = 0; j < c; ++j) {
            const float gj = widen(g[j]);
            dw[j] += gj * x[j] * r[i];
            dx[j] = (gj * w[j] - x[j] * m) * r[i];
        }
    }
}

// out = h + norm(x) * w, x BF16, h and out F32.
void add_norm_forward(const Bf16 * x, const float * h, const float * w, float * out, float * r,
                      long n, long c, float eps) {
    for (long i = 0; i < n; ++i, x += c, h += c, out += c) {
        float sum = 0;
        for (long j = 0; j < c; ++j)
            sum += widen(x[j]) * widen(x[j]);
        r[i] = 1 / std::sqrt(sum / float(c) + eps);
        for (long j = 0; j < c; ++j)
            out[j] = h[j] + widen(x[j]) * r[i] * w[j];
    }
}

void add_norm_backward(const float * g, const Bf16 * x, const float * w, const float * r, Bf16 * dx,
                       float * dw, long n, long c) {
    for (long i = 0; i < n; ++i, x += c, g += c, dx += c) {
        float dot = 0;
        for (long j = 0; j < c; ++j)
            dot += g[j] * w[j] * widen(x[j]);
        const float m = dot * r[i] * r[i] / float(c);
        for (long j = 0; j < c; ++j) {
            const float xj = widen(x[j]);
            dw[j] += g[j] * xj * r[i];
            dx[j] = narrow((g[j] * w[j] - xj * m) * r[i]);
        }
    }
}

// One head a row: y = rope(norm(x) * w). Row i of n holds `heads` heads of d at x + i * stride; the
// angle tables are [period, d / 2], row i uses line i % period. Without a table: the norm only.
void head_forward(const Bf16 * x, long stride, const float * w, const float * cosine,
                  const float * sine, long period, Bf16 * y, float * r, long n, long heads, long d,
                  float eps) {
    const long half = d / 2;
    for (long i = 0; i < n; ++i) {
        const float * co = cosine + (i % period) * half;
        const float * si = sine + (i % period) * half;
        for (long k = 0; k < heads; ++k, y += d, ++r) {
            const Bf16 * head = x + i * stride + k * d;
            float sum = 0;
            for (long j = 0; j < d; ++j)
                sum += widen(head[j]) * widen(head[j]);
            const float s = *r = 1 / std::sqrt(sum / float(d) + eps);
            for (long j = 0; j < half; ++j) {
                const float a = widen(head[j]) * s * w[j],
                            b = widen(head[j + half]) * s * w[j + half];
                y[j] = narrow(a * co[j] - b * si[j]);
                y[j + half] = narrow(a * si[j] + b * co[j]);
            }
        }
    }
}

void head_backward(const Bf16 * g, const Bf16 * x, long stride, const float * w,
                   const float * cosine, const float * sine, long period, const float * r,
                   Bf16 * dx, float * dw, long n, long heads, long d) {
    const long half = d / 2;
    float back[256];
    for (long i = 0; i < n; ++i) {
        const float * co = cosine + (i % period) * half;
        const float * si = sine + (i % period) * half;
        for (long k = 0; k < heads; ++k, g += d, dx += d, ++r) {
            const Bf16 * head = x + i * stride + k * d;
            float dot = 0;
            for (long j = 0; j < half; ++j) {
                const float a = widen(g[j]), b = widen(g[j + half]);
                back[j] = a * co[j] + b * si[j];
                back[j + half] = b * co[j] - a * si[j];
            }
            for (long j = 0; j < d; ++j)
                dot += back[j] * w[j] * widen(head[j]);
            const float s = *r, m = dot * s * s / float(d);
            for (long j = 0; j < d; ++j) {
                const float xj = widen(head[j]);
                dw[j] += back[j] * xj * s;
                dx[j] = narrow((back[j] * w[j] - xj * m) * s);
            }
        }
    }
}

// y = gelu(gate) * up, all BF16; rows of gate and up lie `gs` and `us` apart.
void geglu_forward(const Bf16 * gate, long gs, const Bf16 * up, long us, Bf16 * y, long n, long c) {
    for (long i = 0; i < n; ++i, gate += gs, up += us, y += c) {
        for (long j = 0; j < c; ++j)
            y[j] = narrow(gelu(widen(gate[j])).value * widen(up[j]));
    }
}

void geglu_backward(const Bf16 * g, const Bf16 * gate, long gs, const Bf16 * up, long us,
                    Bf16 * dgate, Bf16 * dup, long ds, long n, long c) {
    for (long i = 0; i < n; ++i, g += c, gate += gs, up += us, dgate += ds, dup += ds) {
        for (long j = 0; j < c; ++j) {
            const Gelu a = gelu(widen(gate[j]));
            const float gj = widen(g[j]);
            dgate[j] = narrow(gj * widen(up[j]) * a.slope);
            dup[j] = narrow(gj * a.value);
        }
    }
}
}
