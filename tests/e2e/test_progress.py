"""Progress of the commands: lines for who asks, nothing in a log, bars on a terminal alone."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.in_process import run_in_process

TEXTS = ("--source", "corpus.src", "--target", "corpus.tgt")
PAIRS = ("--source", "corpus.src", "--reference", "corpus.tgt")
# What each command says that it does.
TASKS = {
    "train config.toml --out new": (
        *("reading the corpus", "learning the vocabulary", "tokenizing train: 0 of 24"),
        *("tokenizing valid", "training: 0 of 4", "validation loss", "validation BLEU: 0 of 24"),
    ),
    "train config.toml --out run": ("checking the data of train", "training: 4 of 4"),
    "translate run corpus.src": ("loading run", "translating: 0 of 24"),
    f"score run {' '.join(TEXTS)}": ("loading run", "scoring: 0 of 24"),
    f"evaluate run {' '.join(PAIRS)}": ("translating: 0 of 24", "scoring: 0 of 3"),
    f"evaluate run {' '.join(PAIRS)} --alignments corpus.align": ("reading the references",),
    f"align {' '.join(TEXTS)} --kind ibm1 --out links": ("training the aligner", "aligning: 0 of"),
    "average run --last 2 --out mean": ("averaging: 0 of 2",),
    "evaluate b=plain --against run --test t=corpus.src,corpus.tgt --samples 5": (
        *("comparing: 0 of 2", "translating t with plain: 0 of 24", "testing significance: 0 of 1"),
    ),
    "explain run --source a --source b --out page.svg": ("explaining: 0 of 2", "drawing page.svg"),
    "info run": (),
}


@pytest.fixture
def folder(shared_workshop: Path, tmp_path: Path) -> Path:
    """A folder whose entries are those of the workshop, so that new ones do not stay."""
    for path in shared_workshop.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path


@pytest.mark.parametrize("command", TASKS, ids=lambda command: command[:30])
def test_a_command_says_what_it_does_if_it_is_asked(folder: Path, command: str) -> None:
    ended = run_in_process(("--progress", "plain", *command.split()), folder)
    assert ended.code == 0, ended.errors
    for task in TASKS[command]:
        assert any(line.startswith(task) for line in ended.errors.split("\n")), ended.errors


@pytest.mark.parametrize("mode", ["auto", "none"])
def test_elsewhere_it_says_nothing(folder: Path, mode: str) -> None:
    commands = [each for each in TASKS if not each.startswith("train")]
    for command in commands:
        ended = run_in_process(("--progress", mode, *command.split()), folder)
        assert (ended.code, ended.errors) == (0, ""), command
    ended = run_in_process(("--progress", mode, "train", "config.toml", "--out", "new"), folder)
    assert "train step 2/4" in ended.errors, "a training reports its figures everywhere"
    assert "tokenizing" not in ended.errors


def test_the_environment_decides_as_well(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNTOLD_PROGRESS", "plain")
    command = ("score", "run", *TEXTS)
    assert "scoring" in run_in_process(command, folder).errors
    assert not run_in_process(("--progress", "none", *command), folder).errors
    wrong = run_in_process(("--progress", "loud", *command), folder)
    assert wrong.code == 2 and "loud" in wrong.errors


def on_terminal(folder: Path, *arguments: str, output: bool = False) -> str:
    """Runs a command with standard error, and output if wanted, on a terminal."""
    ours, theirs = pty.openpty()
    with open(folder / "output", "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "untold", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=theirs if output else file,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "100", "OMP_NUM_THREADS": "1"},
        )
        os.close(theirs)
        seen = b""
        try:
            while block := os.read(ours, 65536):
                seen += block
        except OSError:  # the terminal is gone with its last user
            pass
        assert process.wait() == 0, seen
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


def test_a_terminal_shows_bars_and_the_result_goes_where_it_should(folder: Path) -> None:
    sample = ("sample", "en-de", "--pairs", "500", "--out", "sample")
    seen = on_terminal(folder, *sample)
    assert "generating train" in seen and "500/500" in seen and "━" in seen
    printed = (folder / "output").read_text()
    assert printed.startswith("sample: en-de, seed 7: train 500 pairs") and "━" not in printed
    assert on_terminal(folder, "--progress", "none", *sample[:-1], "s2") == ""
    lines = on_terminal(folder, "--progress", "plain", *sample[:-1], "s3")
    assert "generating train: 0 of 500" in lines


def test_lines_of_a_translation_on_a_terminal_are_disturbed_by_no_bar(folder: Path) -> None:
    seen = on_terminal(folder, "translate", "run", "corpus.src", output=True)
    assert "loading run" in seen and "translating" not in seen
    seen = on_terminal(folder, "translate", "run", "corpus.src")
    assert "translating" in seen and "24/24" in seen
    assert (folder / "output").read_text().count("\n") == 24
