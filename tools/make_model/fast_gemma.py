"""The shipped model's shape, its first weights, and its forward pass made fast for training.

FastGemma computes what Gemma of tools/reference computes (check_fast.py compares them), with BF16
products. One K/V head, gemma4 only.
"""
import math

import torch
import torch.nn.functional as F

from fast_ops import AddNorm, Attend, BF16, Gate, Geglu, Heads, NormProduct, Product
from gemma_torch import Config, Gemma


class FastGemma(Gemma):
    def weight(self, name):
        """An adapter is added to the weight: the matrices are small."""
        w = self.w[name]
        if self.lora is None or name not in self.lora.a:
            return w
        return w + (self.lora.alpha / self.lora.rank) * (self.lora.b[name] @ self.lora.a[name])

    def angles(self, positions, il):
        """cos and sin [T, d / 2], by passing unit vectors through the oracle's rope."""
        half = self.config.head_dim(il) // 2
        unit = torch.cat([torch.ones(half), torch.zeros(half)]).expand(1, len(positions), 1, -1)
        turned = self.rope(unit, positions, il)[0, :, 0]
        return turned[:, :half].contiguous(), turned[:, half:].contiguous()

    def tables(self, positions, n_tokens, first_valid):
        """What attention needs for these rows, by kind of layer: is_swa -> (cos, sin, mask)."""
        found = {}
        for il, swa in enumerate(self.config.is_swa):
            if swa not in found:
                mask = self.mask(il, positions, n_tokens, first_valid, torch.float32)
                found[swa] = (*self.angles(positions, il), mask)
        return found

    def forward(self, tokens, rows=None, first_valid=None, trace=None):
        c = self.config
        b, n_tokens = tokens.shape
        h = F.embedding(tokens, self.w["token_embd.weight"]) * math.sqrt(c.n_embd)
        h = h.view(-1, c.n_embd)  # [B * rows, C] from here on
        ple = self.fast_ple(tokens, h)
        tables, stored = self.tables(torch.arange(n_tokens), n_tokens, first_valid), {}
        for il in range(c.n_layer):
            o = self.fast_attention(il, h, b, stored, tables[c.is_swa[il]])
            if il == c.n_layer_kv - 1 and rows is not None:
                keep = lambda t: t.view(b, n_tokens, -1)[:, rows].flatten(0, 1)
                h, o, ple = keep(h), keep(o), [keep(t) for t in ple]
                tables = self.tables(rows, n_tokens, first_valid)
            h = self.fast_tail("blk.%d." % il, h, o, ple[il])
        z = NormProduct.apply(h, self.w["output_norm.weight"], c.eps, self.w["token_embd.weight"])
        return (c.softcap * torch.tanh(z.float() / c.softcap)).view(b, -1, z.shape[1])

    def fast_attention(self, il, h, b, stored, table):
        """The heads' outputs [B * rows, heads * d], before the output product."""
        c, eps, blk, d = self.config, self.config.eps, "blk.%d." % il, self.config.head_dim(il)
        cosine, sine, mask = table
        n_q = c.n_head * d
        names = ["attn_q", "attn_k", "attn_v"] if il < c.n_layer_kv else ["attn_q"]
        qkv = NormProduct.apply(h, self.w[blk + "attn_norm.weight"], eps,
                                *[self.weight(blk + n + ".weight") for n in names])
        if il < c.n_layer_kv:
            k = qkv[:, n_q:n_q + d]
            k = Heads.apply(k, self.w[blk + "attn_k_norm.weight"], cosine, sine, d, eps)
            still = torch.ones(1, d // 2), torch.zeros(1, d // 2)  # v is not turned
            v = Heads.apply(qkv[:, n_q + d:], torch.ones(d), *still, d, eps)
            stored[il] = k.view(b, -1, d), v.view(b, -1, d)
        k, v = stored[c.kv_source(il)]
        q = Heads.apply(qkv[:, :n_q], self.w[blk + "attn_q_norm.weight"], cosine, sine, d, eps)
        q = q.view(b, -1, c.n_head, d).transpose(1, 2).reshape(b, -1, d)
        o = Attend.apply(q, k, v, mask).view(b, c.n_head, -1, d)
        return o.transpose(1, 2).reshape(-1, n_q)

    def fast_ple(self, tokens, h):
        """Per layer, BF16 [n, P]."""
        c = self.config
        proj = Product.apply(h.view(-1, c.n_embd), self.w["per_layer_model_proj.weight"])
        # The factor 1/sqrt(n_embd) in front of the norm only moves its eps: left out.
        n = proj.shape[0] * c.n_layer
        zero = torch.zeros(n, c.n_ple)
        proj = AddNorm.apply(proj.view(n, c.n_ple), zero, self.w["per_layer_proj_norm.weight"],
                             c.eps * c.n_embd)
        table = F.embedding(tokens, self.w["per_layer_token_embd.weight"]).view(n, c.n_ple)
        ple = (proj + table * math.sqrt(c.n_ple)) * math.sqrt(0.5)
        return [t.contiguous() for t in ple.to(BF16).view(-1, c.n_layer, c.n_ple).unbind(1)]

    def fast_tail(self, blk, h, o, ple):
        w, eps = self.w, self.config.eps
        h = AddNorm.apply(Product.apply(o, self.weight(blk + "attn_output.weight")), h,
                          w[blk + "post_attention_norm.weight"], eps)
        both = NormProduct.apply(h, w[blk + "ffn_norm.weight"], eps,
                                 self.weight(blk + "ffn_gate.weight"),
                                 self.weight(blk + "ffn_up.weight"))
        h = AddNorm.apply(Product.apply(Geglu.apply(both), self.weight(blk + "ffn_down.weight")), h,
                          w[blk + "post_ffw_norm.weight"], eps)
        g = Gate.apply(Product.apply(h, self.weight(blk + "inp_gate.weight")), ple)
        h = AddNorm.apply(Product.apply(g, self.weight(blk + "proj.weight")), h,
                          w[blk + "post_norm.weight"], eps)
        return h * w[blk + "layer_output_scale.weight"]


def shipped_config():
    swa = [True, True, False] * 3
    return Config(arch="gemma4", n_layer=9, n_embd=128, n_head=2, n_head_kv=1, n_ff=[384] * 9,
                  is_swa=swa, head_dim_swa=64, head_dim_global=128, window=64, n_layer_kv=6,
                  n_ple=32, softcap=30.0)


def initial_weights(c, n_vocab, seed):
    g = torch.Generator().manual_seed(seed)
    w = {}

    def matrix(name, n_out, n_in, sd=None):
        w[name] = torch.randn(n_out, n_in, generator=g) * (sd or n_in ** -0.5)

    def vector(name, size, value):
        w[name] = torch.full((size,), float(value))

    matrix("token_embd.weight", n_vocab, c.n_embd, c.n_embd ** -0.5)
    matrix("per_layer_token_embd.weight", n_vocab, c.n_ple * c.n_layer, c.n_ple ** -0.5)
    matrix("per_layer_model_proj.weight", c.n_ple * c.n_layer, c.n_embd)
    vector("per_layer_proj_norm.weight", c.n_ple, 1)
    vector("output_norm.weight", c.n_embd, 1)
    for il in range(c.n_layer):
        blk, d = "blk.%d." % il, c.head_dim(il)
        vector(blk + "attn_norm.weight", c.n_embd, 1)
        matrix(blk + "attn_q.weight", c.n_head * d, c.n_embd)
        vector(blk + "attn_q_norm.weight", d, d ** -0.25)  # attention has no other scale
        if il < c.n_layer_kv:
            matrix(blk + "attn_k.weight", c.n_head_kv * d, c.n_embd)
            matrix(blk + "attn_v.weight", c.n_head_kv * d, c.n_embd)
            vector(blk + "attn_k_norm.weight", d, d ** -0.25)
        matrix(blk + "attn_output.weight", c.n_embd, c.n_head * d)
        vector(blk + "post_attention_norm.weight", c.n_embd, 0.5)
        vector(blk + "ffn_norm.weight", c.n_embd, 1)
        matrix(blk + "ffn_gate.weight", c.n_ff[il], c.n_embd)
        matrix(blk + "ffn_up.weight", c.n_ff[il], c.n_embd)
        matrix(blk + "ffn_down.weight", c.n_embd, c.n_ff[il])
        vector(blk + "post_ffw_norm.weight", c.n_embd, 0.5)
        matrix(blk + "inp_gate.weight", c.n_ple, c.n_embd)
        matrix(blk + "proj.weight", c.n_embd, c.n_ple)
        vector(blk + "post_norm.weight", c.n_embd, 0.5)
        vector(blk + "layer_output_scale.weight", 1, 1)
    trained = [t.requires_grad_() for t in w.values()]
    half = c.head_dim_global // 2
    w["rope_freqs.weight"] = torch.where(torch.arange(half) < half // 4, 1.0, 1e30)
    return w, trained


def learning_rate(step, steps, peak, warm_up=100, fall=0.35):
    """Up, flat, and down to zero over the last part of the run."""
    return peak * min(1, (step + 1) / warm_up, (steps - step) / (fall * steps))
