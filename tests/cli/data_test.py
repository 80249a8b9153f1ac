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


class Config(Case):
    def print_config(self, *arguments):
        done = lumi("train", *arguments, "--print-config")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def wrong(self, content, words, *arguments, name="train.toml"):
        done = lumi("train", MODEL, self.file(chats(1)), "-o", self.path / "a.gguf", *arguments,
                    "--config", self.file(content, name))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(words, done.stderr)

    def test_print_config_feeds_back_byte_for_byte(self):
        odd = self.path / 'a "b" # c\\d.gguf'
        for arguments in [[], [MODEL, "d.jsonl", "-o", odd, "--lr", "3e-4", "--all-tokens", "--layers", "2-3"]]:
            first = self.print_config(*arguments)
            again = self.print_config("--config", self.file(first, "train.toml"))
            self.assertEqual(first, again)
        self.assertIn("lr = 3e-4\n", first)
        self.assertIn("all-tokens = true\n", first)

    def test_the_file_sets_and_the_command_line_wins(self):
        config = self.file("# mine\nlr = 2e-4  # rate\nrank = 4\nall-tokens = true\n", "train.toml")
        text = self.print_config("--config", config, "--rank", 8)
        self.assertIn("lr = 2e-4\n", text)
        self.assertIn("rank = 8\n", text)
        self.assertIn("all-tokens = true\n", text)
        config = self.file('{"lr": 0.0002, "schedule": "linear", "all-tokens": false}', "train.json")
        text = self.print_config("--config", config)
        for line in ["lr = 0.0002\n", 'schedule = "linear"\n', "all-tokens = false\n"]:
            self.assertIn(line, text)

    def test_wrong_files_are_named_with_the_line(self):
        self.wrong("seed = 1\n\nepohcs = 3\n", "train.toml: line 3: unknown key 'epohcs'; did you mean epochs?")
        self.wrong("epochs = 0", "train.toml: line 1: --epochs")
        self.wrong('lr = "fast"', "train.toml: line 1: ")
        self.wrong("epochs = 3\nepochs = 4", "line 2: epochs was set before, in line 1")
        self.wrong("[train]", "line 1: found '[train]'")
        self.wrong("targets = all", "line 1: found 'all'; allowed: a text in quotes")
        self.wrong('targets = "all', "line 1: the quotes do not end")
        self.wrong("epochs = 3 4", "line 1: found '3 4'")
        self.wrong('{"seed": 1,\n"epohcs": 3}', "train.json: line 2: unknown key 'epohcs'", name="train.json")
        self.wrong('{"seed": [1]}', "train.json: line 1: seed is array", name="train.json")
        self.wrong('{"seed": 1', "train.json: not valid JSON", name="train.json")
        self.wrong("config = 'x'", "unknown key 'config'")

    def test_a_config_trains(self):
        data = self.file(chats(4))
        config = self.file(f'model = "{MODEL}"\ndata = "{data}"\noutput = "{self.path}/c.gguf"\nthreads = 1\n'
                           "rank = 4\nmax-steps = 1\nval-split = 0\njson = true\n", "train.toml")
        done = lumi("train", "--config", config)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["step"], 1)
        self.assertTrue((self.path / "c.gguf").exists())


class DryRun(Case):
    def dry(self, content, *arguments):
        done = lumi("train", MODEL, self.file(content), "-o", self.path / "no.gguf", "-t", 1, "--dry-run", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((self.path / "no.gguf").exists())
        return done

    def test_it_counts_and_shows_and_trains_nothing(self):
        long = json.dumps({"text": "The cat sat on the mat. " * 40}) + "\n"
        out = json.loads(self.dry(chats(10) + long, "--window", 64, "--val-split", 0.2, "--epochs", 2, "--batch", 4,
                                  "--rank", 4, "--json").stdout)
        train = out["training"]
        self.assertEqual(train["records"] + out["validation"]["records"], 11)
        self.assertEqual(out["validation"]["records"], 2)
        self.assertEqual(out["steps_per_epoch"], -(-train["samples"] // 4))
        self.assertEqual(out["steps"], 2 * out["steps_per_epoch"])
        self.assertEqual(out["settings"]["batch"], "4")
        self.assertGreater(out["memory"]["anonymous_bytes"], 0)
        self.assertEqual(len(out["samples"]), 3)
        for sample in out["samples"]:
            self.assertLessEqual(sample["targets"], sample["tokens"])

    def test_what_is_masked_stands_between_marks(self):
        out = self.dry(chat("Hello?", "Red.\x1b[31m"), "--val-split", 0).stdout
        self.assertIn("\u203a", out)
        shown = out[out.index("line 1, "):]
        learnt = ""
        while "\u2039" in shown:
            before, shown = shown.split("\u2039", 1)
            learnt += before
            shown = shown.split("\u203a", 1)[1]
        self.assertIn("Red.", learnt)
        self.assertNotIn("Hello?", learnt)
        self.assertNotIn("\x1b", out)

    def test_its_steps_are_those_of_the_run(self):
        arguments = ["--epochs", 1, "--batch", 3]
        planned = json.loads(self.dry(chats(8), "--json", *arguments).stdout)["steps"]
        done = self.train(self.file(chats(8)), *arguments)
        self.assertEqual(sum(p["event"] == "step" for p in done), planned)

    def test_samples_on_both_sides_are_warned_of(self):
        validation = self.file(chats(2), "val.jsonl")
        done = self.dry(chats(4), "--val-file", validation, "--json")
        self.assertEqual(json.loads(done.stdout)["shared_samples"], 2)
        self.assertIn("2 of 2 validation samples are training samples too", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
