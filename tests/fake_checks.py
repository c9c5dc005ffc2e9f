"""A checker that knows the answer: a word such as `hat_93` is lacking with probability .93."""

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from untold.checking.checker import CheckedSegment, JudgedSide
from untold.checking.segments import Damage, ReadOptions, Segment
from untold.corpus.words import Word

__all__ = ["TEXTS", "install", "install_checker", "install_readers", "judged"]

# Whatever ends a line or a script, drives a terminal, or turns the direction of writing.
TEXTS = '\x00\x07\x08\x1b[5m\n\r\t\x7f\x9b\u2028\u202e\u2066 {0} ](x) --> ]]> </script><!-- & "'


def judged(segment: Segment) -> CheckedSegment:
    """Judges both sides of a segment by their words."""
    return CheckedSegment(segment, _side(segment.source), _side(segment.target))


def _side(text: str) -> JudgedSide:
    places = list(re.finditer(r"\S+", text))
    words = tuple(
        Word(found[0], found.span(), slice(k, k + 1), found[0]) for k, found in enumerate(places)
    )
    found = (re.fullmatch(r"\w*_(\d\d)", word.text, re.ASCII) for word in words)
    probabilities = tuple(int(each[1]) / 100 if each else 0.01 for each in found)
    return JudgedSide(words, probabilities, max(probabilities, default=0.0))


def _check_segments(
    trained: object, segments: Iterable[Segment | Damage], expected: float = 0.1
) -> Iterator[CheckedSegment | Segment | Damage]:
    for each in segments:
        yield each if isinstance(each, Damage) or each.unchecked else judged(each)


def _read_segments(path: Path, options: ReadOptions) -> Iterator[Segment | Damage]:
    """Reads unit, source and target, parted by tabs; --columns may swap the last two."""
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1], start=1):
        name, *texts = line.split("\t")
        if line.startswith("#"):
            continue  # a header
        if len(texts) != 2:
            yield Damage(str(path), number, "not two texts: add a tab")
        else:
            swapped = options.columns == ("target", "source")
            yield _segment(str(path), number, texts[::-1] if swapped else texts, name)


def _segment(file: str, line: int, texts: Iterable[str], name: str = "") -> Segment:
    source, target = texts
    why = "" if source.strip() and target.strip() else "empty"
    return Segment(file, line, source, target, name, unchecked=why)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the commands read and judge as above, with a model of no weight."""
    install_readers(monkeypatch)
    install_checker(monkeypatch)


def install_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the commands judge as above, with a model of no weight, but read in earnest."""
    from untold.storage.model_directory import TrainedModel

    for name in ("check", "clean"):
        command = import_module(f"untold.commands.{name}")
        monkeypatch.setattr(command, "load_trained", lambda *_: object.__new__(TrainedModel))
    for module in _checking_modules():
        monkeypatch.setattr(module, "check_segments", _check_segments)


def install_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the commands read as above, but judge in earnest."""
    for module in _checking_modules():
        monkeypatch.setattr(module, "read_segments", _read_segments)


def _checking_modules() -> list[ModuleType]:
    return [import_module(f"untold.checking.{name}") for name in ("run", "clean")]
