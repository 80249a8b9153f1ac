"""Training data at the command line: tiny and odd files, lumi eval, what train says beforehand.

usage: data_test.py PROGRAM SOURCE_DIR [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]
SOURCE = pathlib.Path(sys.argv[2])
MODEL = SOURCE / "models/lumi-small.gguf"


def lumi(*arguments, timeout=120):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


def chat(question, answer, **more):
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": messages, **more}) + "\n"


def chats(n):
    return "".join(chat(f"What colour is box {i}?", ["Red.", "Blue.", "Green."][i % 3]) for i in range(n))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def file(self, content, name="data.jsonl"):
        path = self.path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def eval(self, *arguments):
        done = lumi("eval", MODEL, *arguments, "-t", 1, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def train(self, data, *arguments):
        """Its progress as a list; the adapter is a.gguf."""
        done = lumi("train", MODEL, data, "-o", self.path / "a.gguf", "-t", 1, "--rank", 4, "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def refused(self, content, words, *arguments):
        data = self.file(content)
        for command in [("eval", MODEL, data), ("train", MODEL, data, "-o", self.path / "no.gguf")]:
            done = lumi(*command, "-t", 1, *arguments)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("error:"), 1, done.stderr)
        self.assertFalse((self.path / "no.gguf").exists())


class OddData(Case):
    """Issue: every odd file gives the right result or one right error."""

    def steps(self, content, *arguments):
        return sum(p["event"] == "step" for p in self.train(self.file(content), "--epochs", 1, *arguments))

    def test_no_sample_is_an_error_that_says_so(self):
        self.refused("", "is empty (0 bytes")
        self.refused("\n \r\n", "is empty")
        self.refused("[]", "no usable training sample")

    def test_one_and_two_samples_train_whatever_the_split(self):
        for n in [1, 2]:
            self.assertEqual(self.steps(chats(n), "--val-split", 0.2, "--batch", 1), n)

    def test_a_sample_longer_than_the_window_is_cut_and_counted(self):
        data = self.file(json.dumps({"text": "The cat sat on the mat. " * 40}))
        told = self.eval(data, "--window", 64)["data"]
        self.assertEqual((told["records"], told["cut"]), (1, 1))
        self.assertGreater(told["samples"], 5)
        self.assertLessEqual(told["longest_tokens"], 64)
        self.assertEqual(told["targets"], self.eval(data, "--window", 512)["data"]["targets"])
        self.assertEqual(self.steps(data.read_bytes(), "--window", 64, "--batch", 100), 1)

    def test_all_masked_samples_are_one_error_and_some_are_counted(self):
        masked = json.dumps({"messages": [{"role": "user", "content": "Alone."}]}) + "\n"
        self.refused(masked * 3, "3 samples without a token to learn")
        told = self.eval(self.file(masked * 3 + chats(2)))["data"]
        self.assertEqual((told["samples"], told["left_out"]), (2, 3))

    def test_emoji_crlf_and_bom_change_nothing(self):
        plain = chat("Say it.", "Hi \U0001f600!") + chats(2)
        raw = plain.replace("\\ud83d\\ude00", "\U0001f600")
        self.assertNotEqual(raw, plain)
        dressed = b"\xef\xbb\xbf" + raw.replace("\n", "\r\n").encode()
        a, b = self.eval(self.file(plain)), self.eval(self.file(dressed))
        self.assertEqual(a["base"], b["base"])

    def test_a_megabyte_line_is_read_in_windows(self):
        told = self.eval(self.file(json.dumps({"text": "word " * 200000, "weight": 0}) + "\n" + chats(1)))["data"]
        self.assertEqual((told["samples"], told["left_out"]), (1, 1))
        data = self.file(json.dumps({"text": "word " * 200000}))
        steps = self.train(data, "--window", 64, "--max-steps", 2, "--val-split", 0)
        self.assertEqual(steps[-1]["step"], 2)

    def test_broken_json_in_line_7_is_named(self):
        self.refused(chats(6) + '{"messages": [\n' + chats(3), "data.jsonl: line 7: not valid JSON")

    def test_bytes_that_are_no_text_are_refused(self):
        self.refused(chats(2).encode() + b'{"text": "\xff"}', "line 3: not valid JSON (UTF-8)")
        self.refused(chats(2).encode() + b'{"text": "a\0b"}', "line 3: not valid JSON (UTF-8)")
        self.refused(chats(2).encode("utf-16"), "UTF-16")
        self.refused(MODEL.read_bytes()[:4096], "line 1: ")

    def test_a_list_works_as_lines_do(self):
        lines = [json.loads(line) for line in chats(4).splitlines()]
        a = self.eval(self.file(chats(4)))
        b = self.eval(self.file(json.dumps(lines, indent=2), "data.json"))
        self.assertEqual(a["base"], b["base"])
        self.assertEqual(b["data"]["format"], "chat JSON list")


class Eval(Case):
    def test_step_0_of_training_is_eval_of_the_base(self):
        data = self.file(chats(12))  # cases/training.md L3
        first = self.train(data, "--batch", 12, "--val-split", 0, "--max-steps", 1)[0]
        self.assertEqual(first["event"], "step")
        self.assertAlmostEqual(first["loss"], self.eval(data)["base"]["loss"], delta=1e-3)

    def test_step_0_agrees_where_windows_and_weights_differ(self):
        long = json.dumps({"text": "The cat sat on the mat. " * 30, "weight": 0.5}) + "\n"
        data = self.file(chats(5) + long + chat("What is it?", "Bad.", reward=-1))
        options = ["--window", 64, "--all-tokens"]
        first = self.train(data, "--batch", 100, "--val-split", 0, "--max-steps", 1, *options)[0]
        self.assertAlmostEqual(first["loss"], self.eval(data, *options)["base"]["loss"], delta=1e-3)

    def test_the_held_out_part_is_that_of_training(self):
        data = self.file(chats(20))
        split = ["--val-split", 0.25, "--seed", 7]
        first = self.train(data, "--max-steps", 1, *split)[0]
        self.assertEqual(first["event"], "validation")
        evaluated = self.eval(data, *split)
        self.assertEqual(evaluated["data"]["records"], 5)
        self.assertAlmostEqual(first["loss"], evaluated["base"]["loss"], delta=1e-3)

    def test_adapters_stand_beside_the_base_and_samples_add_up(self):
        data = self.file(chats(6))
        self.train(data, "--max-steps", 5, "--lr", "3e-3", "--val-split", 0)
        adapter = self.path / "a.gguf"
        got = self.eval(data, "--adapter", adapter, "--adapter", f"{adapter}:0", "--per-sample")
        self.assertLess(got["adapters"][0]["loss"], got["base"]["loss"])
        self.assertAlmostEqual(got["adapters"][1]["loss"], got["base"]["loss"], delta=1e-6)
        samples = got["base"]["samples"]
        self.assertEqual([s["line"] for s in samples], [1, 2, 3, 4, 5, 6])
        total = sum(s["loss"] * s["targets"] for s in samples) / sum(s["targets"] for s in samples)
        self.assertAlmostEqual(total, got["base"]["loss"], delta=1e-6)
        table = lumi("eval", MODEL, data, "-t", 1, "--adapter", adapter).stdout
        for word in ["base", "a.gguf", "loss", "perplexity"]:
            self.assertIn(word, table)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
