#!/usr/bin/env python3
"""Fails when a folder of src/ includes one that does not come before it in the data's way.

Folders of one row may not include each other. tests/tools/test_checks.py plants violations.
"""
import re
import sys
from pathlib import Path

from source_tree import files

LAYERS = [
    ["base"], ["device"], ["gguf"], ["tokenizer", "model"], ["chat", "adapter"], ["graph"],
    ["session"], ["train", "synth"], ["engine"], ["server"], ["cli"],
]
RANK = {folder: rank for rank, row in enumerate(LAYERS) for folder in row}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def file_violations(root: Path, path: Path):
    relative = path.relative_to(root)
    owner = relative.parts[1]  # src/<owner>/..., include/lumi/...
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1).split("/")[0]
        where = f"{relative}:{number}"
        if relative.parts[0] == "include":
            yield f"{where}: a public header includes \"{match.group(1)}\"; only <lumi/...> is public"
        elif target not in RANK:
            yield f"{where}: \"{match.group(1)}\" does not start with a folder of src/"
        elif target != owner and RANK[target] >= RANK[owner]:
            yield f"{where}: {owner} includes {target}, which does not come before it"


def violations(root: Path):
    for folder in sorted(p for p in (root / "src").glob("*") if p.is_dir()):
        if folder.name not in RANK:
            yield f"src/{folder.name}: not in the list of layers"
            continue
        for path in files(folder, {".h", ".cpp"}):
            yield from file_violations(root, path)
    for path in files(root / "include", {".h"}):
        yield from file_violations(root, path)


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(violations(root))
    print("\n".join(found) or "layers: every folder includes only folders before it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
