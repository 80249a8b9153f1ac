"""Writes tests/parity: tiny random models and the numbers the C++ engine must reproduce.

Everything is seeded and computed in float64 by gemma_torch.py; see tests/parity/README.md for the
formats. Run: python3 make_fixtures.py [OUTPUT_FOLDER]
"""
import sys
from pathlib import Path

import numpy as np
import torch

import bpe
from gemma_torch import config_from_metadata, load_model, loss_sum, make_lora
from gguf_py import write_gguf

RANK, ALPHA, N_TOKENS, STEPS, LR = 4, 8.0, 40, 20, 1e-3
LOGIT_ROWS = [0, 6, 7, 8, 19, 30, 39]
TEXT = ["the quick brown fox jumps over the lazy dog and then it rests in the sun",
        "What is the name of my dog? Your dog is called Pixel.",
        "When the rain is over, the children run out of the house and into the garden.",
        "She sells sea shells by the sea shore; the shells she sells are sea shells.",
        "A careful reader follows every token from the file to the answer, through all the layers.",
        "Gradients flow backwards; whatever was added is summed, whatever was scaled is scaled.",
        "one two three four five six seven eight nine ten 0 1 2 3 4 5 6 7 8 9"]


def gemma4_metadata():
    swa = [il not in (2, 4, 7) for il in range(8)]
    g = "gemma4."
    return [("general.architecture", "str", "gemma4"), ("general.type", "str", "model"),
            ("general.name", "str", "tiny random gemma4"), ("general.file_type", "u32", 0),
            (g + "block_count", "u32", 8), (g + "context_length", "u32", 512),
            (g + "embedding_length", "u32", 64),
            (g + "feed_forward_length", "[i32]", [96] * 5 + [160] * 3),
            (g + "attention.head_count", "u32", 2), (g + "attention.head_count_kv", "u32", 1),
            (g + "attention.layer_norm_rms_epsilon", "f32", 1e-6),
            (g + "attention.key_length", "u32", 64), (g + "attention.value_length", "u32", 64),
            (g + "attention.key_length_swa", "u32", 32),
            (g + "attention.value_length_swa", "u32", 32),
            (g + "attention.sliding_window", "u32", 8),
            (g + "attention.sliding_window_pattern", "[bool]", swa),
            (g + "attention.shared_kv_layers", "u32", 3),
            (g + "embedding_length_per_layer_input", "u32", 16),
            (g + "final_logit_softcapping", "f32", 30.0),
            (g + "rope.freq_base", "f32", 1e6), (g + "rope.freq_base_swa", "f32", 1e4),
            (g + "rope.dimension_count", "u32", 64), (g + "rope.dimension_count_swa", "u32", 32)]


def gemma4_kv_metadata():
    """As the larger models are: no PLE, nothing shared, and global layers whose V is the raw K
    projection, with fewer K/V heads than the sliding ones."""
    swa = [il not in (2, 5) for il in range(6)]
    g = "gemma4."
    return [("general.architecture", "str", "gemma4"), ("general.type", "str", "model"),
            ("general.name", "str", "tiny random gemma4, K = V"), ("general.file_type", "u32", 0),
            (g + "block_count", "u32", 6), (g + "context_length", "u32", 512),
            (g + "embedding_length", "u32", 48), (g + "feed_forward_length", "u32", 64),
            (g + "attention.head_count", "u32", 4),
            (g + "attention.head_count_kv", "[i32]", [2 if s else 1 for s in swa]),
            (g + "attention.layer_norm_rms_epsilon", "f32", 1e-6),
            (g + "attention.key_length", "u32", 32), (g + "attention.value_length", "u32", 32),
            (g + "attention.key_length_swa", "u32", 16),
            (g + "attention.value_length_swa", "u32", 16),
            (g + "attention.sliding_window", "u32", 8),
            (g + "attention.sliding_window_pattern", "[bool]", swa),
            (g + "attention.shared_kv_layers", "u32", 0),
            (g + "embedding_length_per_layer_input", "u32", 0),
            (g + "final_logit_softcapping", "f32", 30.0),
            (g + "rope.freq_base", "f32", 1e6), (g + "rope.freq_base_swa", "f32", 1e4),
            (g + "rope.dimension_count", "u32", 32), (g + "rope.dimension_count_swa", "u32", 16)]


def gemma3_metadata():
    g = "gemma3."
    return [("general.architecture", "str", "gemma3"), ("general.type", "str", "model"),
            ("general.name", "str", "tiny random gemma3"), ("general.file_type", "u32", 0),
            (g + "block_count", "u32", 7), (g + "context_length", "u32", 512),
            (g + "embedding_length", "u32", 48), (g + "feed_forward_length", "u32", 80),
            (g + "attention.head_count", "u32", 2), (g + "attention.head_count_kv", "u32", 1),
            (g + "attention.layer_norm_rms_epsilon", "f32", 1e-6),
            (g + "attention.key_length", "u32", 32), (g + "attention.value_length", "u32", 32),
            (g + "attention.sliding_window", "u32", 8), (g + "rope.freq_base", "f32", 1e6)]


