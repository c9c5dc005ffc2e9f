"""Ctrl-C and SIGTERM at every command, in several phases of its work.

Importing torch takes seconds. A server does so once and forks a process for each case, which runs
the command line as `python -m untold` does. What a command is doing is known from --progress plain.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from untold.files import verify_directory

SECOND = 1.0 + 1.5  # the promise, and time for a machine that others use, too
PATIENCE = 120.0
SERVER = """
import json, os, signal, sys
import untold.__main__, untold.cli, untold.training.run, untold.translator
import untold.lab.demo, untold.metrics.base
import untold.metrics.text_metrics, untold.explain.write, matplotlib.figure
import untold.alignment.aligners, untold.metrics.separation
import untold.checking.checker, untold.checking.run, untold.checking.clean
import untold.checking.synthetic_errors, untold.lab.ratings
import untold.training.adoption, untold.huggingface.folder, transformers
transformers.AutoModelForSeq2SeqLM, transformers.AutoTokenizer, transformers.MarianMTModel
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)  # the tests may run in the background
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if not pid:
        os.setsid()
        os.chdir(job["folder"])
        for number, name in enumerate(job["streams"]):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
        for number, mode in ((0, "r"), (1, "w"), (2, "w")):
            name = ("stdin", "stdout", "stderr")[number]
            setattr(sys, name, open(number, mode, buffering=1, encoding="utf-8", closefd=False))
        if job["ignored"]:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.argv = ["untold", *job["arguments"]]
        untold.__main__.main()
        os._exit(0)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@dataclass
class Ended:
    """How a process ended, and how long after the signal."""

    code: int
    seconds: float
    output: str
    errors: str

    @property
    def last(self) -> str:
        return self.errors.rstrip("\n").rpartition("\n")[2]


class Server:
    """Runs commands in processes of their own, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-c", SERVER]
        pipe = subprocess.PIPE
        environ = os.environ | {"OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environ)
        self._pid = 0

    def start(self, *arguments: object, ignored: bool = False) -> None:
        """Starts `untold ARGUMENTS`; its standard input is a pipe that nobody writes to yet."""
        for name in ("input", "output", "errors"):
            (self.folder / name).unlink(missing_ok=True)
        os.mkfifo(self.folder / "input")
        streams = [str(self.folder / name) for name in ("input", "output", "errors")]
        line = ["--progress", "plain", *map(str, arguments)]
        job = {"arguments": line, "streams": streams, "folder": str(self.folder / "workshop")}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job | {"ignored": ignored}) + "\n")
        self._process.stdin.flush()
        self._pid = int(self._answer())

    def text(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def wait_for(self, words: str, name: str = "errors") -> None:
        """Waits until the process has printed these words, and a moment longer."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.text(name):
            assert time.monotonic() < deadline, (words, self.text("errors"))
            assert Path(f"/proc/{self._pid}").exists(), (words, self.text("errors"))
            time.sleep(0.005)
        time.sleep(0.05)

    def type(self, text: str) -> None:
        with open(self.folder / "input", "w") as file:
            file.write(text)

    def send(self, number: signal.Signals) -> None:
        os.kill(self._pid, number)

    def end(self) -> Ended:
        began = time.monotonic()
        code = int(self._answer())
        seconds = time.monotonic() - began
        return Ended(code, seconds, self.text("output"), self.text("errors"))

    def stop(self, number: signal.Signals) -> Ended:
        self.send(number)
        return self.end()

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, shared_workshop: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("signals")
    workshop = folder / "workshop"
    shutil.copytree(shared_workshop, workshop)
    for side in ("src", "tgt"):
        text = (workshop / f"corpus.{side}").read_text()
        (workshop / f"large.{side}").write_text(text * 2000)
        (workshop / f"some.{side}").write_text(text * 40)
        (workshop / f"middle.{side}").write_text(text * 200)
        (workshop / "large.align").write_text("\n" * text.count("\n") * 2000)
        words = (f"{side}{n * n % 9973:x} {n % 97}" for n in range(200_000))
        (workshop / f"words.{side}").write_text("".join(f"{line} x y z\n" for line in words))
    server = Server(folder)
    yield server
    server.close()


