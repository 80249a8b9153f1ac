#!/usr/bin/env python3
"""Proves that tools/setup refuses a package with another hash, and does nothing a second time.

npm, apt-get, pkg-config and dpkg-query are replaced by stand-ins, so nothing is fetched or installed.
"""
import hashlib
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

SETUP = Path(__file__).resolve().parent.parent.parent / "tools" / "setup"

# Every stand-in writes its name to $CALLS, so a test knows what was run.
STAND_INS = {
    "npm": 'echo npm >>"$CALLS"; echo other >pack.tgz; echo pack.tgz',
    "apt-get": 'echo apt-get >>"$CALLS"; exit 1',
    "pkg-config": "exit 1",
    # Every package asked for is installed.
    "dpkg-query": 'shift 3; for p in "$@"; do echo "$p installed"; done',
}


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.deps = self.folder / "deps"
        self.calls = self.folder / "calls"
        self.calls.touch()
        stand_ins = self.folder / "bin"
        stand_ins.mkdir()
        for name, body in STAND_INS.items():
            script = stand_ins / name
            script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            script.chmod(0o755)
        self.environment = dict(os.environ, LUMI_DEPS=str(self.deps), CALLS=str(self.calls),
                                PATH=f"{stand_ins}:{os.environ['PATH']}")

    def run_setup(self, *arguments):
        return subprocess.run([SETUP, *arguments], env=self.environment, capture_output=True,
                              text=True, check=False, timeout=60)

    def test_package_with_another_hash_is_refused_and_leaves_nothing(self):
        done = self.run_setup()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"has integrity sha512-\S+, expected sha512-")
        self.assertIn("npm", self.calls.read_text())
        self.assertFalse((self.deps / "ggml").exists())
        self.assertEqual(list(self.deps.glob("setup.*")), [])

    def leave_stamp(self, key):
        (self.deps / "ggml" / "include").mkdir(parents=True)
        (self.deps / "ggml" / "include" / "ggml.h").touch()
        (self.deps / "setup.stamp").write_text(f"{key}\nggml as before\n", encoding="utf-8")

    def test_second_run_calls_neither_npm_nor_apt(self):
        self.leave_stamp(hashlib.sha256(SETUP.read_bytes()).hexdigest())
        done = self.run_setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ggml as before", done.stdout)
        self.assertEqual(self.calls.read_text(), "")

    def test_another_script_voids_the_stamp(self):
        self.leave_stamp("0" * 64)
        self.assertEqual(self.run_setup().returncode, 1)
        self.assertIn("npm", self.calls.read_text())

    def test_missing_ggml_voids_the_stamp(self):
        self.leave_stamp(hashlib.sha256(SETUP.read_bytes()).hexdigest())
        (self.deps / "ggml" / "include" / "ggml.h").unlink()
        self.assertEqual(self.run_setup().returncode, 1)
        self.assertIn("npm", self.calls.read_text())

    def test_unknown_option_is_a_usage_error(self):
        done = self.run_setup("--bogus")
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage:", done.stderr)

    def test_every_npm_package_has_a_pinned_hash(self):
        text = SETUP.read_text(encoding="utf-8")
        names = re.findall(r"^npm_(?:headers|libs_\w+)=(\S+)", text, re.MULTILINE)
        self.assertGreaterEqual(len(names), 3)
        for name in names:
            self.assertRegex(text, rf"\[{re.escape(name)}\]=sha512-[A-Za-z0-9+/]{{86}}==")


if __name__ == "__main__":
    unittest.main()
