"""Writes what tests/parity holds a whole training run to: samples that the engine packs side by side
computed here one by one, dropout with given factors, and a run with every setting on.

Reads the models and adapters that make_fixtures.py wrote; float64, seeded; the formats are in
tests/parity/README.md. Run: python3 make_training_fixtures.py [FOLDER]
"""
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from gemma_torch import Lora, load_model, loss_sum, make_lora
from gguf_py import read_gguf, write_gguf
from make_fixtures import ALPHA, RANK, adapter_header, as_f32

LENGTHS = [17, 40, 9, 30, 23, 12]
WEIGHTS = [1.0, 0.5, -0.25]  # of targets; a negative one pushes its token away, up to this loss
UNLEARNT = 6.0
DROPOUT, START_STEP = 0.25, 64
# The run: accumulation (the engine's window is 64 tokens), clipping, decay, warm-up and cosine.
STEPS, WARMUP, RATE, DECAY, CLIP = 20, 4, 2e-3, 0.1, 10.0


def counted(losses, weights):
    """What is summed: weight * -log p, whose growth ends at UNLEARNT where the weight is negative."""
    push = (UNLEARNT - losses).clamp(0, 1)
    ended = UNLEARNT + 0.5 - push * push / 2 - (UNLEARNT - losses).clamp(min=1)
    return weights * torch.where(weights < 0, ended, losses)


class Samples:
    def __init__(self, n_vocab, seed):
        rng = np.random.default_rng(seed)
        self.tokens = [rng.integers(20, n_vocab - 10, n) for n in LENGTHS]
        # Some 60 % are targets; the first token never is, because nothing predicts it.
        self.weights = [rng.choice([0.0, *WEIGHTS], n, p=[0.4, 0.3, 0.25, 0.05]) for n in LENGTHS]
        for weights in self.weights:
            weights[0], weights[-1] = 0.0, 1.0

    def total_weight(self):
        return float(sum(np.abs(w).sum() for w in self.weights))

    def loss(self, model):
        """The sum over all targets of what they count, each sample alone."""
        total = 0
        for ids, weights in zip(self.tokens, self.weights):
            tokens, targets = torch.tensor(ids), np.flatnonzero(weights)
            logits = model.forward(tokens[None], rows=torch.tensor(targets) - 1)[0]
            losses = F.cross_entropy(logits, tokens[targets], reduction="none")
            total = total + counted(losses, torch.tensor(weights[targets])).sum()
        return total

    def metadata(self):
        return [("lengths", "[i32]", LENGTHS),
                ("tokens", "[i32]", np.concatenate(self.tokens).tolist()),
                ("target_weights", "[f32]", np.concatenate(self.weights).tolist())]


def stored_lora(folder, name, model):
    """The adapter of NAME-gradients.gguf, its numbers wanting gradients."""
    meta, arrays = read_gguf(folder / (name + "-gradients.gguf"))
    lora = Lora(RANK, ALPHA)
    for key, array in arrays.items():
        if not key.startswith("grad.") and key.endswith((".lora_a", ".lora_b")):
            part = lora.a if key.endswith("a") else lora.b
            part[key[:-len(".lora_a")]] = torch.tensor(array, dtype=torch.float64).requires_grad_()
    return meta, lora


def gradients(lora):
    return [("grad." + name + suffix, as_f32(part[name].grad)) for name in lora.a
            for suffix, part in ((".lora_a", lora.a), (".lora_b", lora.b))]


def samples_fixture(path, model, lora, samples):
    model.lora = lora
    loss = samples.loss(model)
    loss.backward()
    print("  samples: loss %.4f over a weight of %.2f" % (loss, samples.total_weight()))
    write_gguf(path, adapter_header(model.config) + samples.metadata() +
               [("loss_sum", "f32", loss.item())], gradients(lora))


