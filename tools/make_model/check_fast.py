"""Compares FastGemma with the oracle on random weights: logits and every gradient. BF16 products
allow about one percent."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

import torch
import torch.nn.functional as F

from fast_gemma import FastGemma, initial_weights, shipped_config
from gemma_torch import Gemma, make_lora


def main():
    config = shipped_config()
    weights, trained = initial_weights(config, 300, 1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for t in trained:
            if t.dim() == 1:
                t.mul_(0.7 + 0.6 * torch.rand(t.shape, generator=generator))
    tokens = torch.randint(0, 300, (3, 90), generator=generator)
    first = torch.tensor([0, 7, 20])
    for rows in (None, torch.arange(80, 90)):
        grads = []
        for model in (Gemma(config, weights), FastGemma(config, weights)):
            model.lora = make_lora(config, weights, 4, 8.0, torch.Generator().manual_seed(3), False)
            z = model.forward(tokens, rows, first)
            if rows is None:
                z = z[:, 20:]  # rows of padding mean nothing
            targets = torch.arange(z.shape[0] * z.shape[1]) % 300
            F.cross_entropy(z.flatten(0, 1), targets).backward()
            # The norms make the stream's size matter little: those gradients are sums that cancel.
            names = [n for n in weights if "scale" not in n and n != "rope_freqs.weight"]
            grads.append([z.detach()] + [weights[n].grad.clone() for n in names]
                         + [t.grad for t in model.lora.parameters()])
            for t in trained:
                t.grad = None
        far = [((a - b).norm() / a.norm()).item() for a, b in zip(*grads)]
        worst = max(range(len(far)), key=far.__getitem__)
        print("logits %.4f, worst gradient %.4f (%s)" % (
            far[0], max(far), (["logits"] + names + ["adapter"] * 999)[worst]))
        if max(far) > 0.05:
            sys.exit("FastGemma is not Gemma")


if __name__ == "__main__":
    main()
