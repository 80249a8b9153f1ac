"""Autograd functions for training: products in BF16, everything between them in kernels.cpp.

The stream stays F32; whatever enters or leaves a product is BF16. Shapes: n = B * T rows.
"""
import ctypes
import subprocess
import tempfile
from pathlib import Path

import torch

BF16 = torch.bfloat16


def build():
    folder = tempfile.mkdtemp(prefix="lumi-kernels-")
    library = folder + "/kernels.so"
    source = str(Path(__file__).with_name("kernels.cpp"))
    subprocess.run(["g++", "-std=c++20", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC",
                    source, "-o", library], check=True)
    return ctypes.CDLL(library)


kernels = build()


def call(name, *args):
    """Tensors go as pointers, ints as long, floats as float."""
    kinds = {torch.Tensor: lambda t: ctypes.c_void_p(t.data_ptr()), int: ctypes.c_long,
             float: ctypes.c_float}
    getattr(kernels, name)(*[kinds[type(a)](a) for a in args])


class NormProduct(torch.autograd.Function):
    """(norm(h) * w) times the rows of several weights: BF16 [n, sum of outs]."""

    @staticmethod
    def forward(ctx, h, w, eps, *weights):
        n, c = h.shape
        x, r = torch.empty(n, c, dtype=BF16), torch.empty(n)
        call("norm_forward", h, w, x, r, n, c, eps)
        w16 = torch.cat([m.to(BF16) for m in weights])
        ctx.save_for_backward(h, w, x, r, w16)
        ctx.sizes = [m.shape[0] for m in weights]
        return x @ w16.t()

    @staticmethod
    def backward(ctx, g):
        h, w, x, r, w16 = ctx.saved_tensors
        dh, dw = torch.empty_like(h), torch.zeros_like(w)
        call("norm_backward", g @ w16, h, w, r, dh, dw, *h.shape)
        grads = (None,) * len(ctx.sizes)
        if any(ctx.needs_input_grad[3:]):
            grads = (g.t() @ x).float().split(ctx.sizes)
        return (dh, dw, None, *grads)


class Product(torch.autograd.Function):
    """x times the rows of one weight; x F32 or BF16, the result BF16."""

    @staticmethod
    def forward(ctx, x, weight):
        x16, w16 = x.to(BF16), weight.to(BF16)
        ctx.save_for_backward(x16, w16)
        ctx.wide = x.dtype == torch.float32
        return x16 @ w16.t()

    @staticmethod
    def backward(ctx, g):
        x16, w16 = ctx.saved_tensors
        dx = g @ w16
        dw = (g.t() @ x16).float() if ctx.needs_input_grad[1] else None
        return dx.float() if ctx.wide else dx, dw


class AddNorm(torch.autograd.Function):
    """h + norm(x) * w; x BF16, h and the result F32."""

    @staticmethod
    def forward(ctx, x, h, w, eps):
        n, c = h.shape
        out, r = torch.empty(n, c), torch.empty(n)
        call("add_norm_forward", x, h, w, out, r, n, c, eps)
        ctx.save_for_backward(x, w, r)
        return out

    @staticmethod
    def backward(ctx, g):
        x, w, r = ctx.saved_tensors
        g = g.contiguous()
        dx, dw = torch.empty_like(x), torch.zeros_like(w)
        call("add_norm_backward", g, x, w, r, dx, dw, *x.shape)
        return dx, g, dw, None


class Heads(torch.autograd.Function):
    """rope(norm(x) * w) of each head; x BF16 [n, heads * d], a column slice is fine."""

    @staticmethod
    def forward(ctx, x, w, cosine, sine, d, eps):
        n, heads = x.shape[0], x.shape[1] // d
        y, r = torch.empty(n, heads * d, dtype=BF16), torch.empty(n * heads)
        call("head_forward", x, x.stride(0), w, cosine, sine, cosine.shape[0], y, r, n, heads, d,
             eps)
        ctx.save_for_backward(x, w, cosine, sine, r)
        ctx.d = d
        return y

    @staticmethod
    def backward(ctx, g):
        x, w, cosine, sine, r = ctx.saved_tensors
        dx, dw = torch.empty(x.shape, dtype=BF16), torch.zeros_like(w)
        call("head_backward", g.contiguous(), x, x.stride(0), w, cosine, sine, cosine.shape[0], r,
             dx, dw, x.shape[0], x.shape[1] // ctx.d, ctx.d)
        return dx, dw, None, None, None, None


class Geglu(torch.autograd.Function):
    """gelu(gate) * up of one BF16 tensor that holds both: [n, 2 c] -> [n, c]."""

    @staticmethod
    def forward(ctx, both):
        n, c = both.shape[0], both.shape[1] // 2
        y = torch.empty(n, c, dtype=BF16)
        call("geglu_forward", both, 2 * c, both[:, c:], 2 * c, y, n, c)
        ctx.save_for_backward(both)
        return y

    @staticmethod
    def backward(ctx, g):
        both, = ctx.saved_tensors
        n, c = both.shape[0], both.shape[1] // 2
        d = torch.empty_like(both)
        call("geglu_backward", g.contiguous(), both, 2 * c, both[:, c:], 2 * c, d, d[:, c:], 2 * c,
             n, c)
        return d


class Gate(torch.autograd.Function):
    """gelu(gate) * up of two BF16 tensors [n, c]."""

    @staticmethod
    def forward(ctx, gate, up):
        y = torch.empty_like(gate)
        call("geglu_forward", gate, gate.shape[1], up, up.shape[1], y, *gate.shape)
        ctx.save_for_backward(gate, up)
        return y

    @staticmethod
    def backward(ctx, g):
        gate, up = ctx.saved_tensors
        n, c = gate.shape
        dgate, dup = torch.empty_like(gate), torch.empty_like(up)
        call("geglu_backward", g.contiguous(), gate, c, up, c, dgate, dup, c, n, c)
        return dgate, dup


class Attend(torch.autograd.Function):
    """softmax(q k' + mask) v for one K/V head; q [B, groups * rows, d], k and v [B, T, d], BF16."""

    @staticmethod
    def forward(ctx, q, k, v, mask):
        scores = torch.bmm(q, k.transpose(1, 2)).float()
        scores.view(q.shape[0], -1, *mask.shape[1:]).add_(mask[:, None])
        p = torch.softmax(scores, -1)
        p16 = p.to(BF16)
        ctx.save_for_backward(q, k, v, p, p16)
        return torch.bmm(p16, v)

    @staticmethod
    def backward(ctx, g):
        q, k, v, p, p16 = ctx.saved_tensors
        dp = torch.bmm(g, v.transpose(1, 2)).float()
        ds = torch._softmax_backward_data(dp, p, -1, torch.float32).to(BF16)
        return (torch.bmm(ds, k), torch.bmm(ds.transpose(1, 2), q),
                torch.bmm(p16.transpose(1, 2), g), None)
