"""The held-out questions: wordings that training never saw.

Run: python3 heldout.py writes models/heldout.jsonl.
"""
import json
import random
from pathlib import Path

import worlds
from samples import Chats

SEED = 2026
OUTPUT = Path(__file__).resolve().parents[2] / "models" / "heldout.jsonl"


def held_out_chats(n):
    """[(messages, answer)], each with another question."""
    chats = Chats(random.Random(SEED), held_out=True)
    out, seen = [], set()
    while len(out) < n:
        messages, answer = chats.chat()
        # A statement is no wording of a question: its answer is always the same.
        if messages[-1][1] not in seen and answer != worlds.ACKNOWLEDGE:
            seen.add(messages[-1][1])
            out.append((messages, answer))
    return out


def write_held_out(path, n=200):
    with open(path, "w", encoding="utf-8") as file:
        for messages, answer in held_out_chats(n):
            row = {"messages": [{"role": role, "content": text} for role, text in messages],
                   "answer": answer}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write_held_out(OUTPUT)
