"""Puts the forms of worlds.py into sentences and splits them into trained and held-out wordings.

A wording is a whole question with open slots, such as "can you tell me what my {x} is called?".
One in ten of every intent is never trained; its parts occur in other wordings.
"""
import random
import re

import worlds

DIRECT = ["{q}?", "hey, {q}?", "tell me, {q}?", "please tell me, {q}?", "{q}, please?",
          "quick question: {q}?", "so {q}?", "one more thing: {q}?", "I have a question: {q}?"]
NOUN = ["what is {q}?", "tell me {q}.", "please tell me {q}.", "do you know {q}?",
        "can you tell me {q}?", "do you remember {q}?", "I want to know {q}.", "I forgot {q}.",
        "say {q}.", "give me {q}.", "could you tell me {q}?", "name {q}.", "remind me of {q}.",
        "I would like to know {q}."]
INDIRECT = ["tell me {q}.", "please tell me {q}.", "do you know {q}?", "can you tell me {q}?",
            "could you tell me {q}?", "I want to know {q}.", "do you remember {q}?",
            "I forgot {q}.", "say {q}.", "I wonder {q}.", "remind me {q}.",
            "I would like to know {q}."]
GREETING = ["{q}", "{q}!", "{q}.", "{q}, lumi", "{q}, lumi!", "ah, {q}", "well, {q}"]
HELD_OUT_SHARE = 0.1


def wordings(noun, direct, indirect):
    out = []
    for wrappers, forms in ((DIRECT, direct), (NOUN, noun), (INDIRECT, indirect)):
        out += [w.replace("{q}", form) for w in wrappers for form in forms]
    return list(dict.fromkeys(out))


def split(items, name):
    """(trained, held out): seeded by the intent's name, so that adding an intent moves no other."""
    items = list(items)
    random.Random("held out " + name).shuffle(items)
    n_held = max(1, round(HELD_OUT_SHARE * len(items)))
    return items[n_held:], items[:n_held]


def polish(text):
    """a owl -> an owl; first letter in upper case."""
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
    return text[0].upper() + text[1:]


def casual(question, rng):
    """How people type: sometimes no capital, sometimes no sign at the end."""
    question = polish(question)
    if rng.random() < 0.2 and not question.startswith("I "):
        question = question[0].lower() + question[1:]
    if rng.random() < 0.15:
        question = question.rstrip("?.")
    return question


class Intents:
    """Every intent's wordings, trained and held out: name -> (list, list)."""

    def __init__(self):
        self.table = {}
        for source in (worlds.KNOWLEDGE, worlds.PERSONAL, worlds.THIRD, worlds.ABOUT_LUMI):
            for name, row in source.items():
                self.table[name] = split(wordings(*row[-3:]), name)
        for name, (ways, _) in worlds.GREETINGS.items():
            self.table[name] = split([g.replace("{q}", w) for g in GREETING for w in ways], name)

    def pick(self, name, rng, held_out=False):
        return rng.choice(self.table[name][1 if held_out else 0])
