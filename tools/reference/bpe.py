"""Learns merges and tokenises for small vocabularies of the `gemma4` and `llama` kinds, and writes
one of the `gpt2` kind.

Merges are learnt inside chunks ("▁word", one digit, one sign), so no merge crosses a word and
tokenising chunk by chunk equals tokenising the whole line, which the C++ tokeniser does.
"""
import re
from collections import Counter

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
CHUNK = re.compile(r"▁?[^\W\d_]+|\n+|.", re.S)

# The control texts of Gemma 4 that matter to a text model, with their token types.
GEMMA4_SPECIAL = [
    ("<pad>", CONTROL), ("<eos>", CONTROL), ("<bos>", CONTROL), ("<unk>", CONTROL),
    ("<mask>", CONTROL), ("<|tool>", CONTROL), ("<tool|>", CONTROL),
    ("<|tool_call>", USER_DEFINED), ("<tool_call|>", USER_DEFINED),
    ("<|tool_response>", CONTROL), ("<tool_response|>", USER_DEFINED),
    ('<|"|>', USER_DEFINED), ("<|think|>", CONTROL), ("<|channel>", USER_DEFINED),
    ("<channel|>", USER_DEFINED), ("<|turn>", CONTROL), ("<turn|>", CONTROL)]
GEMMA3_SPECIAL = [
    ("<pad>", CONTROL), ("<eos>", CONTROL), ("<bos>", CONTROL), ("<unk>", UNKNOWN),
    ("<start_of_turn>", CONTROL), ("<end_of_turn>", CONTROL)]
NEWLINE_RUN = 8


def escape(text):
    return text.replace(" ", "▁")


def learn_merges(texts, n_merges):
    """Most frequent pair first; ties by the pair itself, so that the result is reproducible."""
    words = Counter(c for text in texts for c in CHUNK.findall(escape(text)) if "\n" not in c)
    split = {word: list(word) for word in words}
    merges = []
    pairs, where = Counter(), {}
    for word, symbols in split.items():
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += words[word]
            where.setdefault(pair, set()).add(word)
    while len(merges) < n_merges and pairs:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        if pairs[best] < 1:
            break
        merges.append(best)
        for word in where.pop(best):
            symbols = split[word]
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] -= words[word]
            split[word] = symbols = merge_once(symbols, best)
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += words[word]
                where.setdefault(pair, set()).add(word)
        del pairs[best]
    return merges


