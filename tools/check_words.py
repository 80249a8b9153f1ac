#!/usr/bin/env python3
"""Fails on text that ties the sources to one machine or one host.

A path that exists only where a file was written, or a URL to anywhere but this machine, an example
host or the few places a reader is sent to. Packages are named, never the hosts they come from.
"""
import re
import sys
from pathlib import Path

from source_tree import files

SUFFIXES = {".h", ".cpp", ".py", ".sh", ".cmake", ".md", ".json", ".yml", ".in", ""}
HOSTS = re.compile(
    r"^(127\.0\.0\.1|localhost|\[::1\]|(\w+\.)*example(\.com|\.org)?|(\w+\.)*invalid"
    r"|github\.com|www\.w3\.org|keepachangelog\.com|semver\.org|editorconfig\.org)$")
URL = re.compile(r"\bhttps?://(\[[0-9a-f:]+\]|[\w.-]+)")
PATH = re.compile(r"(?<![\w.}/~-])/(work|root|home/\w+|tmp/\w+)/")


def file_violations(root: Path, path: Path):
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path.relative_to(root)}:{number}"
        for match in URL.finditer(line):
            if "." in match.group(1) and not HOSTS.match(match.group(1)):
                yield f"{where}: names the host {match.group(1)}"
        for match in PATH.finditer(line):
            yield f"{where}: names the machine's path {match.group(0)}"


def violations(root: Path):
    for path in files(root, SUFFIXES):
        yield from file_violations(root, path)


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(violations(root))
    print("\n".join(found) or "words: no machine paths, no foreign hosts")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
