"""A lumi server for the scripts beside this one: started on a free port, spoken to, stopped."""
import json
import pathlib
import re
import subprocess
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent


def built_program():
    """Where `make build`, or CMake alone, leaves the program."""
    places = [ROOT / "build/lumi", ROOT / "build/release/lumi"]
    for place in places:
        if place.exists():
            return place
    raise SystemExit(f"no lumi at {places[0]} or {places[1]}: run `make build` first")


def read_lines(name):
    """The JSON objects of models/NAME, one a line."""
    return [json.loads(line) for line in (ROOT / "models" / name).read_text().splitlines() if line.strip()]


class Server:
    """`lumi serve ARGUMENTS` while a `with` block runs; base is its address."""

    def __init__(self, arguments=(), show=True, program=None):
        self.command = [str(program or built_program()), "serve", "--port", "0", *map(str, arguments)]
        self.show = show
        self.base = None

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if self.show:
                print(line, end="")
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                self.base = found.group(1)
                return self
        self.process.wait()
        raise SystemExit("the server did not start" + ("" if self.show else ": " + line))

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.process.stderr.close()

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.base + path, data), timeout=3600) as reply:
            return json.load(reply)

    def ask(self, question, max_tokens=40):
        """The greedy answer to one question, or to a conversation."""
        messages = [{"role": "user", "content": question}] if isinstance(question, str) else question
        body = {"messages": messages, "temperature": 0, "max_tokens": max_tokens}
        return self.call("/v1/chat/completions", body)["choices"][0]["message"]["content"].strip()


def lesson_chats(lessons):
    """What POST /train takes, of the rows of models/lessons.jsonl."""
    return [[{"role": "user", "content": question}, {"role": "assistant", "content": lesson["answer"]}]
            for lesson in lessons for question in lesson["train"]]