def merge_once(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


class Vocabulary:
    """special, newline runs, bytes, characters, merged pieces: in that order."""

    def __init__(self, special, characters, merges, size):
        runs = ["\n" * n for n in range(1, NEWLINE_RUN + 1)]
        entries = list(special) + [(run, NORMAL) for run in runs]
        entries += [("<0x%02X>" % b, BYTE) for b in range(256)]
        entries += [(c, NORMAL) for c in sorted(set(characters) | {"▁"})]
        self.merges = [(run[1:], "\n") for run in runs[1:]]
        seen = {text for text, _ in entries}
        for left, right in merges:
            if len(entries) == size:
                break
            self.merges.append((left, right))
            if left + right not in seen:
                seen.add(left + right)
                entries.append((left + right, NORMAL))
        if len(entries) != size:
            raise ValueError("vocabulary has %d entries, wanted %d" % (len(entries), size))
        self.set_lists([text for text, _ in entries], [kind for _, kind in entries])

    @classmethod
    def from_lists(cls, tokens, types, merges):
        vocabulary = cls.__new__(cls)
        vocabulary.merges = [tuple(pair) for pair in merges]
        vocabulary.set_lists(tokens, types)
        return vocabulary

    def set_lists(self, tokens, types):
        self.tokens, self.types, self.cache = tokens, types, {}
        self.ids = {text: i for i, text in enumerate(tokens)}
        self.ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        marks = [t for t, kind in zip(tokens, types) if kind in (CONTROL, USER_DEFINED, UNKNOWN)]
        longest_first = sorted(marks, key=len)[::-1]
        self.special = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def scores(self):
        """For the `llama` kind, where the best-scored adjacent pair merges first."""
        rank = {}
        for i, (left, right) in enumerate(self.merges):
            rank.setdefault(left + right, -float(i))
        return [rank.get(token, -1e4 if kind == NORMAL else 0.0)
                for token, kind in zip(self.tokens, self.types)]

    def encode_chunk(self, chunk):
        if chunk not in self.cache:
            symbols = [chunk] if chunk in self.ids and "\n" in chunk else list(chunk)
            while True:
                known = [p for p in zip(symbols, symbols[1:]) if p in self.ranks]
                if not known:
                    break
                symbols = merge_once(symbols, min(known, key=self.ranks.get))
            ids = []
            for symbol in symbols:
                if symbol in self.ids:
                    ids.append(self.ids[symbol])
                else:
                    ids += [self.ids["<0x%02X>" % b] for b in symbol.encode("utf-8")]
            self.cache[chunk] = ids
        return self.cache[chunk]

    def encode(self, text, parse_special=True):
        """Control texts become control ids: only for text this repository writes itself."""
        ids = []
        for part in self.special.split(text) if parse_special else [text]:
            if parse_special and self.special.fullmatch(part):
                ids.append(self.ids[part])
            else:
                for chunk in CHUNK.findall(escape(part)):
                    ids += self.encode_chunk(chunk)
        return ids

    def decode(self, ids):
        out = b""
        for i in ids:
            if self.types[i] == BYTE:
                out += bytes([int(self.tokens[i][3:5], 16)])
            else:
                out += self.tokens[i].replace("▁", " ").encode("utf-8")
        return out.decode("utf-8", errors="replace")


def tokenizer_metadata(kind, vocabulary):
    """The GGUF keys of a vocabulary; kind is "gemma4" or "llama"."""
    eos = "<turn|>" if kind == "gemma4" else "<end_of_turn>"
    keys = [("tokenizer.ggml.model", "str", kind),
            ("tokenizer.ggml.tokens", "[str]", vocabulary.tokens),
            ("tokenizer.ggml.scores", "[f32]", vocabulary.scores()),
            ("tokenizer.ggml.token_type", "[i32]", vocabulary.types)]
    if kind == "gemma4":
        keys.append(("tokenizer.ggml.merges", "[str]", [a + " " + b for a, b in vocabulary.merges]))
    else:
        keys.append(("tokenizer.ggml.pre", "str", "default"))
    return keys + [("tokenizer.ggml.bos_token_id", "u32", vocabulary.ids["<bos>"]),
                   ("tokenizer.ggml.eos_token_id", "u32", vocabulary.ids[eos]),
                   ("tokenizer.ggml.unknown_token_id", "u32", vocabulary.ids["<unk>"]),
                   ("tokenizer.ggml.padding_token_id", "u32", vocabulary.ids["<pad>"]),
                   ("tokenizer.ggml.add_bos_token", "bool", True),
                   ("tokenizer.ggml.add_space_prefix", "bool", False)]


def byte_symbols():
    """GPT-2's characters for the 256 bytes: printable ones themselves, the rest from U+0100 up."""
    own = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = iter(range(0x100, 0x144))
    return [chr(b) if b in own else chr(next(rest)) for b in range(256)]


QWEN3_SPECIAL = [("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL),
                 ("<think>", USER_DEFINED), ("</think>", USER_DEFINED),
                 ("<tool_call>", USER_DEFINED), ("</tool_call>", USER_DEFINED)]


def byte_tokenizer_metadata(texts, size):
    """The GGUF keys of a `gpt2` vocabulary: bytes, pieces learnt from ASCII texts, specials last."""
    tokens, merges = byte_symbols(), []
    n_pieces = size - len(QWEN3_SPECIAL)
    for pair in learn_merges(texts, 4 * size):
        left, right = (part.replace("▁", tokens[0x20]) for part in pair)
        if len(tokens) == n_pieces:
            break
        merges.append(left + " " + right)
        if left + right not in tokens:
            tokens.append(left + right)
    if len(tokens) != n_pieces:
        raise ValueError("vocabulary has %d pieces, wanted %d" % (len(tokens), n_pieces))
    return [("tokenizer.ggml.model", "str", "gpt2"), ("tokenizer.ggml.pre", "str", "qwen2"),
            ("tokenizer.ggml.tokens", "[str]", tokens + [text for text, _ in QWEN3_SPECIAL]),
            ("tokenizer.ggml.token_type", "[i32]",
             [NORMAL] * n_pieces + [kind for _, kind in QWEN3_SPECIAL]),
            ("tokenizer.ggml.merges", "[str]", merges),
            ("tokenizer.ggml.bos_token_id", "u32", n_pieces),
            ("tokenizer.ggml.eos_token_id", "u32", n_pieces + 2),
            ("tokenizer.ggml.padding_token_id", "u32", n_pieces),
            ("tokenizer.ggml.add_bos_token", "bool", False)]
