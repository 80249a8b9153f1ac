"""Gemma 4, Gemma 3 and Qwen3 text models in plain PyTorch: the oracle for logits and gradients.

Written for clarity and for float64; tools/make_model trains the shipped model with the same code.
Weights are [out, in] arrays named as in GGUF. Shapes in comments: B batch, T tokens, C n_embd,
P per-layer embedding width, D head size. What it is not: fast, or a generator with a cache.
"""
import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from gguf_py import read_gguf

# Linear modules an adapter may target, GGUF names without "blk.N." and ".weight".
ATTENTION_TARGETS = ["attn_q", "attn_k", "attn_v", "attn_output"]
FFN_TARGETS = ["ffn_gate", "ffn_up", "ffn_down"]
PLE_TARGETS = ["inp_gate", "proj"]
MASKED = -1e30  # finite: a padding row whose every key is masked must not become NaN


@dataclass
class Config:
    arch: str                # "gemma4", "gemma3" or "qwen3"
    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: object        # one number, or one per layer
    n_ff: list               # per layer
    is_swa: list             # per layer
    head_dim_swa: int
    head_dim_global: int
    window: int
    n_layer_kv: int          # layers from here on reuse another layer's K/V
    n_ple: int = 0
    softcap: float = 0.0
    theta_swa: float = 1e4
    theta_global: float = 1e6
    eps: float = 1e-6
    global_v_is_k: bool = False  # the larger Gemma 4: global layers use the raw K projection as V

    def kv_heads(self, il):
        return self.n_head_kv[il] if isinstance(self.n_head_kv, list) else self.n_head_kv

    def v_is_k(self, il):
        return self.global_v_is_k and not self.is_swa[il] and il < self.n_layer_kv

    def head_dim(self, il):
        return self.head_dim_swa if self.is_swa[il] else self.head_dim_global

    def kv_source(self, il):
        """The layer whose keys and values layer `il` attends to."""
        if il < self.n_layer_kv:
            return il
        return max(j for j in range(self.n_layer_kv) if self.is_swa[j] == self.is_swa[il])

    def targets(self, il):
        """The linear modules of layer `il` that take part in the computation."""
        attention = ATTENTION_TARGETS
        if il >= self.n_layer_kv:
            attention = ["attn_q", "attn_output"]
        elif self.v_is_k(il):
            attention = ["attn_q", "attn_k", "attn_output"]
        return attention + FFN_TARGETS + (PLE_TARGETS if self.n_ple else [])


def config_from_metadata(meta):
    arch = meta["general.architecture"]
    get = lambda name, default=None: meta.get(arch + "." + name, default)
    n_layer = get("block_count")
    n_ff = get("feed_forward_length")
    head_dim = get("attention.key_length")
    pattern = get("attention.sliding_window_pattern", 1 if arch == "qwen3" else 6)
    if not isinstance(pattern, list):
        pattern = [(il + 1) % pattern != 0 for il in range(n_layer)]
    return Config(
        arch=arch, n_layer=n_layer, n_embd=get("embedding_length"),
        n_head=get("attention.head_count"), n_head_kv=get("attention.head_count_kv"),
        n_ff=n_ff if isinstance(n_ff, list) else [n_ff] * n_layer,
        is_swa=pattern[:n_layer],
        head_dim_swa=get("attention.key_length_swa", head_dim), head_dim_global=head_dim,
        window=get("attention.sliding_window", 0),
        n_layer_kv=n_layer - get("attention.shared_kv_layers", 0),
        n_ple=get("embedding_length_per_layer_input", 0),
        softcap=get("final_logit_softcapping", 0.0),
        theta_swa=get("rope.freq_base_swa", 1e4), theta_global=get("rope.freq_base", 1e6),
        eps=get("attention.layer_norm_rms_epsilon"))


@dataclass
class Lora:
    """y += alpha / rank * B (A x). `a` is [rank, in], `b` is [out, rank], keyed by weight name.
    Dropout: A reads x times `factors` [T, in] where there are any."""
    rank: int
    alpha: float
    a: dict = field(default_factory=dict)
    b: dict = field(default_factory=dict)
    factors: dict = field(default_factory=dict)

    def parameters(self):
        return [t for name in self.a for t in (self.a[name], self.b[name])]


