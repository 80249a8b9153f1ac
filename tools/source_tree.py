"""The files of the source tree, for the checks beside this one."""
import os
from pathlib import Path

SKIPPED = {".git", ".deps", "build", "corpus", "data", "node_modules", "__pycache__"}


def files(root: Path, suffixes):
    """Every file below root that ends so, in order; built, fetched and seed files left out."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED)
        for path in sorted(Path(folder) / name for name in names if name not in SKIPPED):
            if path.suffix in suffixes:
                yield path