def qwen3_metadata():
    # 4 heads of 16 are not the width of 48: the head size must come from its own key.
    g = "qwen3."
    return [("general.architecture", "str", "qwen3"), ("general.type", "str", "model"),
            ("general.name", "str", "tiny random qwen3"), ("general.file_type", "u32", 0),
            (g + "block_count", "u32", 8), (g + "context_length", "u32", 512),
            (g + "embedding_length", "u32", 48), (g + "feed_forward_length", "u32", 80),
            (g + "attention.head_count", "u32", 4), (g + "attention.head_count_kv", "u32", 2),
            (g + "attention.layer_norm_rms_epsilon", "f32", 1e-6),
            (g + "attention.key_length", "u32", 16), (g + "attention.value_length", "u32", 16),
            (g + "rope.freq_base", "f32", 1e6)]


def random_weights(config, n_vocab, seed):
    """Norm weights stay away from 0 and 1, so that each branch is felt and each norm is needed."""
    rng = np.random.default_rng(seed)
    tensors = {}

    def matrix(name, n_out, n_in, sd=None):
        tensors[name] = rng.normal(0, sd or n_in ** -0.5, (n_out, n_in)).astype(np.float32)

    def vector(name, size, low, high):
        tensors[name] = rng.uniform(low, high, size).astype(np.float32)

    c, gemma4, qwen3 = config, config.arch == "gemma4", config.arch == "qwen3"
    # Gemma's stream starts at sd * sqrt(n_embd); each branch adds its post norm's weight. Qwen3's
    # starts at sd, and branches add what their products make, about 0.5; its head is untied here.
    matrix("token_embd.weight", n_vocab, c.n_embd, 0.8 if qwen3 else 0.5)
    if qwen3:
        matrix("output.weight", n_vocab, c.n_embd, 0.5)
    vector("output_norm.weight", c.n_embd, 1.2, 2.4)
    if c.n_ple:
        matrix("per_layer_token_embd.weight", n_vocab, c.n_ple * c.n_layer, 0.3)
        matrix("per_layer_model_proj.weight", c.n_ple * c.n_layer, c.n_embd)
        vector("per_layer_proj_norm.weight", c.n_ple, 0.6, 1.7)
    if gemma4:
        half = c.head_dim_global // 2
        tensors["rope_freqs.weight"] = np.where(np.arange(half) < half // 4, 1, 1e30).astype("f4")
    for il in range(c.n_layer):
        blk, d = "blk.%d." % il, c.head_dim(il)
        vector(blk + "attn_norm.weight", c.n_embd, 0.6, 1.8)
        matrix(blk + "attn_q.weight", c.n_head * d, c.n_embd)
        low, high = (0.35, 0.75) if gemma4 else (0.8, 1.8)
        vector(blk + "attn_q_norm.weight", d, low, high)
        if il < c.n_layer_kv:
            matrix(blk + "attn_k.weight", c.kv_heads(il) * d, c.n_embd)
            if not c.v_is_k(il):
                matrix(blk + "attn_v.weight", c.kv_heads(il) * d, c.n_embd)
            vector(blk + "attn_k_norm.weight", d, low, high)
        matrix(blk + "attn_output.weight", c.n_embd, c.n_head * d)
        if not qwen3:
            vector(blk + "post_attention_norm.weight", c.n_embd, 0.8, 1.9)
        vector(blk + "ffn_norm.weight", c.n_embd, 0.6, 1.8)
        for name in ("ffn_gate", "ffn_up"):
            matrix(blk + name + ".weight", c.n_ff[il], c.n_embd)
        matrix(blk + "ffn_down.weight", c.n_embd, c.n_ff[il])
        if not qwen3:
            vector(blk + "post_ffw_norm.weight", c.n_embd, 0.8, 1.9)
        if c.n_ple:
            matrix(blk + "inp_gate.weight", c.n_ple, c.n_embd)
            matrix(blk + "proj.weight", c.n_embd, c.n_ple)
            vector(blk + "post_norm.weight", c.n_embd, 0.8, 1.9)
        if gemma4:
            vector(blk + "layer_output_scale.weight", 1, 0.6, 0.9)
    return tensors


def tokenizer_metadata(kind, n_vocab):
    """The vocabulary's keys, and the range of its ordinary tokens."""
    if kind == "gpt2":
        return bpe.byte_tokenizer_metadata(TEXT, n_vocab), (0, n_vocab - len(bpe.QWEN3_SPECIAL))
    special = bpe.GEMMA4_SPECIAL if kind == "gemma4" else bpe.GEMMA3_SPECIAL
    characters = {c for text in TEXT for c in bpe.escape(text)}
    vocabulary = bpe.Vocabulary(special, characters, bpe.learn_merges(TEXT, 400), n_vocab)
    return bpe.tokenizer_metadata(kind, vocabulary), (len(special), n_vocab)


def make_model(path, metadata, kind, n_vocab, seed):
    keys, ordinary = tokenizer_metadata(kind, n_vocab)
    metadata = metadata + keys
    config = config_from_metadata({key: value for key, _, value in metadata})
    config.global_v_is_k = "kv" in Path(path).stem
    tensors = random_weights(config, n_vocab, seed)
    write_gguf(path, metadata, list(tensors.items()))
    return ordinary


def as_f32(tensor):
    return tensor.detach().to(torch.float32).numpy()


def adapter_header(config):
    return [("general.architecture", "str", config.arch), ("general.type", "str", "adapter"),
            ("adapter.type", "str", "lora"), ("adapter.lora.alpha", "f32", ALPHA)]


def gradient_fixture(path, model, tokens, supervised, seed):
    config = model.config
    model.lora = None
    trace = []
    with torch.no_grad():
        base = model.forward(tokens[None], trace=trace)[0]
        base_loss = loss_sum(model, tokens, supervised)
    print("  max |logit| %.1f of cap %s, base loss %.3f" % (base.abs().max(), config.softcap,
                                                            base_loss))
    generator = torch.Generator().manual_seed(seed)
    model.lora = make_lora(config, model.w, RANK, ALPHA, generator, zero_b=False)
    loss = loss_sum(model, tokens, supervised)
    loss.backward()
    with torch.no_grad():
        adapted = model.forward(tokens[None])[0]
    tensors = [("logits", as_f32(base[LOGIT_ROWS])),
               ("adapted_logits", as_f32(adapted[LOGIT_ROWS]))]
    tensors += [("layer_output.%d" % il, as_f32(h[0])) for il, h in enumerate(trace)]
    for name, a in model.lora.a.items():
        for suffix, t in ((".lora_a", a), (".lora_b", model.lora.b[name])):
            tensors += [(name + suffix, as_f32(t)), ("grad." + name + suffix, as_f32(t.grad))]
    write_gguf(path, adapter_header(config) + [
        ("tokens", "[i32]", tokens.tolist()), ("supervised", "[i32]", supervised),
        ("logit_rows", "[i32]", LOGIT_ROWS), ("base_loss_sum", "f32", base_loss.item()),
        ("loss_sum", "f32", loss.item()),
        ("loss_mean", "f32", loss.item() / len(supervised))], tensors)
    print("  adapted loss %.3f, smallest |grad| rms %.2e" % (
        loss, min(t.grad.pow(2).mean().sqrt() for t in model.lora.parameters())))


def adamw_fixture(path, model, tokens, supervised, seed):
    """20 steps on the one sample; betas .9 .999, eps 1e-8, no decay, gradient norm clipped to 1."""
    model.lora = make_lora(model.config, model.w, RANK, ALPHA, torch.Generator().manual_seed(seed))
    parameters = model.lora.parameters()
    start = {name: as_f32(a).copy() for name, a in model.lora.a.items()}
    optimiser = torch.optim.AdamW(parameters, lr=LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    losses, norms = [], []
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = loss_sum(model, tokens, supervised) / len(supervised)
        loss.backward()
        norm = sum(t.grad.pow(2).sum() for t in parameters).sqrt()
        for t in parameters:
            t.grad *= min(1.0, 1.0 / norm.item())
        optimiser.step()
        losses.append(loss.item())
        norms.append(norm.item())
    print("  adamw loss %.4f -> %.4f, norms %.2f .. %.2f" % (losses[0], losses[-1], min(norms),
                                                          max(norms)))
    tensors = []
    for name, a in model.lora.a.items():
        tensors += [("start." + name + ".lora_a", start[name]), (name + ".lora_a", as_f32(a)),
                    (name + ".lora_b", as_f32(model.lora.b[name]))]
    write_gguf(path, adapter_header(model.config) + [
        ("tokens", "[i32]", tokens.tolist()), ("supervised", "[i32]", supervised),
        ("learning_rate", "f32", LR), ("clip_norm", "f32", 1.0), ("losses", "[f32]", losses),
        ("gradient_norms", "[f32]", norms)], tensors)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else \
        Path(__file__).resolve().parents[2] / "tests" / "parity"
    supervised = [5, 6, 12, 20, 21, 22, 30, 35, 38, 39]
    for kind, name, metadata, n_vocab, seed in (
            ("gemma4", "tiny-gemma4", gemma4_metadata(), 512, 41),
            ("gemma4", "tiny-gemma4-kv", gemma4_kv_metadata(), 384, 71),
            ("llama", "tiny-gemma3", gemma3_metadata(), 384, 31),
            ("gpt2", "tiny-qwen3", qwen3_metadata(), 384, 51)):
        print(name)
        path = folder / (name + ".gguf")
        ordinary = make_model(path, metadata, kind, n_vocab, seed)
        model, _ = load_model(path)
        ids = np.random.default_rng(seed + 1).integers(*ordinary, N_TOKENS)
        if kind != "gpt2":
            ids[0] = 2  # <bos>
        tokens = torch.tensor(ids)
        gradient_fixture(folder / (name + "-gradients.gguf"), model, tokens, supervised, seed + 2)
        if name != "tiny-gemma4-kv":  # its steps would be those of its gradients
            adamw_fixture(folder / (name + "-adamw.gguf"), model, tokens, supervised, seed + 3)


if __name__ == "__main__":
    main()