def dropout_fixture(path, model, lora, meta, seed):
    """The n-th pair by name reads the factors from 64 n on, [columns, in]. From the last layer that
    owns K/V on, only supervised rows exist, except for that layer's K and V."""
    c, rng = model.config, np.random.default_rng(seed)
    tokens, supervised = torch.tensor(meta["tokens"]), meta["supervised"]
    rows = torch.tensor(supervised) - 1
    names = sorted(lora.a)
    widest = max(a.shape[1] for a in lora.a.values())
    count = START_STEP * len(names) + widest * len(tokens)
    kept = np.float32(1) / np.float32(1 - DROPOUT)
    factors = np.where(rng.random(count) < DROPOUT, np.float32(0), kept).astype(np.float32)
    for n, name in enumerate(names):
        _, il, module, _ = name.split(".")
        cut, width = c.n_layer_kv - 1, lora.a[name].shape[1]
        below = int(il) < cut or (int(il) == cut and module in ("attn_k", "attn_v"))
        columns = len(tokens) if below else len(rows)
        part = factors[START_STEP * n:START_STEP * n + columns * width].reshape(columns, width)
        part = torch.tensor(part, dtype=torch.float64)
        if int(il) == cut and module == "attn_q":  # computed for all tokens here, then selected
            whole = torch.ones(len(tokens), width, dtype=torch.float64)
            whole[rows] = part
            part = whole
        lora.factors[name] = part
    model.lora = lora
    loss = loss_sum(model, tokens, supervised)
    loss.backward()
    print("  dropout: loss %.4f (%.4f without)" % (loss, meta["loss_sum"]))
    write_gguf(path, adapter_header(c) + [
        ("dropout", "f32", DROPOUT), ("loss_sum", "f32", loss.item())],
        [("factors", factors)] + gradients(lora))


def rate_at(step):
    if step < WARMUP:
        return RATE * (step + 1) / WARMUP
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def run_fixture(path, model, samples, seed):
    model.lora = lora = make_lora(model.config, model.w, RANK, ALPHA,
                                  torch.Generator().manual_seed(seed))
    parameters = lora.parameters()
    start = {name: as_f32(a).copy() for name, a in lora.a.items()}
    optimiser = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=DECAY)
    losses, norms = [], []
    for step in range(STEPS):
        optimiser.param_groups[0]["lr"] = rate_at(step)
        optimiser.zero_grad()
        loss = samples.loss(model) / samples.total_weight()
        loss.backward()
        norm = sum(t.grad.pow(2).sum() for t in parameters).sqrt().item()
        for t in parameters:
            t.grad *= min(1.0, CLIP / norm)
        optimiser.step()
        losses.append(loss.item())
        norms.append(norm)
    clipped = sum(norm > CLIP for norm in norms)
    print("  run: loss %.4f -> %.4f, %d of %d steps clipped" % (losses[0], losses[-1], clipped,
                                                                STEPS))
    tensors = []
    for name, a in lora.a.items():
        tensors += [("start." + name + ".lora_a", start[name]), (name + ".lora_a", as_f32(a)),
                    (name + ".lora_b", as_f32(lora.b[name]))]
    write_gguf(path, adapter_header(model.config) + samples.metadata() + [
        ("learning_rate", "f32", RATE), ("warmup_steps", "i32", WARMUP),
        ("weight_decay", "f32", DECAY), ("clip_norm", "f32", CLIP), ("beta2", "f32", 0.95),
        ("losses", "[f32]", losses), ("gradient_norms", "[f32]", norms)], tensors)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else \
        Path(__file__).resolve().parents[2] / "tests" / "parity"
    for name, seed, whole_run in (("tiny-gemma4", 141, True), ("tiny-gemma4-kv", 171, False),
                                  ("tiny-gemma3", 131, False), ("tiny-qwen3", 151, True)):
        if not (folder / (name + ".gguf")).exists():
            continue
        print(name)
        model, _ = load_model(folder / (name + ".gguf"))
        samples = Samples(len(model.w["token_embd.weight"]), seed)
        meta, lora = stored_lora(folder, name, model)
        samples_fixture(folder / (name + "-samples.gguf"), model, lora, samples)
        if name != "tiny-gemma4-kv":
            _, lora = stored_lora(folder, name, model)
            dropout_fixture(folder / (name + "-dropout.gguf"), model, lora, meta, seed + 1)
        if whole_run:
            run_fixture(folder / (name + "-run.gguf"), model, samples, seed + 2)


if __name__ == "__main__":
    main()
