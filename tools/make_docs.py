#!/usr/bin/env python3
"""Writes the manual page and shell completions from what the program says of itself.

usage: tools/make_docs.py PROGRAM FOLDER   (lumi.1, lumi.bash, _lumi, lumi.fish)
The only source is `lumi --help` and `lumi COMMAND --help`, so the documents cannot disagree with it.
"""
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Option:
    names: list[str]  # "-m", "--model"; empty for a positional argument
    value: str        # "TEXT", "INT:INT in [0 - 1024]=0"; empty for a flag
    text: str

    def choices(self):
        match = re.search(r"\{([^}]*)\}", self.value)
        return match.group(1).split(",") if match else []


@dataclass
class Command:
    name: str
    what: str = ""
    usage: str = ""
    positionals: list[Option] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    commands: list[tuple[str, str]] = field(default_factory=list)
    footer: str = ""


def help_of(program, *arguments):
    command = [program, *arguments, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def entries(lines):
    """(left column, text) of a section; a long left column has its text on the next line."""
    found = []
    for line in lines:
        if line.startswith(" " * 20) and found:
            left, text = found[-1]
            found[-1] = (left, f"{text} {line.strip()}".strip())
        else:
            left, _, text = line.strip().partition("  ")
            found.append((left.strip(), text.strip()))
    return found


def read_option(left, text):
    first, _, value = left.partition(" ")
    if first.startswith("-"):
        return Option(first.split(","), value.strip(), text)
    return Option([], left, text)


def parse(name, text):
    command = Command(name)
    body, marker, footer = text.partition("\nExamples:\n")
    command.footer = (footer if marker else "").rstrip()
    section = "what"
    lines = {"what": []}
    for line in body.splitlines():
        if line.startswith("Usage:"):
            command.usage = line.removeprefix("Usage:").strip()
        elif re.fullmatch(r"[A-Z][A-Za-z ]*:", line):
            section = line[:-1]
            lines[section] = []
        elif line.strip():
            lines[section].append(line)
    command.what = " ".join(lines["what"]).strip()
    for left, right in entries(lines.pop("Positionals", [])):
        command.positionals.append(read_option(left, right))
    command.commands = entries(lines.pop("Subcommands", []))
    for title, rows in lines.items():
        if title != "what":
            command.options += [read_option(left, right) for left, right in entries(rows)]
    return command


# --- manual page -------------------------------------------------------------------------------

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def man_options(options):
    for option in options:
        names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
        value = f"\\fI{roff(option.value)}\\fR" if option.value else ""
        yield f".TP\n{' '.join(part for part in (names, value) if part)}\n{roff(option.text)}"


def man_page(top, commands, version):
    out = [f'.TH LUMI 1 "" "lumi {version}" "User Commands"',
           f".SH NAME\nlumi \\- {roff(top.what.removeprefix('lumi: '))}",
           f".SH SYNOPSIS\n{roff(top.usage)}", ".SH OPTIONS", *man_options(top.options),
           ".SH COMMANDS"]
    for command in commands:
        out.append(f".SS {command.name}\n{roff(command.what)}\n.PP\n{roff(command.usage)}")
        out += man_options(command.positionals + command.options)
        if command.footer:
            out.append(f".PP\n.nf\n{roff(command.footer)}\n.fi")
    out.append(".SH EXIT STATUS\n0 success, 1 failure, 2 wrong usage, 130 stopped by Ctrl-C or SIGTERM with all work saved.")
    if top.footer:
        out.append(f".SH EXAMPLES\n.nf\n{roff(top.footer)}\n.fi")
    return "\n".join(out) + "\n"


# --- completions -------------------------------------------------------------------------------

def words(options):
    return " ".join(name for option in options for name in option.names)


def bash_completion(top, commands):
    names = " ".join(command.name for command in commands)
    cases = "\n".join(f'        {c.name}) words="{words(c.options)}" ;;' for c in commands)
    choices = "\n".join(
        f'        {c.name}\\ {name}) COMPREPLY=($(compgen -W "{" ".join(o.choices())}" -- "$word")); return ;;'
        for c in commands for o in c.options if o.choices() for name in o.names)
    return f"""# Bash completion of lumi. Written by tools/make_docs.py.
_lumi() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} words
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "{names} {words(top.options)}" -- "$word"))
        return
    fi
    case "$command ${{COMP_WORDS[COMP_CWORD - 1]}}" in
{choices or "        -) ;;"}
    esac
    case $command in
{cases}
        *) return ;;
    esac
    case $word in
        -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}}
complete -o filenames -F _lumi lumi
"""


def quoted(text):
    return text.replace("'", "'\\''")


def zsh_spec(option):
    # In a spec, brackets end the description and colons separate fields.
    text = quoted(re.sub(r"([\[\]:\\])", r"\\\1", option.text))
    if option.choices():
        value = f":value:({' '.join(option.choices())})"
    else:
        value = ":value:_files" if option.value else ""
    return "\n".join(f"            '*{name}[{text}]{value}' \\" for name in option.names)


def zsh_completion(commands):
    names = "\n".join(f"        '{c.name}:{quoted(c.what.replace(':', ' '))}'" for c in commands)
    cases = "\n".join(
        f"        {c.name}) _arguments \\\n" + "\n".join(zsh_spec(o) for o in c.options) +
        "\n            '*:file:_files' ;;" for c in commands)
    return f"""#compdef lumi
# Zsh completion of lumi. Written by tools/make_docs.py.
_lumi() {{
    local -a commands
    commands=(
{names}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}
    esac
}}
_lumi "$@"
"""


def fish_option(option):
    parts = []
    for name in option.names:
        parts.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
    if option.choices():
        parts.append(f"-x -a '{' '.join(option.choices())}'")
    elif option.value:
        parts.append("-r")
    return " ".join(parts) + " -d '" + option.text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_completion(commands):
    out = ["# Fish completion of lumi. Written by tools/make_docs.py."]
    for c in commands:
        what = c.what.replace("'", "\\'")
        out.append(f"complete -c lumi -n __fish_use_subcommand -x -a {c.name} -d '{what}'")
        out += [f"complete -c lumi -n '__fish_seen_subcommand_from {c.name}' {fish_option(o)}"
                for o in c.options]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        print("usage: tools/make_docs.py PROGRAM FOLDER", file=sys.stderr)
        return 2
    program, folder = sys.argv[1], Path(sys.argv[2])
    top = parse("lumi", help_of(program))
    commands = [parse(name, help_of(program, name)) for name, _ in top.commands]
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True,
                             timeout=60).stdout.splitlines()[0].split()[-1]
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"lumi.1": man_page(top, commands, version),
                       "lumi.bash": bash_completion(top, commands),
                       "_lumi": zsh_completion(commands),
                       "lumi.fish": fish_completion(commands)}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
