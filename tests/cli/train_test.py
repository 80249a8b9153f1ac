"""`lumi train` as a user meets it: interrupting, resuming, reports, refusals.

usage: train_test.py PROGRAM SOURCE_DIR [unittest arguments]
"""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

PROGRAM = sys.argv[1]
SOURCE = pathlib.Path(sys.argv[2])
MODEL = SOURCE / "models/lumi-small.gguf"


def run(words, timeout=120, **options):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=timeout, **options)


class Train(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.data = self.path / "chats.jsonl"
        with self.data.open("w") as file:
            for i in range(10):
                file.write(json.dumps({"messages": [{"role": "user", "content": f"What is {i}?"},
                                                    {"role": "assistant", "content": f"It is {i * 7}."}]}) + "\n")
        self.output = self.path / "it's a file.gguf"  # a name that a shell must see quoted

    def words(self, *more):
        return [PROGRAM, "train", MODEL, self.data, "-o", self.output, "-t", 1, "--rank", 4, "--batch", 4,
                "--lr", "1e-3", "--val-split", 0.2, *more]

    def interrupt(self, *more, how=signal.SIGINT):
        """Stops a run that has made a few steps."""
        process = subprocess.Popen([str(w) for w in self.words("--json", *more)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if json.loads(line)["step"] >= 3:
                process.send_signal(how)
                break
        rest = process.communicate()
        return process.returncode, rest[1]

    def test_ctrl_c_saves_and_the_printed_command_ends_with_the_same_bytes(self):
        more = ("--epochs", 6)
        self.assertEqual(run(self.words(*more)).returncode, 0)
        wanted = self.output.read_bytes()
        self.assertEqual([p.name for p in self.path.iterdir() if "checkpoints" in p.name], [])
        for how in (signal.SIGINT, signal.SIGTERM):
            code, said = self.interrupt(*more, how=how)
            self.assertEqual(code, 130, said)
            self.assertIn("to go on:", said)
            command = shlex.split(said.splitlines()[-1])
            self.assertIn("--resume", command)
            self.assertEqual(len([p for p in (self.path / "it's a file.gguf.checkpoints").iterdir()]), 1)
            again = run(self.words(*more))
            self.assertEqual(again.returncode, 1)
            self.assertIn("--resume", again.stderr)
            done = run(command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(self.output.read_bytes() == wanted)
            self.assertFalse((self.path / "it's a file.gguf.checkpoints").exists())

    def test_resuming_with_other_settings_or_data_is_refused_by_name(self):
        kept = self.path / "kept"
        more = ("--epochs", 6, "--checkpoint-dir", kept, "--save-every", 1, "--keep", 3)
        code, said = self.interrupt(*more)
        self.assertEqual(code, 130, said)
        self.assertEqual(len(list(kept.iterdir())), 3)
        other = run(self.words(*more, "--resume", kept, "--warmup", 7))
        self.assertEqual(other.returncode, 1)
        self.assertIn("warmup_steps was 5, is 7", other.stderr)
        with self.data.open("a") as file:
            file.write('{"text": "One more."}\n')
        other = run(self.words(*more, "--resume", kept))
        self.assertEqual(other.returncode, 1)
        self.assertIn("data was", other.stderr)
        empty = run(self.words(*more, "--resume", self.path))
        self.assertEqual(empty.returncode, 1)
        self.assertIn("no checkpoint", empty.stderr)

    def test_reports_are_written_in_every_format(self):
        board = self.path / "board"
        done = run(self.words("--epochs", 3, "--metrics", self.path / "m.jsonl", "--tensorboard", board, "--loss-svg",
                              self.path / "loss.svg"))
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in (self.path / "m.jsonl").read_text().splitlines()]
        self.assertEqual([e["step"] for e in events if e["event"] == "step"], [1, 2, 3, 4, 5, 6])
        self.assertEqual(len([e for e in events if e["event"] == "validation"]), 4)
        self.assertGreater(events[-1]["memory_bytes"], 1 << 20)
        self.assertEqual(len(list(board.iterdir())), 1)
        picture = xml.etree.ElementTree.parse(self.path / "loss.svg").getroot()
        self.assertEqual(len(picture.findall("{http://www.w3.org/2000/svg}path")), 3)
        self.assertIn("kept epoch", done.stderr)
        wrong = run(self.words("--metrics", self.path / "m.txt"))
        self.assertEqual(wrong.returncode, 1)
        self.assertIn(".jsonl or .csv", wrong.stderr)

    def test_an_adapter_goes_on_with_its_own_rank(self):
        first = self.path / "first.gguf"
        done = run([*self.words("--max-steps", 1, "--targets", "q,v", "--rslora"), "-o", first])
        self.assertEqual(done.returncode, 2)  # two outputs
        done = run(self.words("--max-steps", 1, "--targets", "q,v", "--rslora"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.output.rename(first)
        told = run([PROGRAM, "inspect", first]).stdout
        self.assertRegex(told, r"adapter.lora.alpha +64\b")  # 32 * sqrt(4), so that alpha / rank is 32 / sqrt(4)
        for more, name in [(("--init-from", first, "--rank", 8), "--rank"),
                           (("--init-from", first, "--targets", "q"), "--targets")]:
            words = [w for w in self.words("--max-steps", 1)]
            at = words.index("--rank")
            del words[at:at + 2]
            refused = run([*words, *more])
            self.assertEqual(refused.returncode, 1, refused.stderr)
            self.assertIn(name, refused.stderr)
            self.assertIn("--init-from", refused.stderr)
        done = run(self.words("--max-steps", 1, "--init-from", first))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("q, v of layers", run([PROGRAM, "inspect", self.output]).stdout)

    def test_wrong_wishes_are_refused_before_the_training(self):
        for more, words in [(("--early-stop", 2, "--val-split", 0), "early_stop"), (("--window", 8), "--window"),
                            (("--lr", "nan"), "learning_rate"), (("--layers", "3-1"), "--layers"),
                            (("--rank", 1024), "rank"), (("--targets", "tails"), "tails")]:
            command = self.words()
            for flag in more[::2]:
                if flag in command:
                    at = command.index(flag)
                    del command[at:at + 2]
            refused = run([*command, *more])
            self.assertIn(refused.returncode, (1, 2), more)
            self.assertIn(words, refused.stderr)
            self.assertNotIn("step 1/", refused.stderr)
            self.assertFalse(self.output.exists())


class Soak(unittest.TestCase):
    def test_killed_runs_leave_whole_checkpoints(self):
        done = run([SOURCE / "tools/soak", PROGRAM, MODEL, "--kills", 2, "--save-kills", 1, "--epochs", 2], timeout=280)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 random kills, 1 kills during a save", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
