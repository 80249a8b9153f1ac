"""Turns chats into left-padded batches whose answers end together, so that the rows with a loss are
the last few of every sample and the layers above the K/V owners run for those only."""
import random
import string

import torch

import bpe
from samples import Chats, render


def make_vocabulary(size, seed):
    chats = Chats(random.Random(seed))
    texts = []
    for _ in range(20000):
        messages, answer = chats.chat()
        texts += [text for _, text in messages] + [answer]
    texts += ["user", "model", "system", "thought"] * 200
    characters = set(string.printable[:95]) - {" "} | {c for t in texts for c in bpe.escape(t)}
    return bpe.Vocabulary(bpe.GEMMA4_SPECIAL, characters, bpe.learn_merges(texts, 2 * size), size)


def encode(vocabulary, messages, answer):
    """(ids, number of ids that carry loss): the answer and its end-of-turn mark."""
    target = vocabulary.encode(answer) + [vocabulary.ids["<turn|>"]]
    return vocabulary.encode(render(messages)) + target, len(target)


def collate(samples):
    """Inputs [B, T], first valid position [B], targets [B, M] with -100 where there is no loss."""
    width = max(len(ids) for ids, _ in samples)
    tail = max(n for _, n in samples)
    tokens = torch.zeros(len(samples), width, dtype=torch.long)
    targets = torch.full((len(samples), tail), -100)
    for row, (ids, n) in enumerate(samples):
        tokens[row, width - len(ids):] = torch.tensor(ids)
        targets[row, tail - n:] = tokens[row, width - n:]
    first = torch.tensor([width - len(ids) for ids, _ in samples])
    return tokens[:, :-1], first, targets


def loss_rows(tokens, targets):
    return torch.arange(tokens.shape[1] - targets.shape[1], tokens.shape[1])


def stream(vocabulary, batch_size, seed, group=8):
    """Endless batches; samples of similar length go together."""
    rng = random.Random(seed)
    chats = Chats(rng)
    while True:
        pool = [encode(vocabulary, *chats.chat()) for _ in range(group * batch_size)]
        pool.sort(key=lambda sample: len(sample[0]))
        cut = [pool[i:i + batch_size] for i in range(0, len(pool), batch_size)]
        rng.shuffle(cut)
        for samples in cut:
            yield collate(samples)
