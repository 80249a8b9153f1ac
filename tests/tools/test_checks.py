#!/usr/bin/env python3
"""Proves that the checks in tools/ can fail: each is run on a small tree with a planted violation."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class Checks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def plant(self, path, text):
        file = Path(self.folder.name) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def run_check(self, name):
        command = [sys.executable, str(ROOT / "tools" / name), self.folder.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def expect_pass(self, name):
        self.assertEqual(self.run_check(name)[0], 0)

    def expect_failure(self, name, message):
        code, output = self.run_check(name)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)

    def test_layers_accept_earlier_folders_own_folder_and_system_headers(self):
        self.plant("src/graph/a.cpp", '#include "graph/a.h"\n#include "base/b.h"\n#include <ggml.h>\n')
        self.expect_pass("check_layers.py")

    def test_layers_refuse_a_later_folder(self):
        self.plant("src/gguf/a.h", '\n#include "session/session.h"\n')
        self.expect_failure("check_layers.py", "src/gguf/a.h:2: gguf includes session")

    def test_layers_refuse_folders_of_one_row(self):
        self.plant("src/train/a.cpp", '  #  include "synth/synth.h"\n')
        self.expect_failure("check_layers.py", "train includes synth")

    def test_layers_refuse_an_unknown_folder(self):
        self.plant("src/common/a.h", "")
        self.expect_failure("check_layers.py", "src/common: not in the list")

    def test_layers_refuse_an_include_without_folder(self):
        self.plant("src/base/a.cpp", '#include "a.h"\n')
        self.expect_failure("check_layers.py", "does not start with a folder")

    def test_layers_refuse_internal_headers_in_public_ones(self):
        self.plant("include/lumi/a.h", '#include "base/b.h"\n')
        self.expect_failure("check_layers.py", "a public header includes")

    def test_sizes_accept_600_lines_and_refuse_601(self):
        self.plant("src/base/a.cpp", "\n" * 600)
        self.expect_pass("check_sizes.py")
        self.plant("tools/long", "\n" * 601)
        self.expect_failure("check_sizes.py", "tools/long: 601 lines")

    def test_words_accept_this_machine_and_example_hosts(self):
        self.plant("a.md", "http://127.0.0.1:8080/health and https://example.com and http://model:1/\n")
        self.expect_pass("check_words.py")

    def test_words_refuse_a_foreign_host(self):
        self.plant("tools/get", "get https" + "://packages.somewhere.net/x\n")
        self.expect_failure("check_words.py", "tools/get:1: names the host packages.somewhere.net")

    def test_words_refuse_a_path_of_one_machine(self):
        self.plant("src/a.cpp", 'open("' + "/home" + '/someone/model.gguf");\n')
        self.expect_failure("check_words.py", "src/a.cpp:1: names the machine's path")


if __name__ == "__main__":
    unittest.main()