LARGE = ("--source", "large.src", "--reference", "large.tgt")
LEARN = "data.train={source='words.src',target='words.tgt'}"
# A name: the command line, the words after which it is in that phase, and the last line.
PHASES = {
    "translate a file": (["translate", "run", "large.src"], "translating", "interrupted"),
    "load a model": (["translate", "run"], "loading run", "interrupted"),
    "serve": (["serve", "run", "--port", 0], "loading the models", "interrupted"),
    "score": (
        ["score", "run", "--source", "large.src", "--target", "large.tgt"],
        "scoring",
        "0 of 48,000 scores were printed; run the same command again",
    ),
    "evaluate": (
        ["evaluate", "run", *LARGE, "--out", "hypotheses"],
        "translating",
        "hypotheses was not written; run the same command again",
    ),
    "compute scores": (
        ["evaluate", "run", "--source", "some.src", "--reference", "some.tgt", "--out", "done"],
        "scoring",
        "done is written and whole",
    ),
    "measure alignments": (
        ["evaluate", "run", *LARGE, "--alignments", "large.align"],
        "reading the references",
        "nothing was written; run the same command again",
    ),
    "check": (
        ["check", "run", *LARGE[:2], "--target", "large.tgt", "--quiet", "--html", "page.html"],
        "checking",
        "page.html was not written; run the same command again",
    ),
    "clean": (
        [
            *("clean", "run", *LARGE[:2], "--target", "large.tgt"),
            *("--out-source", "a", "--out-target", "b"),
        ],
        "checking",
        "a was not written; b was not written; run the same command again",
    ),
    "calibrate": (
        ["calibrate", "run", *LARGE[:2], "--target", "large.tgt"],
        "calibrating",
        " was not written; run the same command again",
    ),
    "sheet": (
        [
            *("sheet", "--source", "words.src", "--system", "a=words.tgt", "--system"),
            *("b=words.src", "--number", 100_000, "--out", "new-sheet"),
        ],
        "reading the translations",
        "new-sheet was not written; run the same command again",
    ),
    "adopt": (
        ["adopt", "hf:marian", "--source", "words.src", "--target", "words.tgt", "--out", "new-4"],
        "training the aligner",
        "what is finished stays in new-4; run the same command again to go on",
    ),
    "train an aligner": (
        ["align", "--source", "words.src", "--target", "words.tgt", "--save", "a", "--out", "b"],
        "training the aligner",
        "a was not written; b was not written; run the same command again",
    ),
    "align": (
        ["align", "--aligner", "aligner", *LARGE[:2], "--target", "large.tgt", "--out", "b"],
        "aligning",
        "b was not written; run the same command again",
    ),
    "align by a model": (
        ["align", "--model", "run", *LARGE[:2], "--target", "large.tgt", "--out", "b"],
        "aligning",
        "b was not written; run the same command again",
    ),
    "reproduce": (
        ["reproduce", "overlap", "--out", "b"],
        "vocabulary 1000",
        "the same command goes on",
    ),
    "compare": (
        ["evaluate", "b=plain", "--against", "run", "--test", "t=large.src,large.tgt"],
        "translating t with run",
        "nothing was written; run the same command again",
    ),
    "explain": (
        ["explain", "run", *["--source", "the dog sleeps ."] * 3000, "--out", "page.html"],
        "explaining",
        "page.html was not written; run the same command again",
    ),
    "draw": (
        ["explain", "run", *["--source", "the dog sleeps ."] * 400, "--out", "page.svg"],
        "drawing page.svg",
        "page.svg was not written; run the same command again",
    ),
    "sample": (
        ["sample", "en-de", "--pairs", 6000, "--out", "new"],
        "generating train",
        "nothing was written to new; run the same command again",
    ),
    "read the corpus": (
        ["train", "config.toml", "--set", LEARN, "--out", "new-1"],
        "reading the corpus",
        "no checkpoint is saved in new-1; run the same command again to go on",
    ),
    "learn a vocabulary": (
        ["train", "config.toml", "--set", LEARN, "--set", "tokenizer.size=9000", "--out", "new-2"],
        "learning the vocabulary",
        "no checkpoint is saved in new-2; run the same command again to go on",
    ),
    "tokenize": (
        ["train", "config.toml", "--init", "run", "--set", LEARN, "--out", "new-3"],
        "tokenizing train",
        "no checkpoint is saved in new-3; run the same command again to go on",
    ),
}


def check(ended: Ended, number: signal.Signals, last: str) -> None:
    assert ended.code == 128 + number, ended.errors
    assert ended.seconds < SECOND
    assert "Traceback" not in ended.errors and "Error" not in ended.errors
    assert ended.last.startswith(f"untold: interrupted by {number.name}: "), ended.errors
    assert last in ended.last


@pytest.mark.parametrize("name", PHASES)
def test_a_command_stops_within_a_second_and_says_what_is_saved(server: Server, name: str) -> None:
    arguments, words, last = PHASES[name]
    number = (signal.SIGINT, signal.SIGTERM)[len(name) % 2]
    server.start(*arguments)
    server.wait_for(words)
    check(server.stop(number), number, last)


def test_those_phases_are_of_every_command(server: Server) -> None:
    """But those that are over in no time, and `demo`: see below."""
    from untold.cli import app

    commands = (each for each in app.registered_commands if each.callback and not each.hidden)
    known = {str(each.callback.__name__) for each in commands}
    tried = {str(arguments[0]) for arguments, _, _ in PHASES.values()}
    assert known - tried == SHORT.keys()


