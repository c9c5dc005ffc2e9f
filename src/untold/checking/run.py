"""A check of files: reads them, judges their segments, prints and writes what was found."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from untold.checking.checker import CheckedSegment, check_segments
from untold.checking.formats import read_segments, read_two_files
from untold.checking.reports import (
    Record,
    check_page,
    damage_record,
    json_line,
    print_record,
    sarif_log,
    segment_record,
)
from untold.checking.segments import Damage, ReadOptions, Segment
from untold.checking.verdict import Verdict, entries_of, write_baseline
from untold.errors import UntoldError, shorten
from untold.files import write_file
from untold.progress_bar import task
from untold.storage.model_directory import TrainedModel
from untold.terminal import console


@dataclass(frozen=True)
class CheckInputs:
    """The files that a check reads: tables and catalogues, or two plain texts."""

    files: tuple[Path, ...]
    are_two_texts: bool
    options: ReadOptions

    def __post_init__(self) -> None:
        """Refuses what cannot be read before a model is loaded."""
        if self.are_two_texts and len(self.files) != 2:
            raise UntoldError("--source and --target come in twos: give both")
        if not self.files:
            raise UntoldError("nothing to check: name files, or give --source and --target")
        for path in self.files:
            if not path.exists() or path.is_dir():
                what = "is a directory: name the files in it" if path.is_dir() else "no such file"
                raise UntoldError(f"{path}: {what}")

    def segments(self) -> Iterator[Segment | Damage]:
        """Yields the segments of all files, in order."""
        if self.are_two_texts:
            return read_two_files(*self.files)
        return chain.from_iterable(read_segments(path, self.options) for path in self.files)


@dataclass(frozen=True)
class CheckOutputs:
    """Says how findings are printed, and which files are written when all is checked."""

    printed: Literal["table", "json"] | None
    sarif: Path | None = None
    html: Path | None = None
    baseline: Path | None = None

    @property
    def paths(self) -> tuple[Path | None, ...]:
        """Lists the files in the order in which they are written."""
        return self.sarif, self.html, self.baseline


def read_columns(text: str) -> tuple[str, str]:
    """Reads two names or numbers of columns, parted by a comma."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise UntoldError(f"--columns {shorten(text)}: name two columns, as in source,target")
    return names[0], names[1]


def check_files(
    trained: TrainedModel,
    inputs: CheckInputs,
    expected: float,
    verdict: Verdict,
    outputs: CheckOutputs,
) -> bool:
    """Prints findings as they come, then writes the other outputs; returns if the check fails."""
    records: list[Record] = []
    with _printer(outputs.printed) as show:
        for item in check_segments(trained, inputs.segments(), expected):
            record = _record(item, verdict)
            show(record)
            if record is not None and (outputs.sarif or outputs.html):
                records.append(record)
    _write(records, inputs.files, verdict, outputs)
    # Findings that were just accepted do not fail; a place that could not be read still does.
    return verdict.rules.fail({} if outputs.baseline else verdict.counted, verdict.damages)


def _record(item: CheckedSegment | Segment | Damage, verdict: Verdict) -> Record | None:
    """Counts an item; returns what there is to report of it."""
    if isinstance(item, Damage):
        verdict.damages += 1
        return damage_record(item)
    if isinstance(item, Segment):
        verdict.unchecked[item.unchecked or "not judged"] += 1
        return None
    findings = verdict.new_findings(item)
    return segment_record(item, findings) if findings else None


@contextmanager
def _printer(how: str | None) -> Iterator[Callable[[Record | None], None]]:
    """Yields what prints a record, and shows progress where no printed line disturbs it."""
    terminal = console()

    def show(record: Record | None) -> None:
        if record is not None and how == "json":
            print(json_line(record), flush=True)
        elif record is not None and how == "table":
            print_record(record, terminal)

    if how is not None and sys.stdout is not None and sys.stdout.isatty():
        yield show
        return
    with task("checking") as bar:

        def show_and_count(record: Record | None) -> None:
            show(record)
            bar.advance()

        yield show_and_count


def _write(
    records: list[Record], files: Sequence[Path], verdict: Verdict, outputs: CheckOutputs
) -> None:
    if outputs.sarif is not None:
        log = sarif_log(records, Path.cwd())
        write_file(outputs.sarif, json.dumps(log, indent=1, allow_nan=False).encode())
    if outputs.html is not None:
        write_file(outputs.html, check_page(records, verdict.summary(files)).encode())
    if outputs.baseline is not None:
        elsewhere = verdict.known - entries_of(files, verdict.known)
        write_baseline(outputs.baseline, verdict.entries | elsewhere)
