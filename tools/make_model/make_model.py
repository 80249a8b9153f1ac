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
BATCH = 32  # for each worker


def smooth(average, value):
    return value if average is None else 0.95 * average + 0.05 * value


def exact_share(model, vocabulary, chats):
    """Share of chats answered word for word, greedily: every row's best token is the next one."""
    right = 0
    with torch.no_grad():
        for i in range(0, len(chats), 50):
            part = [batches.encode(vocabulary, m, a) for m, a in chats[i:i + 50]]
            tokens, first, targets = batches.collate(part)
            best = model.forward(tokens, batches.loss_rows(tokens, targets), first).argmax(-1)
            right += ((best == targets) | (targets < 0)).all(1).sum().item()
    return right / len(chats)


class Flat:
    """All trained tensors as views of one array, and so their gradients: few passes, one copy."""

    def __init__(self, tensors):
        tensors = sorted(tensors, key=lambda t: t.dim() == 1)  # matrices first, stable
        sizes = [t.numel() for t in tensors]
        self.data = torch.cat([t.detach().flatten() for t in tensors])
        self.grad = torch.zeros_like(self.data)
        for t, data, grad in zip(tensors, self.data.split(sizes), self.grad.split(sizes)):
            t.data, t.grad = data.view_as(t), grad.view_as(t)
        n_matrix = sum(t.numel() for t in tensors if t.dim() > 1)
        self.parts = []
        for part in (slice(0, n_matrix), slice(n_matrix, None)):
            parameter = torch.nn.Parameter(self.data[part])
            parameter.grad = self.grad[part]
            self.parts.append(parameter)

    def optimiser(self, rate):
        matrices, vectors = self.parts
        return torch.optim.AdamW([{"params": [matrices], "weight_decay": 0.02},
                                  {"params": [vectors], "weight_decay": 0.0}],
                                 lr=rate, betas=(0.9, 0.98))

    def clip(self, limit):
        norm = self.grad.norm().item()
        if norm > limit:
            self.grad.mul_(limit / norm)


class Team:
    """Workers with the same weights that average their gradients. They wait for each other once a
    step; threads inside a product would a thousand times."""

    def __init__(self, n_workers, n_values):
        self.n_workers = n_workers
        self.shared = torch.zeros(n_workers, n_values).share_memory_()
        self.barrier = processes.get_context("fork").Barrier(n_workers)

    def average(self, rank, grad):
        if self.n_workers == 1:
            return
        self.shared[rank] = grad
        self.barrier.wait()
        torch.mean(self.shared, 0, out=grad)
        self.barrier.wait()


class Run:
    """One worker's state, and its checkpoint."""

    def __init__(self, rank, args, vocabulary):
        self.config = shipped_config()
        self.weights, self.trained = initial_weights(self.config, N_VOCAB, args.seed)
        self.flat = Flat(self.trained)
        self.optimiser = self.flat.optimiser(args.lr)
        self.first_step = 0
        if args.resume:
            state = torch.load(args.checkpoint)
            self.flat.data.copy_(state["data"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.first_step = state["step"]
        self.model = FastGemma(self.config, self.weights)
        seed = args.seed + 1000 * rank + self.first_step
        self.source = batches.stream(vocabulary, BATCH, seed)
        self.lessons = Lessons(vocabulary, random.Random(seed + 1), seed + 2)

    def backward(self, taught):
        """Leaves this worker's gradient in flat.grad; returns (loss, tokens)."""
        if taught:
            tokens, first, targets = self.lessons.outer_batch(self.model, self.trained)
        else:
            tokens, first, targets = next(self.source)
        logits = self.model.forward(tokens, batches.loss_rows(tokens, targets), first)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        self.flat.grad.zero_()
        loss.backward()
        self.model.lora = None
        return loss.item(), tokens.numel()

    def save(self, args, step, vocabulary):
        torch.save({"data": self.flat.data, "optimiser": self.optimiser.state_dict(), "step": step},
                   args.checkpoint + ".new")
        os.replace(args.checkpoint + ".new", args.checkpoint)
        write_model(args.output, self.config, self.weights, vocabulary)


def train(rank, args, vocabulary, team):
    torch.set_num_threads(1)
    run, held_out = Run(rank, args, vocabulary), held_out_chats(200)
    started, seen, averages = time.time(), 0, {False: None, True: None}
    for step in range(run.first_step, args.steps):
        taught = step >= args.teach_from and step % 4 == 3
        loss, n_tokens = run.backward(taught)
        team.average(rank, run.flat.grad)
        run.flat.clip(1.0)
        for group in run.optimiser.param_groups:
            group["lr"] = learning_rate(step, args.steps, args.lr)
        run.optimiser.step()
        seen += n_tokens * args.workers
        averages[taught] = smooth(averages[taught], loss)
        if rank == 0 and step % 50 == 49:
            print("step %d loss %.4f taught %.4f tokens/s %.0f" % (
                step + 1, averages[False], averages[True] or 0,
                seen / (time.time() - started)), flush=True)
        if rank == 0 and (step % 250 == 249 or step + 1 == args.steps):
            plain = Gemma(run.config, run.weights)
            print("held out %.3f" % exact_share(plain, vocabulary, held_out), flush=True)
            run.save(args, step + 1, vocabulary)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--teach-from", type=int, default=1000,
                        help="first step that also trains how lessons are taken")
    parser.add_argument("--lr", type=float, default=2.5e-3)
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
