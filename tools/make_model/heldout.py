"""The held-out questions: wordings that training never saw, written to models/heldout.jsonl."""
import json
import random

from samples import Chats

SEED = 2026
ROLES = {"system": "system", "user": "user", "assistant": "assistant"}


def held_out_chats(n):
    """[(messages, answer)], each with another question."""
    chats = Chats(random.Random(SEED), held_out=True)
    out, seen = [], set()
    while len(out) < n:
        messages, answer = chats.chat()
        if len(messages[-1][1]) and messages[-1][1] not in seen and answer != "I will remember that.":
            seen.add(messages[-1][1])
            out.append((messages, answer))
    return out


def write_held_out(path, n=200):
    with open(path, "w", encoding="utf-8") as file:
        for messages, answer in held_out_chats(n):
            row = {"messages": [{"role": ROLES[r], "content": t} for r, t in messages],
                   "answer": answer}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
