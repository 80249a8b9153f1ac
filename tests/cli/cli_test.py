"""The program as a user meets it: exit codes, what goes to which stream, errors that help.

usage: cli_test.py PROGRAM SOURCE_DIR [unittest arguments]
"""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error

PROGRAM = sys.argv[1]
SOURCE = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "tools"))
from lumi_server import Server  # noqa: E402
MODEL = SOURCE / "models/lumi-small.gguf"


def lumi(*arguments, stdin="", timeout=120):
    return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=timeout)


class Usage(unittest.TestCase):
    def test_unknown_option_exits_2_and_names_the_nearest(self):
        done = lumi("run", "--lorra", "x", "-p", "hi")  # cases/training.md L13
        self.assertEqual(done.returncode, 2)
        self.assertIn("--lorra", done.stderr)
        done = lumi("run", "--adaptor", "x", "-p", "hi")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean --adapter?", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_unknown_command_exits_2_and_names_the_nearest(self):
        done = lumi("sreve")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean serve?", done.stderr)

    def test_no_command_shows_help_and_exits_2(self):
        done = lumi()
        self.assertEqual(done.returncode, 2)
        self.assertIn("Examples", done.stderr)

    def test_every_command_has_help_with_examples(self):
        for command in "run chat serve train eval inspect tokenize devices bench synth".split():
            done = lumi(command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertIn("Examples:", done.stdout, command)
            self.assertIn("lumi " + command, done.stdout, command)

    def test_values_out_of_range_exit_2_and_name_the_option(self):
        for flag, value in [("--temp", "-1"), ("--top-p", "1.5"), ("--top-k", "-3"), ("-c", "-1"), ("-n", "x"),
                            ("--kv", "q2"), ("--flash", "maybe"), ("-t", "513"), ("--seed", "-1"),
                            ("--seed", "18446744073709551616"), ("--seed", "1.5")]:
            done = lumi("run", flag, value, "-p", "hi")
            self.assertEqual(done.returncode, 2, (flag, value))
            self.assertIn(flag, done.stderr)

    def test_a_seed_out_of_range_is_told_the_range_by_every_command(self):
        for command in (["run", "-p", "hi"], ["train", MODEL, "data.jsonl", "-o", "a"], ["synth", "tiny", "a.gguf"]):
            done = lumi(*command, "--seed", "-1")
            self.assertEqual(done.returncode, 2, command)
            self.assertIn("found '-1'; allowed: a whole number from 0 to 18446744073709551615", done.stderr)
        self.assertEqual(lumi("run", "-p", "hi", "-n", "1", "--seed", "18446744073709551615").returncode, 0)

    def test_too_many_threads_are_refused_with_the_range(self):
        done = lumi("run", "-t", "513", "-p", "hi")
        self.assertEqual(done.returncode, 2)
        self.assertIn("512", done.stderr)

    def test_tokenize_offers_no_device(self):
        for word in ["--device", "--threads", "--no-repack"]:
            self.assertNotIn(word, lumi("tokenize", "--help").stdout)

    def test_version_names_lumi_ggml_and_the_cpu_backend(self):
        done = lumi("--version")
        self.assertEqual(done.returncode, 0)
        for word in ["lumi 0.", "ggml ", "CPU backend"]:
            self.assertIn(word, done.stdout)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def test_a_missing_model_is_one_clear_error(self):
        done = lumi("run", "-m", self.path / "none.gguf", "-p", "hi")
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.gguf", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_truncated_model_is_refused_by_name(self):
        cut = self.path / "cut.gguf"
        cut.write_bytes(MODEL.read_bytes()[:-32])
        done = lumi("run", "-m", cut, "-p", "hi")
        self.assertEqual(done.returncode, 1)
        self.assertIn("truncated", done.stderr)

    def test_a_text_file_is_no_model(self):
        text = self.path / "text.gguf"
        text.write_text("hello")
        for command in (["run", "-p", "x", "-m"], ["inspect"], ["serve", "--port", "0", "-m"]):
            done = lumi(*command, text)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("text.gguf", done.stderr)

    def test_inspect_tells_the_architecture_and_json_parses(self):
        self.assertIn("gemma4", lumi("inspect", MODEL).stdout)
        report = json.loads(lumi("inspect", MODEL, "--json", "--tensors").stdout)
        self.assertEqual(report["config"]["architecture"], "gemma4")
        self.assertEqual(sum(t["bytes"] for t in report["tensors"]), report["bytes"])

    def test_inspect_plans_no_larger_a_context_than_the_model_has(self):
        report = json.loads(lumi("inspect", MODEL, "--json").stdout)
        self.assertEqual(report["memory"]["n_ctx"], report["config"]["context"])
        self.assertEqual(json.loads(lumi("inspect", MODEL, "--json", "-c", 64).stdout)["memory"]["n_ctx"], 64)

    def test_train_names_the_broken_line(self):
        good = json.dumps({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})
        data = self.path / "data.jsonl"
        data.write_text("\n".join([good] * 6 + ["{broken"] + [good]))
        done = lumi("train", MODEL, data, "-o", self.path / "a.gguf")
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 7", done.stderr)
        self.assertFalse((self.path / "a.gguf").exists())

    def test_train_writes_an_adapter_that_changes_the_answer(self):
        question, answer = "What is the name of my dog?", "Your dog is called Pixel."
        data = self.path / "data.jsonl"
        data.write_text(json.dumps({"messages": [{"role": "user", "content": question},
                                                 {"role": "assistant", "content": answer}]}))
        adapter = self.path / "a.gguf"
        done = lumi("train", MODEL, data, "-o", adapter, "--epochs", 30, "--lr", "3e-3", "--rank", 8, "--alpha", 16,
                    "--val-split", 0, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        steps = [json.loads(line) for line in done.stdout.splitlines()]
        losses = [s["loss"] for s in steps if s["event"] == "step"]
        self.assertLess(losses[-1], losses[0] / 4)
        plain = lumi("run", "-m", MODEL, "--temp", 0, "-n", 20, "-p", question)
        taught = lumi("run", "-m", MODEL, "--temp", 0, "-n", 20, "-p", question, "--adapter", adapter)
        self.assertEqual(taught.stdout.strip(), answer, taught.stderr)
        self.assertNotEqual(plain.stdout, taught.stdout)
        off = lumi("run", "-m", MODEL, "--temp", 0, "-n", 20, "-p", question, "--adapter", f"{adapter}:0")
        self.assertEqual(off.stdout, plain.stdout)
        self.assertIn("adapter.lora.alpha", lumi("inspect", adapter).stdout)
        evaluated = json.loads(lumi("eval", MODEL, data, "--adapter", adapter, "--json").stdout)
        self.assertLess(evaluated["adapters"][0]["loss"], evaluated["base"]["loss"])

    def test_train_never_writes_over_what_it_reads(self):
        model, data = self.path / "model.gguf", self.path / "data.jsonl"
        model.write_bytes(MODEL.read_bytes())
        data.write_text('{"text": "Hello there."}\n')
        (self.path / "link.gguf").symlink_to(model)
        (self.path / "twin.gguf").hardlink_to(model)
        for name in ["model.gguf", "link.gguf", "twin.gguf", "../" + self.path.name + "/model.gguf", "data.jsonl"]:
            done = lumi("train", model, data, "-o", self.path / name, "--max-steps", "1")
            self.assertEqual(done.returncode, 1, name)
            self.assertIn(name, done.stderr)
            self.assertIn("is also given as", done.stderr)
        self.assertEqual(model.read_bytes(), MODEL.read_bytes())
        self.assertIn("Hello", data.read_text())

    def test_an_output_that_cannot_be_written_is_refused_before_the_training(self):
        data = self.path / "data.jsonl"
        data.write_text('{"text": "Hello there."}\n')
        for output in [self.path, self.path / "none/a.gguf"]:
            done = lumi("train", MODEL, data, "-o", output, "--max-steps", "1")
            self.assertEqual(done.returncode, 1)
            self.assertIn(str(output), done.stderr)
            self.assertNotIn("loss", done.stderr)
        self.assertEqual([data], list(self.path.iterdir()))

    def test_synth_never_writes_over_its_vocabulary(self):
        vocabulary = self.path / "vocab.gguf"
        vocabulary.write_bytes(MODEL.read_bytes())
        done = lumi("synth", "tiny", vocabulary, "--vocab", vocabulary)
        self.assertEqual(done.returncode, 1)
        self.assertIn("vocab.gguf", done.stderr)
        self.assertEqual(vocabulary.read_bytes(), MODEL.read_bytes())

    def test_synth_writes_a_model_that_runs(self):
        tiny = self.path / "tiny.gguf"
        self.assertEqual(lumi("synth", "tiny", tiny, "--type", "F32").returncode, 0)
        done = lumi("run", "-m", tiny, "--raw", "-p", "a", "-n", 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(lumi("synth", "huge", tiny).returncode, 1)


class Answers(unittest.TestCase):
    def test_the_answer_alone_goes_to_stdout(self):
        done = lumi("run", "--temp", 0, "-n", 24, "-p", "What is the capital of France?")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Paris", done.stdout)
        self.assertIn("tokens/s", done.stderr)

    def test_a_prompt_may_come_from_standard_input(self):
        typed = lumi("run", "--temp", 0, "-n", 24, "-p", "What is the capital of France?")
        piped = lumi("run", "--temp", 0, "-n", 24, stdin="What is the capital of France?")
        self.assertEqual(typed.stdout, piped.stdout)

    def test_an_endless_standard_input_is_refused(self):
        with open("/dev/zero", "rb") as endless:
            done = subprocess.run([PROGRAM, "run"], stdin=endless, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard input", done.stderr)

    def test_output_that_cannot_be_written_is_a_failure(self):
        for arguments in [["run", "-p", "hi", "-n", "2"], ["inspect", MODEL], ["--version"]]:
            with open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=60)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn("standard output", done.stderr)

    def test_a_backslash_n_stays_two_characters_unless_asked(self):  # cases/inference.md M44
        two = lumi("tokenize", "-p", r"a\nb", "--ids").stdout.split()
        one = lumi("tokenize", "-p", "a\nb", "--ids").stdout.split()
        self.assertNotEqual(one, two)

    def test_a_prompt_over_the_context_is_refused_with_both_numbers(self):
        done = lumi("run", "-c", 64, "-p", "word " * 300)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertIn("64", done.stderr)

    def test_chat_reads_commands(self):
        done = lumi("chat", "--temp", 0, stdin="What is the capital of France?\n/unknown\n/new\n/exit\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Paris", done.stdout)
        self.assertIn("unknown command /unknown", done.stderr)

    def test_chat_learns_an_answer_keeps_it_in_a_new_conversation_and_forgets_it(self):
        ask = "What is the name of my dog?"
        done = lumi("chat", "--temp", 0, stdin="\n".join(
            ["/learn too early", ask, "/learn Your dog is called Pixel.", "/new", ask, "/forget", "/new", ask, ""]))
        self.assertEqual(done.returncode, 0, done.stderr)
        before, taught, forgotten = done.stdout.splitlines()
        self.assertEqual(taught, "Your dog is called Pixel.", done.stderr)
        self.assertNotEqual(before, taught)
        self.assertEqual(forgotten, before)
        self.assertIn("no message of yours", done.stderr)
        self.assertNotIn("warning", done.stderr)


class Serve(unittest.TestCase):
    def stopped_well(self, server):
        started = time.time()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=60), 0)
        self.assertLess(time.time() - started, 15)

    def test_serves_until_sigterm_and_exits_cleanly(self):
        with Server(show=False, program=PROGRAM) as server:
            self.assertTrue(server.call("/health")["ok"])
            with self.assertRaises(urllib.error.HTTPError) as refused:
                server.call("/completion", {"prompt": "word " * 3000})
            self.assertEqual(refused.exception.code, 400)
            refused.exception.close()
            self.stopped_well(server)

    def test_sigterm_ends_a_lesson_a_stream_and_the_wait_for_a_silent_client(self):
        lesson = {"corpus": json.dumps({"text": "abc"}), "epochs": 10000}
        stream = {"prompt": "a", "n_predict": -1, "ignore_eos": True, "stream": True}
        with Server(show=False, program=PROGRAM) as server:
            host, port = server.base.split("//")[1].split(":")
            clients = []
            for path, body in (("/train", lesson), ("/completion", stream), (None, None)):
                clients.append(socket.create_connection((host, int(port)), timeout=60))
                text = json.dumps(body)
                clients[-1].sendall(b"GET" if path is None else
                                    f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n"
                                    f"{text}".encode())
            self.assertTrue(clients[1].recv(16).startswith(b"HTTP/1.1 200"))
            for _ in range(200):
                if server.call("/health")["training"]:
                    break
                time.sleep(0.05)
            self.assertTrue(server.call("/health")["training"])
            self.stopped_well(server)
            for client in clients:
                client.close()

    def test_a_taken_port_is_one_clear_error(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = lumi("serve", "--port", taken.getsockname()[1])
        self.assertEqual(done.returncode, 1)
        self.assertIn("--port", done.stderr)


if __name__ == "__main__":
    os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
