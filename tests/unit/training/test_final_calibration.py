"""Runs end calibrated, once, with the same numbers however often they were stopped."""

import io
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from toys import toy_config, write_corpus
from untold.decoding import scoring
from untold.errors import UntoldError
from untold.storage.averaging import average_models, last_checkpoints
from untold.storage.calibration import Calibration
from untold.storage.model_directory import find_model, load_model, save_model
from untold.training import validation as final_calibration
from untold.training.log import Reporter
from untold.training.run import RunOptions, train

GDR = {"separator": {"kind": "gdr", "d_capsule": 3, "lexicon": 4}}
TRAIN = {"steps": 4, "validate_every": 2, "save_every": 4, "accumulate": 1}
SECTIONS = {"model": GDR, "train": TRAIN}
PAIRS = 45


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"), valid=PAIRS)


def calibrated(lines: list[str]) -> list[str]:
    return [line for line in lines if "calibrated" in line]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def of(run: Path) -> Calibration | None:
    return load_model(run).calibration


@pytest.fixture(scope="module")
def straight(root, tmp_path_factory):
    """A run in one go, and what it said; never to be changed."""
    run = tmp_path_factory.mktemp("straight")
    listener = Listener(run)
    train(toy_config(root, **SECTIONS), RunOptions(run), listener)
    return run, listener.lines


@pytest.fixture(scope="module")
def stopped(straight, tmp_path_factory):
    """The same run as if a signal had stopped it after its last validation."""
    run = tmp_path_factory.mktemp("stopped") / "run"
    shutil.copytree(straight[0], run)
    best = find_model(run)
    save_model(best, replace(load_model(best), calibration=None), replace=True)
    return run


class Listener(Reporter):
    """A reporter that remembers what was said."""

    def __init__(self, run: Path) -> None:
        super().__init__(run, 4, Console(file=io.StringIO()))
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_a_run_ends_calibrated_and_says_so(straight) -> None:
    run, lines = straight
    found = of(run)
    assert found is not None and found.segments == PAIRS
    (line,) = calibrated(lines)
    assert line == (
        f"calibrated on {PAIRS} validation pairs: on held-out words the probability of an "
        f"omission is off by {found.error:.3f} on average"
    )
    (checkpoint,) = last_checkpoints(run, 1)
    assert load_model(checkpoint).calibration is None
    assert average_models([find_model(run)]).calibration is None


def test_it_is_done_once(straight, start, root, tmp_path, monkeypatch) -> None:
    run = shutil.copytree(straight[0], tmp_path / "run")
    before = contents(find_model(run))
    monkeypatch.setattr(final_calibration, "fit_calibration", None)  # it would fail if it were used
    _, lines = start(run, root=root, **SECTIONS)
    assert calibrated(lines) == [] and contents(find_model(run)) == before


@pytest.mark.parametrize("stops", [(1, 3), (4,)])
def test_a_run_in_pieces_ends_with_the_same_numbers(straight, start, root, tmp_path, stops) -> None:
    out = tmp_path / "pieces"
    for stop in stops:
        result, lines = start(out, root=root, stop_after=stop, **SECTIONS)
        assert result.signal and calibrated(lines) == []
        if (out / "best").exists():
            assert of(out) is None
    _, said = start(out, root=root, **SECTIONS)
    assert calibrated(said) == calibrated(straight[1])
    assert of(out) == of(straight[0])
    assert contents(find_model(out)) == contents(find_model(straight[0]))


def test_a_signal_while_it_calibrates_puts_it_off(
    straight, stopped, start, root, tmp_path, monkeypatch
) -> None:
    out, read = tmp_path / "run", scoring.PairReader.read_pass
    shutil.copytree(stopped, out)
    before = contents(find_model(out))

    def read_and_stop(self, *given):
        signal.raise_signal(signal.SIGTERM)
        return read(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(scoring.PairReader, "read_pass", read_and_stop)
        result, lines = start(out, root=root, **SECTIONS)
    assert (result.signal, result.progress.step) == (15, 4)
    assert calibrated(lines) == [] and contents(find_model(out)) == before
    _, lines = start(out, root=root, **SECTIONS)
    assert calibrated(lines) == calibrated(straight[1]) and of(out) == of(straight[0])


def test_a_run_that_dies_while_it_writes_is_calibrated_when_it_is_resumed(
    straight, stopped, start, root, tmp_path, monkeypatch
) -> None:
    out = shutil.copytree(stopped, tmp_path / "run")

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Calibration, "to_json", die)
        with pytest.raises(KeyboardInterrupt):
            start(out, root=root, **SECTIONS)
    assert of(out) is None
    start(out, root=root, **SECTIONS)
    assert of(out) == of(straight[0])


def test_too_little_text_is_said_and_harms_nothing(start, tmp_path) -> None:
    """The common corpus has three validation pairs."""
    result, lines = start(tmp_path, **SECTIONS)
    assert result.progress.step == 4 and of(tmp_path) is None
    (line,) = calibrated(lines)
    assert line.startswith("not calibrated: a calibration needs at least 20 segments from which")


@pytest.mark.parametrize("place", ["load_model", "add_calibration"])
def test_whatever_goes_wrong_is_said_and_harms_nothing(
    stopped, start, root, tmp_path, monkeypatch, place
) -> None:
    out = shutil.copytree(stopped, tmp_path / "run")

    def fail(*_):
        raise UntoldError("the disk is full")

    monkeypatch.setattr(final_calibration, place, fail)
    result, lines = start(out, root=root, **SECTIONS)
    assert result.signal == 0
    assert calibrated(lines) == ["not calibrated: the disk is full"]
    assert of(out) is None


def test_models_without_past_and_future_have_none(start, root, tmp_path) -> None:
    _, lines = start(tmp_path, root=root, train=TRAIN)
    assert calibrated(lines) == [] and of(tmp_path) is None


def test_a_run_that_starts_from_a_calibrated_model_makes_its_own(
    straight, start, root, tmp_path
) -> None:
    start(tmp_path, root=root, init=find_model(straight[0]), **SECTIONS)
    assert of(tmp_path) not in (None, of(straight[0]))
