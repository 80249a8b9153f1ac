#!/usr/bin/env python3
"""Proves that the manual page and completions say what --help says, on a stand-in for the program."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MAKE_DOCS = Path(__file__).resolve().parent.parent.parent / "tools" / "make_docs.py"

PROGRAM = r'''#!/usr/bin/env python3
import sys
TOP = """lumi: a language model that answers
Usage: lumi [OPTIONS] [SUBCOMMAND]

Options:
  -h,--help                   Print this help message and exit
  --version                   lumi's version

Subcommands:
  run                         answer one prompt
  synth                       write a model: random


Examples:
  lumi chat                   talk
"""
RUN = """answer one prompt
Usage: lumi run [OPTIONS] [model]

Positionals:
  model TEXT                  GGUF file (default: the one inside)

Options:
  -h,--help                   Print this help message and exit
  -t,--threads INT:INT in [0 - 1024]=0
                              CPU threads (0 = physical cores)
  --kv TEXT:{f16,f32}         KV cache [type]: the model's
  --think                     let the model think first


Examples:
  lumi run -m model.gguf -p "Why?"
"""
SYNTH = """write a model: random
Usage: lumi synth [OPTIONS] shape

Options:
  --seed UINT=42              .seed of the weights
"""
asked = sys.argv[1:]
if asked == ["--version"]:
    print("lumi 1.2.3\nggml 0.25.1")
else:
    print({"--help": TOP, "run": RUN, "synth": SYNTH}[asked[0]], end="")
'''


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        program = cls.folder / "lumi"
        program.write_text(PROGRAM, encoding="utf-8")
        program.chmod(0o755)
        subprocess.run([sys.executable, MAKE_DOCS, program, cls.folder / "docs"], check=True)

    def text(self, name):
        return (self.folder / "docs" / name).read_text(encoding="utf-8")

    def complete(self, *words):
        """What bash offers for the last of the words."""
        typed = " ".join(f"'{word}'" for word in ("lumi", *words))
        script = (f"source {self.folder}/docs/lumi.bash; COMP_WORDS=({typed});"
                  f"COMP_CWORD={len(words)}; _lumi; echo ${{COMPREPLY[*]}}")
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        return done.stdout.split()

    def test_manual_page_has_every_option_command_and_example(self):
        page = self.text("lumi.1")
        for part in ["lumi 1.2.3", r"\fB\-\-threads\fR \fIINT:INT in [0 \- 1024]=0\fR",
                     "CPU threads (0 = physical cores)", ".SS synth", "\nmodel", r"\-\-kv",
                     r'lumi run \-m model.gguf \-p "Why?"', "EXIT STATUS"]:
            self.assertIn(part.replace("\nmodel", r"\fImodel TEXT"), page)

    def test_text_that_looks_like_a_request_is_not_one(self):
        self.assertIn("\n\\&.seed of the weights", self.text("lumi.1"))

    @unittest.skipUnless(shutil.which("man"), "needs man")
    def test_manual_page_is_read_without_warnings(self):
        command = ["man", "--warnings", "-l", str(self.folder / "docs" / "lumi.1")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        self.assertIn("--threads", done.stdout)

    def test_bash_offers_commands_then_options_then_choices(self):
        self.assertEqual(self.complete(""), ["run", "synth", "-h", "--help", "--version"])
        self.assertEqual(self.complete("run", "--th"), ["--threads", "--think"])
        self.assertEqual(self.complete("run", "--kv", ""), ["f16", "f32"])
        self.assertEqual(self.complete("synth", "--s"), ["--seed"])

    def test_zsh_and_fish_have_every_option(self):
        for name in ["-t", "--threads", "--kv", "--think", "--seed"]:
            self.assertIn(f"'*{name}[", self.text("_lumi"))
            self.assertIn(f"-l {name[2:]} " if name[1] == "-" else f"-s {name[1:]} ",
                          self.text("lumi.fish"))
        self.assertIn(r"KV cache \[type\]\: the model'\''s", self.text("_lumi"))
        for shell, name in [("zsh", "_lumi"), ("fish", "lumi.fish")]:
            if shutil.which(shell):
                subprocess.run([shell, "-n", self.folder / "docs" / name], check=True)


if __name__ == "__main__":
    unittest.main()
