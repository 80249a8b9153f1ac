#!/usr/bin/env python3
"""Proves that an installed lumi stands alone: moved elsewhere it runs, and find_package links it.

usage: test_install.py BUILD_FOLDER CMAKE
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD, CMAKE = sys.argv[1:3]
HERE = Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "models" / "lumi-small.gguf"
CONSUMER = """cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(lumi REQUIRED)
add_executable(consumer consumer.cpp)
target_link_libraries(consumer PRIVATE lumi::lumi)
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False, timeout=500, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} gave {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        run(CMAKE, "--build", BUILD, "--target", "lumi_shared", "docs")
        run(CMAKE, "--install", BUILD, "--prefix", cls.folder / "first")
        cls.prefix = cls.folder / "moved"  # nothing may remember where it was installed
        (cls.folder / "first").rename(cls.prefix)

    def libraries(self, file):
        """Which ggml the loader picks for a file."""
        return re.findall(r"=> (\S*libggml\S*)", run("ldd", file))

    def expect_own_ggml(self, file):
        found = self.libraries(file)
        self.assertGreater(len(found), 0)
        bundled = any(self.prefix.rglob("libggml-base.so"))
        for path in found:
            inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.prefix))
            self.assertEqual(inside, bundled, path)

    def test_program_finds_its_libraries_and_backends(self):
        program = self.prefix / "bin" / "lumi"
        self.expect_own_ggml(program)
        self.assertRegex(run(program, "--version"), r"CPU backend libggml-cpu\S*\.so")

    def test_outside_program_builds_against_the_package_and_runs(self):
        source = self.folder / "consumer"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(CONSUMER, encoding="utf-8")
        (source / "consumer.cpp").write_bytes((HERE / "consumer.cpp").read_bytes())
        run(CMAKE, "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run(CMAKE, "--build", source / "build")
        before, taught, after = run(source / "build" / "consumer", MODEL).splitlines()
        self.assertEqual(taught, "Your dog is called Pixel.")
        self.assertNotEqual(before, taught)
        self.assertEqual(after, before)
        self.expect_own_ggml(next(self.prefix.rglob("liblumi.so")))

    def test_documents_and_completions_are_there(self):
        for name in ["share/man/man1/lumi.1", "share/bash-completion/completions/lumi",
                     "share/zsh/site-functions/_lumi", "share/fish/vendor_completions.d/lumi.fish",
                     "share/doc/lumi/LICENSE"]:
            self.assertTrue((self.prefix / name).is_file(), name)

    def test_no_file_names_the_build_folder(self):
        for file in [self.prefix / "bin" / "lumi", *self.prefix.rglob("*.cmake")]:
            self.assertNotIn(BUILD.encode(), file.read_bytes(), file)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
