#!/usr/bin/env python3
"""Fails when a source file is longer than a reader can hold: 600 lines."""
import sys
from pathlib import Path

from source_tree import files

LIMIT = 600
FOLDERS = ["src", "include", "tests", "tools", "bench", "fuzz"]
SUFFIXES = {".h", ".cpp", ".py", ".sh", ".cmake", ""}  # "": scripts such as tools/setup


def violations(root: Path):
    for folder in FOLDERS:
        for path in files(root / folder, SUFFIXES):
            lines = path.read_bytes().count(b"\n")
            if lines > LIMIT:
                yield f"{path.relative_to(root)}: {lines} lines, allowed are {LIMIT}"


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(violations(root))
    print("\n".join(found) or f"sizes: no source file is longer than {LIMIT} lines")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
