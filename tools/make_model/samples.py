"""Draws chats: messages and the answer to the last one. Everything comes from one seeded generator.

A value told in the chat is drawn anew each time, from long lists and from invented words, so that
the model learns to look facts up instead of to expect them.
"""
import worlds
from wordings import Intents, casual, polish

ONSETS = "b c d f g h j k l m n p r s t v w z br cr dr fl gr kl pl pr sk sl st tr".split()
VOWELS = "a e i o u a e i o ai ee oo".split()
CODAS = ["", "", "", "n", "l", "r", "s", "x", "m", "k", "t"]
KINDS = [("knowledge", 40), ("told", 30), ("unknown", 14), ("third", 6), ("talk", 6),
         ("statement", 5)]


def invented(rng, capital=True):
    word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS)
                   for _ in range(rng.choice((1, 2, 2))))
    return word.capitalize() if capital else word


VALUES = {"pet_names": worlds.PETS + worlds.PEOPLE, "people": worlds.PEOPLE,
          "cities": worlds.CITIES, "jobs": worlds.JOBS, "colours": worlds.COLOURS,
          "foods": worlds.FOODS,
          "drinks": worlds.DRINKS, "animals": worlds.ANIMALS, "numbers": worlds.NUMBERS,
          "months": worlds.MONTHS, "sports": worlds.SPORTS, "instruments": worlds.INSTRUMENTS,
          "languages": worlds.LANGUAGES, "places": worlds.PLACES}
NAMES = ("pet_names", "people", "cities")


def value(kind, rng):
    if kind == "codes":
        return str(rng.randrange(100, 1000))
    if kind in NAMES and rng.random() < 0.3:
        return invented(rng)
    if kind not in ("numbers", "months") and rng.random() < 0.06:
        return invented(rng, capital=kind == "languages")
    return rng.choice(VALUES[kind])


