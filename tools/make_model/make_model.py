"""Trains the model that ships and writes models/lumi-small.gguf.

Run: python3 make_model.py [--steps N] [--workers N] [--checkpoint FILE] [--resume] [-o FILE]
Text, vocabulary, weights and order are seeded; see models/README.md for what comes out.
"""
import argparse
import os
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "reference"))

import torch
import torch.multiprocessing as processes
import torch.nn.functional as F

import batches
from export import write_model
from fast_gemma import FastGemma, initial_weights, learning_rate, shipped_config
from gemma_torch import Gemma
from heldout import held_out_chats
from teachable import Lessons

N_VOCAB = 2048
BATCH = 48  # for each worker


def smooth(average, value):
    return value if average is None else 0.95 * average + 0.05 * value


def exact_share(model, vocabulary, chats):
    """Share of chats whose greedy answer is the expected one: every row's best token is the next."""
    right = 0
    with torch.no_grad():
        for i in range(0, len(chats), 50):
            part = [batches.encode(vocabulary, m, a) for m, a in chats[i:i + 50]]
            tokens, first, targets = batches.collate(part)
            best = model.forward(tokens, batches.loss_rows(tokens, targets), first).argmax(-1)
            right += ((best == targets) | (targets < 0)).all(1).sum().item()
    return right / len(chats)


class Team:
    """Workers with the same weights that average their gradients: one barrier a step. Threads inside
    a product would wait for each other a thousand times a step."""

    def __init__(self, n_workers, n_values):
        self.n_workers = n_workers
        self.shared = torch.zeros(n_workers, n_values).share_memory_()
        self.barrier = processes.get_context("fork").Barrier(n_workers)

    def average(self, rank, parameters):
        if self.n_workers == 1:
            return
        self.shared[rank] = torch.cat([t.grad.flatten() for t in parameters])
        self.barrier.wait()
        mean = self.shared.mean(0)
        self.barrier.wait()
        for t, part in zip(parameters, mean.split([t.numel() for t in parameters])):
            t.grad = part.view_as(t)


def train(rank, args, vocabulary, team):
    torch.set_num_threads(1)
    seed = args.seed + 1000 * rank
    config = shipped_config()
    weights, trained = initial_weights(config, N_VOCAB, args.seed)
    model = FastGemma(config, weights)
    decayed = [t for t in trained if t.dim() > 1]
    plain = [t for t in trained if t.dim() == 1]
    optimiser = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.02},
                                   {"params": plain, "weight_decay": 0.0}], lr=args.lr,
                                  betas=(0.9, 0.98), foreach=True)
    first_step = 0
    if args.resume:
        state = torch.load(args.checkpoint)
        for t, saved in zip(trained, state["weights"]):
            t.data.copy_(saved)
        optimiser.load_state_dict(state["optimiser"])
        first_step = state["step"]
    held_out = held_out_chats(200)
    source = batches.stream(vocabulary, BATCH, seed + first_step)
    lessons = Lessons(vocabulary, random.Random(seed + 1 + first_step), seed + 2 + first_step)
    started, seen, average, taught_average = time.time(), 0, None, None
    for step in range(first_step, args.steps):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, args.steps, args.lr)
        taught = step >= args.teach_from and step % 3 == 2
        tokens, first, targets = lessons.outer_batch(model, trained) if taught else next(source)
        logits = model.forward(tokens, batches.loss_rows(tokens, targets), first)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        team.average(rank, trained)
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        model.lora = None
        seen += tokens.numel() * args.workers
        if rank > 0:
            continue
        if taught:
            taught_average = smooth(taught_average, loss.item())
        else:
            average = smooth(average, loss.item())
        if step % 20 == 19:
            print("step %d loss %.4f taught %.4f tokens/s %.0f" % (
                step + 1, average, taught_average or 0, seen / (time.time() - started)), flush=True)
        if step % 200 == 199 or step + 1 == args.steps:
            print("held out %.3f" % exact_share(Gemma(config, weights), vocabulary, held_out),
                  flush=True)
            torch.save({"weights": trained, "optimiser": optimiser.state_dict(),
                        "step": step + 1}, args.checkpoint + ".new")
            os.replace(args.checkpoint + ".new", args.checkpoint)
            write_model(args.output, config, weights, vocabulary)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--teach-from", type=int, default=1500,
                        help="first step that also trains how lessons are taken")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--checkpoint", default="lumi-small.pt")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("-o", "--output", default=str(ROOT / "models" / "lumi-small.gguf"))
    args = parser.parse_args()
    vocabulary = batches.make_vocabulary(N_VOCAB, seed=7)
    n_values = sum(t.numel() for t in initial_weights(shipped_config(), N_VOCAB, args.seed)[1])
    team = Team(args.workers, n_values)
    processes.start_processes(train, (args, vocabulary, team), args.workers, start_method="fork")


if __name__ == "__main__":
    main()