SHORT = {
    "info": "info run",
    "config": "config train",
    "average": "average run --last 2 --out mean",
    "demo": "demo --out d",
    "export": "export run --to onnx --out graphs",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", SHORT.values(), ids=SHORT)
def test_short_commands_stop_while_they_start(
    server: Server, command: str, number: signal.Signals
) -> None:
    server.start(*command.split())
    ended = server.stop(number)
    if ended.code == -number:  # it had not come as far as to handle signals
        assert ended.errors == ""
    elif ended.code:
        check(ended, number, "interrupted")


def test_the_control_a_thread_that_reads_buffered_input_aborts_the_interpreter() -> None:
    naive = (
        "import sys, threading, time\n"
        "threading.Thread(target=sys.stdin.buffer.readline, daemon=True).start()\n"
        "time.sleep(0.2)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", naive], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.wait(PATIENCE) == -signal.SIGABRT


def test_an_idle_translator_ends_and_its_lines_stay_printed(server: Server) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        server.start("translate", "run")
        server.type("a cat sleeps .\nthe dog sleeps .\n")
        server.wait_for("\n", "output")
        server.wait_for("loading run")
        time.sleep(0.3)
        ended = server.stop(number)
        check(ended, number, "lines printed: 2; to go on, give it the text from line 3 on")
        assert ended.output.count("\n") == 2


def test_a_reader_that_is_stuck_does_not_matter(server: Server) -> None:
    """The pipe of standard output is full, and nobody reads it."""
    command = [sys.executable, "-m", "untold", "translate", "run", "large.src"]
    with subprocess.Popen(
        command,
        cwd=server.folder / "workshop",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_signals,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        deadline = time.monotonic() + PATIENCE
        while "pipe_write" not in wchan(process.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert process.wait(PATIENCE) == 130
        assert time.monotonic() - began < SECOND
        assert process.stderr.read().startswith("untold: interrupted by SIGINT: ")
        lines = process.stdout.read().split("\n")
        assert len(lines) > 1000


def restore_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def wchan(pid: int) -> str:
    """Names where the kernel lets the process wait."""
    try:
        return Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return ""


def test_a_signal_that_is_ignored_stays_ignored(server: Server) -> None:
    server.start("translate", "run", ignored=True)
    server.wait_for("loading run")
    server.send(signal.SIGINT)
    server.type("a cat sleeps .\n")
    server.wait_for("\n", "output")
    check(server.stop(signal.SIGTERM), signal.SIGTERM, "lines printed: 1; ")


def test_training_finishes_its_update_and_a_validation_is_put_off(server: Server) -> None:
    """Validation translates a corpus, which would take many seconds."""
    valid = "data.valid={source='middle.src',target='middle.tgt'}"
    settings = ["train.steps=6", "train.validate_every=4", valid]
    options = [part for each in settings for part in ("--set", each)]
    server.start("train", "config.toml", *options, "--out", "long")
    server.wait_for("validation BLEU")
    ended = server.stop(signal.SIGINT)
    check(ended, signal.SIGINT, "the checkpoint step-00000004 is saved in long; run the same")
    assert "stopping after this update; a second Ctrl-C stops at once" in ended.errors
    run = server.folder / "workshop" / "long"
    verify_directory(run / "checkpoints" / "step-00000004")
    assert not (run / "best").exists()
    server.start("train", "config.toml", *options, "--out", "long")
    server.wait_for("validation loss")  # the resumed run begins with it
    ended = server.stop(signal.SIGTERM)
    check(ended, signal.SIGTERM, "the checkpoint step-00000004 is saved in long; run the same")
    assert "step 5" not in ended.errors


def test_no_training_of_an_aligner_goes_on_alone(server: Server) -> None:
    """The process that trains it ends with the command, and leaves nothing behind."""
    folder = server.folder / "workshop"
    texts = ("--source", "words.src", "--target", "words.tgt")
    server.start("align", *texts, "--save", "never", "--kind", "ibm1")
    server.wait_for("training the aligner")
    deadline = time.monotonic() + PATIENCE
    while not trainers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert trainers()
    check(server.stop(signal.SIGTERM), signal.SIGTERM, "never was not written")
    deadline = time.monotonic() + 5
    while trainers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not trainers()
    assert not [path for path in folder.glob(".*") if "never" in path.name]


def trainers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"-m\0untold.alignment.aligner_process" in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_a_signal_during_the_imports_is_no_traceback(server: Server) -> None:
    """Without the server: the first moments of a real command, which take longer under load."""
    handled = 0
    for seconds in (0.15, 0.4, 1.0, 2.0, 4.0, 8.0):
        with subprocess.Popen(
            [sys.executable, "-m", "untold", "translate", "run"],
            cwd=server.folder / "workshop",
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=restore_signals,
        ) as process:
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE)
        if process.returncode != 130:
            continue  # the interpreter had not come as far as our first line
        assert errors.startswith("untold: interrupted by SIGINT: ") and errors.count("\n") == 1
        handled += 1
        if handled == 2:
            return
    assert handled