def make_lora(config, weights, rank, alpha, generator, zero_b=True):
    """Every live linear module of every layer; A has sd 1/sqrt(in), B is zero or has sd 0.05."""
    lora = Lora(rank, alpha)
    for il in range(config.n_layer):
        for target in config.targets(il):
            name = "blk.%d.%s.weight" % (il, target)
            n_out, n_in = weights[name].shape
            dtype = weights[name].dtype
            a = torch.randn(rank, n_in, generator=generator, dtype=torch.float64) / math.sqrt(n_in)
            b = torch.randn(n_out, rank, generator=generator, dtype=torch.float64) * 0.05
            # Rounded to F32 first, so that the stored adapter is exactly the one that was computed.
            lora.a[name] = a.float().to(dtype).requires_grad_()
            lora.b[name] = (b * 0 if zero_b else b).float().to(dtype).requires_grad_()
    return lora


class Gemma:
    def __init__(self, config, weights):
        self.config, self.w, self.lora = config, weights, None

    # --- parts a faster trainer may override -------------------------------------------------
    def product(self, x, weight):
        return x @ weight.t()

    def products(self, x, weights):
        return [self.product(x, weight) for weight in weights]

    def normalise(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.config.eps)

    def weighted_norm(self, x, weight):
        return self.normalise(x) * weight

    def attend(self, q, k, v, mask):
        """q [B, kv heads, groups * rows, D], k [.., D, T], v [.., T, D], mask [B or 1, rows, T]."""
        groups = q.shape[2] // mask.shape[1]
        scores = q @ k + mask.repeat(1, groups, 1)[:, None]
        return torch.softmax(scores, -1) @ v

    # --- the model ---------------------------------------------------------------------------
    def linears(self, names, x):
        ys = self.products(x, [self.w[name] for name in names])
        if self.lora is not None:
            ys = [self.adapt(name, x, y) for name, y in zip(names, ys)]
        return ys

    def linear(self, name, x):
        return self.linears([name], x)[0]

    def adapt(self, name, x, y):
        if name not in self.lora.a:
            return y
        if name in self.lora.factors:
            x = x * self.lora.factors[name]
        u = x @ self.lora.a[name].t()
        return y + (self.lora.alpha / self.lora.rank) * (u @ self.lora.b[name].t())

    def norm(self, x, name):
        return self.weighted_norm(x, self.w[name])

    def rope(self, x, positions, il):
        """NeoX pairing (i, i + D/2); x is [B, T, heads, D]."""
        c = self.config
        half = x.shape[-1] // 2
        theta = c.theta_swa if c.is_swa[il] else c.theta_global
        i = torch.arange(half, dtype=torch.float64)
        angle = positions.to(torch.float64)[:, None] * theta ** (-i / half)  # [T, D/2]
        if not c.is_swa[il] and "rope_freqs.weight" in self.w:
            angle = angle / self.w["rope_freqs.weight"].to(torch.float64)
        cos = angle.cos().to(x.dtype)[None, :, None, :]
        sin = angle.sin().to(x.dtype)[None, :, None, :]
        x0, x1 = x[..., :half], x[..., half:]
        return torch.cat([x0 * cos - x1 * sin, x0 * sin + x1 * cos], -1)

    def mask(self, il, q_positions, n_tokens, first_valid, dtype):
        """Additive [B or 1, rows, T]: causal, the window of sliding layers, padding on the left."""
        i, j = q_positions[:, None], torch.arange(n_tokens)[None, :]
        seen = j <= i
        if self.config.is_swa[il]:
            seen = seen & (i - j < self.config.window)
        seen = seen[None]
        if first_valid is not None:
            seen = seen & (j[None] >= first_valid[:, None, None])
        return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, MASKED)

    def projections(self, il, x, owns_kv):
        """Raw q, and k and v when this layer owns them, split into heads: [B, T, heads, D]."""
        c, blk = self.config, "blk.%d." % il
        names = ["attn_q", "attn_k", "attn_v"] if owns_kv else ["attn_q"]
        if c.v_is_k(il):
            names.pop()
        parts = self.linears([blk + name + ".weight" for name in names], x)
        parts += parts[1:] if c.v_is_k(il) else []
        return [y.view(*x.shape[:2], -1, c.head_dim(il)) for y in parts]

    def keys_values(self, il, k, v, positions):
        k = self.rope(self.norm(k, "blk.%d.attn_k_norm.weight" % il), positions, il)
        return k, self.normalise(v) if self.config.arch == "gemma4" else v

    def attention(self, il, q, positions, k, v, mask):
        """q [B, rows, heads, D] as projected; k and v [B, T, kv heads, D]; mask [*, rows, T]."""
        c, blk, d = self.config, "blk.%d." % il, self.config.head_dim(il)
        n_kv = c.kv_heads(il)
        b, rows, groups = q.shape[0], q.shape[1], c.n_head // n_kv
        q = self.rope(self.norm(q, blk + "attn_q_norm.weight"), positions, il)
        if c.arch != "gemma4":
            q = q / math.sqrt(d)
        q = q.reshape(b, rows, n_kv, groups, d).permute(0, 2, 3, 1, 4)
        q = q.reshape(b, n_kv, groups * rows, d)
        o = self.attend(q, k.permute(0, 2, 3, 1), v.permute(0, 2, 1, 3), mask)
        o = o.view(b, n_kv, groups, rows, d).permute(0, 3, 1, 2, 4)
        return self.linear(blk + "attn_output.weight", o.reshape(b, rows, c.n_head * d))

    def ple_inputs(self, tokens, h):
        """[B, T, L, P]: the token's row of the table, mixed with a projection of its embedding."""
        c = self.config
        shape = (*tokens.shape, c.n_layer, c.n_ple)
        table = F.embedding(tokens, self.w["per_layer_token_embd.weight"]).view(shape)
        proj = self.linear("per_layer_model_proj.weight", h).view(shape) / math.sqrt(c.n_embd)
        proj = self.norm(proj, "per_layer_proj_norm.weight")
        return (proj + table * math.sqrt(c.n_ple)) / math.sqrt(2)

    def activation(self, x):
        return F.silu(x) if self.config.arch == "qwen3" else F.gelu(x, approximate="tanh")

    def post_norm(self, x, name):
        """The norm after a branch, which Qwen3 does not have."""
        return self.norm(x, name) if name in self.w else x

    def layer_tail(self, il, h, attended, ple):
        """Everything after the attention product: three residual branches and the layer's scale."""
        blk = "blk.%d." % il
        a = h + self.post_norm(attended, blk + "post_attention_norm.weight")
        x = self.norm(a, blk + "ffn_norm.weight")
        gate, up = self.linears([blk + "ffn_gate.weight", blk + "ffn_up.weight"], x)
        down = self.linear(blk + "ffn_down.weight", self.activation(gate) * up)
        h = a + self.post_norm(down, blk + "post_ffw_norm.weight")
        if ple is not None:
            g = self.activation(self.linear(blk + "inp_gate.weight", h)) * ple
            h = h + self.norm(self.linear(blk + "proj.weight", g), blk + "post_norm.weight")
        scale = self.w.get(blk + "layer_output_scale.weight")
        return h if scale is None else h * scale

    def forward(self, tokens, rows=None, first_valid=None, trace=None):
        """Logits [B, rows, V]. `rows`: wanted positions, None for all; the others stop after the
        K/V of the last layer that owns them, which changes no wanted logit. `first_valid`: per
        sample, the first token that is not left padding. `trace`: list that receives each layer's
        output."""
        c = self.config
        n_tokens = tokens.shape[1]
        positions = torch.arange(n_tokens)
        q_positions = positions
        h = F.embedding(tokens, self.w["token_embd.weight"])
        if c.arch != "qwen3":
            h = h * math.sqrt(c.n_embd)
        ple = self.ple_inputs(tokens, h) if c.n_ple else None
        stored, masks = {}, {}
        for il in range(c.n_layer):
            x = self.norm(h, "blk.%d.attn_norm.weight" % il)
            q, *kv = self.projections(il, x, il < c.n_layer_kv)
            if kv:
                stored[il] = self.keys_values(il, *kv, positions)
            if il == c.n_layer_kv - 1 and rows is not None:
                q_positions, h, q, masks = positions[rows], h[:, rows], q[:, rows], {}
                ple = ple[:, rows] if ple is not None else None
            if c.is_swa[il] not in masks:
                masks[c.is_swa[il]] = self.mask(il, q_positions, n_tokens, first_valid, h.dtype)
            k, v = stored[c.kv_source(il)]
            attended = self.attention(il, q, q_positions, k, v, masks[c.is_swa[il]])
            h = self.layer_tail(il, h, attended, None if ple is None else ple[:, :, il])
            if trace is not None:
                trace.append(h)
        h = self.norm(h, "output_norm.weight")
        z = self.linear("output.weight" if "output.weight" in self.w else "token_embd.weight", h)
        return c.softcap * torch.tanh(z / c.softcap) if c.softcap else z


def load_model(path, dtype=torch.float64):
    meta, arrays = read_gguf(path)
    weights = {name: torch.tensor(array, dtype=dtype) for name, array in arrays.items()}
    config = config_from_metadata(meta)
    config.global_v_is_k = not any("blk.%d.attn_v.weight" % il in weights
                                   for il in range(config.n_layer_kv) if not config.is_swa[il])
    return Gemma(config, weights), meta


def loss_sum(model, tokens, supervised):
    """Sum of -log p over the supervised positions: token p is predicted by row p - 1."""
    logits = model.forward(tokens[None], rows=torch.tensor(supervised) - 1)[0]
    return F.cross_entropy(logits, tokens[supervised], reduction="sum")
