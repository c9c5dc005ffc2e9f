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