class Chats:
    def __init__(self, rng, held_out=False):
        self.rng, self.intents, self.held_out = rng, Intents(), held_out
        self.avoid = set()  # facts that no chat may mention for now

    def question(self, name, x="", held_out=None):
        held_out = self.held_out if held_out is None else held_out
        text = self.intents.pick(name, self.rng, held_out).replace("{x}", str(x))
        return polish(text) if held_out else casual(text, self.rng)

    def sentence(self, text):
        return polish(text) + "."

    # --- one question and its answer --------------------------------------------------------
    def knowledge(self, held_out=None):
        weights = {"capital": 3, "opposite": 3, "plus": 4, "minus": 3, "colour_of": 1.5}
        if not self.held_out:
            weights.update(plus=8, minus=7)  # the slowest to learn
        names = list(worlds.KNOWLEDGE)
        name = self.rng.choices(names, [weights.get(n, 1) for n in names])[0]
        x, y = self.rng.choice(worlds.KNOWLEDGE[name][0])
        answer = worlds.KNOWLEDGE[name][1].replace("{x}", str(x)).replace("{y}", str(y))
        return self.question(name, x, held_out), polish(answer)

    def talk(self, held_out=None):
        name = self.rng.choice(list(worlds.GREETINGS) + list(worlds.ABOUT_LUMI))
        question = self.question(name, "", held_out)
        if name in worlds.GREETINGS:
            return question, worlds.GREETINGS[name][1]
        return question, worlds.ABOUT_LUMI[name][0]

    def fact(self, taken, third=False):
        """(key, statement, question's intent and x, answer, unknown answer), key not in `taken`."""
        rng = self.rng
        while True:
            if third:
                name = rng.choice(list(worlds.THIRD))
                values, answer, unknown, statements = worlds.THIRD[name][:4]
                x = invented(rng) if rng.random() < 0.2 else rng.choice(worlds.PEOPLE)
            else:
                weights = [3 if n in ("pet", "relative") else 1 for n in worlds.PERSONAL]
                name = rng.choices(list(worlds.PERSONAL), weights)[0]
                kinds, values, answer, unknown, statements = worlds.PERSONAL[name][:5]
                x = rng.choice(kinds) if kinds else ""
            if (name, x) not in taken and (name, x) not in self.avoid:
                break
        taken.add((name, x))
        y = value(values, rng)
        fill = lambda text: text.replace("{x}", x).replace("{y}", y)
        return {"intent": name, "x": x, "says": fill(rng.choice(statements)),
                "answer": polish(fill(answer)), "unknown": polish(fill(unknown))}

    # --- chats: (messages, answer) -----------------------------------------------------------
    def chat(self):
        kind = self.rng.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
        return getattr(self, "chat_" + kind)()

    def chat_knowledge(self):
        return self.with_history(*self.knowledge())

    def chat_talk(self):
        return self.with_history(*self.talk())

    def with_history(self, question, answer):
        messages = []
        roll = self.rng.random()
        if roll < 0.08:
            facts = self.facts(self.rng.choice((1, 2)), self.rng.random() < 0.3)
            messages.append(("system", self.told_system(facts)))
        elif roll < 0.22:
            earlier = self.talk(False) if self.rng.random() < 0.3 else self.knowledge(False)
            messages += [("user", earlier[0]), ("assistant", earlier[1])]
        elif roll < 0.26:
            messages += self.told_turns(self.facts(1, False))
        return messages + [("user", question)], answer

    def facts(self, n, third):
        taken = set()
        return [self.fact(taken, third) for _ in range(n)]

    def told_system(self, facts):
        text = " ".join(self.sentence(f["says"]) for f in facts)
        third = facts[0]["intent"] in worlds.THIRD
        return text if third else "The user says: " + text

    def told_turns(self, facts):
        out = []
        for f in facts:
            out += [("user", self.sentence(f["says"])), ("assistant", worlds.ACKNOWLEDGE)]
        return out

    def told(self, third, known):
        """Facts by system line, by earlier turns, or in front of the question; one is asked for."""
        n = self.rng.choice((1, 1, 1, 2, 2, 3))
        facts = self.facts(n + (not known), third)
        asked = facts.pop() if not known else self.rng.choice(facts)
        question = self.question(asked["intent"], asked["x"])
        answer = asked["answer"] if known else asked["unknown"]
        roll = self.rng.random()
        if roll < 0.4:
            return [("system", self.told_system(facts)), ("user", question)], answer
        if roll < 0.75 and not third:
            return self.told_turns(facts[-2:] if asked not in facts[:-2] else [asked]) \
                + [("user", question)], answer
        says = " ".join(self.sentence(f["says"]) for f in facts)
        return [("user", says + " " + question)], answer

    def chat_told(self):
        return self.told(third=False, known=True)

    def chat_third(self):
        return self.told(third=True, known=self.rng.random() < 0.8)

    def chat_unknown(self):
        if self.rng.random() < (0.35 if self.held_out else 0.6):  # hard: told other things
            return self.told(third=False, known=False)
        fact = self.fact(set(), self.rng.random() < 0.1)
        question = self.question(fact["intent"], fact["x"])
        return self.with_unrelated_history(question, fact["unknown"])

    def with_unrelated_history(self, question, answer):
        messages = []
        if self.rng.random() < 0.2:
            earlier = self.talk(False) if self.rng.random() < 0.4 else self.knowledge(False)
            messages = [("user", earlier[0]), ("assistant", earlier[1])]
        return messages + [("user", question)], answer

    def chat_statement(self):
        fact = self.fact(set())
        return [("user", self.sentence(fact["says"]))], worlds.ACKNOWLEDGE


def render(messages):
    """Gemma 4's chat format up to and with the model's turn header."""
    roles = {"system": "system", "user": "user", "assistant": "model"}
    turns = ["<|turn>%s\n%s<turn|>\n" % (roles[role], text) for role, text in messages]
    return "<bos>" + "".join(turns) + "<|turn>model\n"
