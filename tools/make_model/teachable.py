"""Trains the base to take lessons well: teach a few invented facts to a throw-away adapter, then
train the base, with that adapter in place, on other wordings of those facts and on unrelated chats.

First-order only: the base follows the gradient at the adapted weights. Without this a small model
that learns one fact tends to give it as the answer to its neighbours too.
"""
import torch
import torch.nn.functional as F

import batches
from gemma_torch import make_lora
from samples import Chats

RANK, ALPHA = 8, 16.0


class Lessons:
    def __init__(self, vocabulary, rng, seed):
        self.vocabulary, self.rng, self.chats = vocabulary, rng, Chats(rng)
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, n_other, n_unrelated):
        """(lesson samples, outer samples): a wording per fact; other ones and unrelated chats."""
        rng, chats, taken = self.rng, self.chats, set()
        lessons, outer = [], []
        for _ in range(rng.choice((1, 2, 3, 3, 3, 4))):
            fact = chats.fact(taken)
            ask = lambda: [("user", chats.question(fact["intent"], fact["x"]))]
            lessons.append(batches.encode(self.vocabulary, ask(), fact["answer"]))
            for _ in range(n_other):
                outer.append(batches.encode(self.vocabulary, ask(), fact["answer"]))
        chats.avoid = taken
        while len(outer) < n_unrelated:
            outer.append(batches.encode(self.vocabulary, *chats.chat()))
        chats.avoid = set()
        return lessons, outer

    def adapt(self, model, trained, lessons):
        """Leaves a taught adapter in model.lora; the base does not move."""
        tokens, first, targets = batches.collate(lessons)
        rows = batches.loss_rows(tokens, targets)
        for t in trained:
            t.requires_grad_(False)
        model.lora = make_lora(model.config, model.w, RANK, ALPHA, self.generator)
        parameters = model.lora.parameters()
        rate = 10 ** self.rng.uniform(-2.8, -2.3)
        optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=0, foreach=True)
        enough = self.rng.choice((0.1, 0.05, 0.02, 0.01))
        for _ in range(20):
            logits = model.forward(tokens, rows, first)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            if loss.item() < enough:
                break
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        for t in parameters:
            t.requires_grad_(False)
        for t in trained:
            t.requires_grad_(True)

    def outer_batch(self, model, trained, n_other=2, size=24):
        lessons, outer = self.draw(n_other, size)
        self.adapt(model, trained, lessons)
        return batches.collate(outer)
