"""Teaches the shipped model three facts with a LoRA, as lumi does, and asks in other wordings.

Run: python3 teach.py [MODEL.gguf] [--rank N] [--alpha N] [--lr X] [--steps N] [-v]
Reads models/lessons.jsonl and models/unrelated.jsonl.
"""
import argparse
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "reference"))

import torch
import torch.nn.functional as F

import batches
import bpe
from gemma_torch import load_model, make_lora


def read_jsonl(path):
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def vocabulary_of(meta):
    merges = [m.split(" ", 1) for m in meta["tokenizer.ggml.merges"]]
    return bpe.Vocabulary.from_lists(meta["tokenizer.ggml.tokens"],
                                     meta["tokenizer.ggml.token_type"], merges)


def chat(messages):
    return [(m["role"], m["content"]) for m in messages]


def answers(model, vocabulary, questions, limit=24):
    """Greedy answers of a list of chats, all at once."""
    stop = vocabulary.ids["<turn|>"]
    rows = [vocabulary.encode(batches.render(q)) for q in questions]
    out = [[] for _ in rows]
    live = list(range(len(rows)))
    with torch.no_grad():
        for _ in range(limit):
            part = [(rows[i] + out[i] + [0], 1) for i in live]
            tokens, first, _ = batches.collate(part)
            last = torch.tensor([tokens.shape[1] - 1])
            best = model.forward(tokens, last, first)[:, 0].argmax(-1).tolist()
            for i, token in zip(list(live), best):
                if token == stop:
                    live.remove(i)
                else:
                    out[i].append(token)
            if not live:
                break
    return [vocabulary.decode(ids) for ids in out]


def teach(model, vocabulary, lessons, args):
    """One batch of all lessons a step; the loss is the mean over the answers' tokens."""
    generator = torch.Generator().manual_seed(args.seed)
    model.lora = make_lora(model.config, model.w, args.rank, args.alpha, generator)
    samples = [batches.encode(vocabulary, [("user", q)], lesson["answer"])
               for lesson in lessons for q in lesson["train"]]
    tokens, first, targets = batches.collate(samples)
    rows = batches.loss_rows(tokens, targets)
    parameters = model.lora.parameters()
    optimiser = torch.optim.AdamW(parameters, lr=args.lr, weight_decay=0)
    losses = []
    for _ in range(args.steps):
        logits = model.forward(tokens, rows, first)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        losses.append(loss.item())
        if losses[-1] < args.stop:
            break
    return losses


def report(model, vocabulary, lessons, unrelated, args):
    """(lesson wordings right of all, unrelated answers unchanged of all)."""
    held = [(lesson, q) for lesson in lessons for q in lesson["train"] + lesson["held_out"]]
    asked = [[("user", q)] for _, q in held]
    others = [chat(row["messages"]) for row in unrelated]
    model.lora = None
    before, others_before = answers(model, vocabulary, asked), answers(model, vocabulary, others)
    started = time.time()
    losses = teach(model, vocabulary, lessons, args)
    seconds = time.time() - started
    after, others_after = answers(model, vocabulary, asked), answers(model, vocabulary, others)
    right = sum(lesson["expect"] in a for (lesson, _), a in zip(held, after))
    same = sum(a == b for a, b in zip(others_before, others_after))
    expected = sum(a == row["answer"] for a, row in zip(others_before, unrelated))
    if args.verbose:
        for (_, q), b, a in zip(held, before, after):
            print("  %-55s %s -> %s" % (q, b, a))
        for q, b, a in zip(others, others_before, others_after):
            print("  %s %-55s %s%s" % (" " if a == b else "*", q[-1][1], b,
                                       "" if a == b else " -> " + a))
    print("%d steps, loss %.3f -> %.4f, %.1f s; wordings %d/%d, unrelated same %d/%d (right before "
          "%d)" % (len(losses), losses[0], losses[-1], seconds, right, len(held), same, len(others),
                   expected))
    return right / len(held), same / len(others)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default=str(ROOT / "models" / "lumi-small.gguf"))
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--alpha", type=float, default=16)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--stop", type=float, default=0.0, help="end below this loss")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    model, meta = load_model(args.model, torch.float32)
    folder = ROOT / "models"
    report(model, vocabulary_of(meta), read_jsonl(folder / "lessons.jsonl"),
           read_jsonl(folder / "unrelated.jsonl"), args)


if __name__ == "__main__":
    main()
