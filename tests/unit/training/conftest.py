"""A corpus, and training runs on it in this process."""

import io
import signal
from pathlib import Path

import pytest
from rich.console import Console

from toys import toy_config, write_corpus
from untold.training.log import Reporter
from untold.training.run import RunOptions, train


class Listener(Reporter):
    """A reporter that remembers what was said, and sends this process a signal after some steps."""

    def __init__(self, run: Path, stop_after: int | None = None) -> None:
        super().__init__(run, 12, Console(file=io.StringIO(), width=1000))
        self.stop_after = stop_after
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def step(self, step: int) -> None:
        if step == self.stop_after:
            signal.raise_signal(signal.SIGTERM)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Sixty pairs, never to be changed."""
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def start(corpus):
    """Train in a directory: start(out, stop_after=3, train={"seed": 2}) -> (result, lines said)."""

    def start(out, *, stop_after=None, root=corpus, allow_changed=False, init=None, **sections):
        listener = Listener(out, stop_after)
        options = RunOptions(out, init, allow_changed)
        return train(toy_config(root, **sections), options, listener), listener.lines

    return start


class Teller(Reporter):
    """Writes down what it says."""

    def say(self, line):
        self.run.mkdir(parents=True, exist_ok=True)
        with open(self.run / "said.txt", "a") as file:
            print(line, file=file)


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory):
    """shared_run(out, steps=6) trains in this process, and returns `out`.

    Dropout and all losses of GDR are on. The auxiliary losses begin late: until then, their
    parameters have no gradient in any process.
    """
    corpus = write_corpus(tmp_path_factory.mktemp("corpus"))

    def run(out, **settings):
        wanted = {"steps": 6, "log_every": 1, "save_every": 3, "accumulate": 2}
        wanted |= {"auxiliary_start": 2, "best_by": "loss"}
        config = toy_config(
            corpus,
            data={"valid": None},
            model={"dropout": 0.3, "separator": {"kind": "gdr"}},
            train=wanted | settings,
        )
        train(config, RunOptions(out), Teller(out, 6))
        return out

    return run


@pytest.fixture(scope="session")
def alone(shared_run, tmp_path_factory):
    """The run by one process; it also imports all that forked processes will need."""
    return shared_run(tmp_path_factory.mktemp("alone") / "run")
