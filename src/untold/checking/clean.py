"""Drops pairs of a corpus: scores all of them, chooses, and copies the lines that are kept."""

import gzip
import math
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from untold.checking.checker import CheckedSegment, check_segments
from untold.checking.formats import read_segments, read_two_files
from untold.checking.run import read_columns
from untold.checking.segments import Damage, ReadOptions, Segment
from untold.corpus.text import open_bytes
from untold.errors import UntoldError
from untold.files import new_file
from untold.progress_bar import task
from untold.storage.model_directory import TrainedModel

_TABLES = (".tsv", ".jsonl")
_DAMAGES_SHOWN = 10
# A judged pair has two probabilities, one that was not judged has NaN, a damaged one infinity.
_UNCHECKED, _DAMAGED = math.nan, math.inf


@dataclass(frozen=True)
class CorpusFiles:
    """The files of a corpus, whose lines belong together, and those for the lines that stay."""

    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]
    columns: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Refuses an output that is the corpus itself, or the same as the other output."""
        for number, path in enumerate(self.outputs):
            others = (*self.inputs, *self.outputs[:number])
            if path.absolute() in {other.absolute() for other in others}:
                raise UntoldError(f"{path}: is another file of this command: choose another name")

    @classmethod
    def of_texts(
        cls, texts: tuple[Path | None, Path | None], outs: tuple[Path | None, Path | None]
    ) -> "CorpusFiles":
        """Takes two plain texts."""
        if None in texts:
            raise UntoldError("no whole corpus: give --source and --target, or --table")
        if None in outs:
            raise UntoldError("nowhere to write to: give --out-source and --out-target")
        inputs, outputs = (tuple(path for path in side if path) for side in (texts, outs))
        return cls(inputs, outputs)

    @classmethod
    def of_table(cls, table: Path, out: Path | None, columns: str | None) -> "CorpusFiles":
        """Takes a table that has a pair in each line."""
        if out is None:
            raise UntoldError("nowhere to write to: give --out")
        suffix = _suffix(table)
        if suffix not in _TABLES:
            raise UntoldError(f"{table}: a table here is {' or '.join(_TABLES)}, also with .gz")
        if _suffix(out) != suffix:
            raise UntoldError(f"{out}: gets lines of {table}: choose a name that ends in {suffix}")
        return cls((table,), (out,), None if columns is None else read_columns(columns))

    def segments(self) -> Iterator[Segment | Damage]:
        """Yields a segment or a damage for each pair."""
        if len(self.inputs) == 2:
            return read_two_files(self.inputs[0], self.inputs[1])
        return read_segments(self.inputs[0], ReadOptions(self.columns))


@dataclass(frozen=True)
class KeepRule:
    """Says which pairs stay: a share of those that were judged, or all below a probability."""

    share: float | None
    below: float | None
    keeps_unchecked: bool = True


@dataclass
class Cleaned:
    """Counts what became of the pairs."""

    kept: int = 0
    dropped: int = 0
    unchecked: Counter[str] = field(default_factory=Counter)  # by reason
    damages: list[Damage] = field(default_factory=list)  # the first ones
    damaged: int = 0  # places; a pair may have two, and is dropped

    def summary(self, rule: KeepRule) -> str:
        """Words the counts in one line."""
        parts = [f"pairs kept: {self.kept:,}", f"dropped: {self.dropped:,}"]
        if self.unchecked:
            reasons = ", ".join(f"{name} {n:,}" for name, n in sorted(self.unchecked.items()))
            fate = "kept" if rule.keeps_unchecked else "dropped"
            parts.append(f"of the {fate}, unchecked: {self.unchecked.total():,} ({reasons})")
        if self.damaged:
            parts.append(f"damaged places: {self.damaged:,}")
        return "; ".join(parts)

    def first_damages(self) -> Iterator[str]:
        """Yields a line for each of the first damaged places."""
        for damage in self.damages:
            yield f"{damage.file}:{damage.line}: damaged: {damage.reason}"
        if self.damaged > len(self.damages):
            yield f"damaged places that are not listed: {self.damaged - len(self.damages):,}"


def choose_pairs(worst: np.ndarray, rule: KeepRule) -> np.ndarray:
    """Tells which pairs stay by the worse of their two probabilities; of equal ones the earlier."""
    judged = np.flatnonzero(np.isfinite(worst))
    stays = np.isnan(worst) & rule.keeps_unchecked
    if rule.share is not None:
        best = judged[np.argsort(worst[judged], kind="stable")]
        stays[best[: round(rule.share * len(best))]] = True
    elif rule.below is not None:
        stays[judged[worst[judged] < rule.below]] = True
    return stays


def clean_corpus(
    trained: TrainedModel, corpus: CorpusFiles, rule: KeepRule, scores: Path | None
) -> Cleaned:
    """Scores a corpus and writes what stays of it; every output is whole or absent."""
    cleaned, numbers = Cleaned(), array("d")
    with task("checking") as bar:
        for item in check_segments(trained, corpus.segments()):
            numbers.extend(_score(item, cleaned))
            bar.advance()
    rows = np.array(numbers).reshape(-1, 3)
    # Where both sides of a pair are damaged, both are told, but it is one pair.
    rows = rows[np.unique(rows[:, 0], return_index=True)[1]]
    stays = choose_pairs(rows[:, 1:].max(1), rule)
    cleaned.kept, cleaned.dropped = int(stays.sum()), int((~stays).sum())
    if scores is not None:
        _write_scores(scores, rows)
    _copy_lines(corpus, rows[~stays, 0])
    return cleaned


def _score(item: CheckedSegment | Segment | Damage, cleaned: Cleaned) -> tuple[int, float, float]:
    """Returns line, omission and addition of a pair, and counts it unless it was judged."""
    if isinstance(item, CheckedSegment):
        return item.segment.line, item.source.any, item.target.any
    if isinstance(item, Segment):
        cleaned.unchecked[item.unchecked or "not judged"] += 1
        return item.line, _UNCHECKED, _UNCHECKED
    cleaned.damaged += 1
    if len(cleaned.damages) < _DAMAGES_SHOWN:
        cleaned.damages.append(item)
    return item.line, _DAMAGED, _DAMAGED


def _write_scores(path: Path, rows: np.ndarray) -> None:
    with new_file(path) as file:
        for line, omission, addition in rows.tolist():
            judged = math.isfinite(omission)
            figures = f"{omission:.6f}\t{addition:.6f}" if judged else "-\t-"
            file.write(f"{line:.0f}\t{figures}\n".encode())


def _copy_lines(corpus: CorpusFiles, dropped: np.ndarray) -> None:
    """Copies all other lines byte for byte, also a header; the outputs appear together."""
    with ExitStack() as stack:
        for source, out in zip(corpus.inputs, corpus.outputs, strict=True):
            with open_bytes(source) as file, task(f"writing {out}") as bar:
                copy = stack.enter_context(_new_text(out))
                skipped = iter(dropped.tolist())
                skip = next(skipped, None)
                for number, line in enumerate(file, start=1):
                    if number == skip:
                        skip = next(skipped, None)
                    else:
                        copy.write(line)
                    bar.advance()


@contextmanager
def _new_text(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    """Yields a file to fill, which is packed if its name ends in .gz."""
    with new_file(path) as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            yield packed


def _suffix(path: Path) -> str:
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
