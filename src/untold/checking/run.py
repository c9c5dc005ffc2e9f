"""A check of files: reads them, judges their segments, prints and writes what was found."""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from untold.checking.checker import CheckedSegment, check_segments
from untold.checking.formats import read_segments, read_two_files
from untold.checking.reports import (
    CheckTable,
    damage_record,
    json_line,
    page_parts,
    sarif_parts,
    segment_record,
)
from untold.checking.segments import Damage, FindingKind, ReadOptions, Segment
from untold.checking.verdict import (
    Baseline,
    BaselineEntry,
    FailRules,
    Tally,
    baseline_entry,
    write_baseline,
)
from untold.errors import UntoldError, shorten
from untold.files import new_file, writing
from untold.progress_bar import task
from untold.storage.model_directory import TrainedModel

Record = Mapping[str, Any]


@dataclass(frozen=True)
class CheckedFiles:
    """The files that a check reads: tables and catalogues, or two plain texts."""

    files: tuple[Path, ...]
    options: ReadOptions
    is_two_texts: bool

    @classmethod
    def from_options(
        cls,
        files: Sequence[Path],
        texts: tuple[Path | None, Path | None] | None,
        *,
        columns: str | None,
        languages: tuple[str | None, str | None],
    ) -> "CheckedFiles":
        """Refuses what cannot be read before a model is loaded."""
        paths = tuple(each for each in texts or files if each is not None)
        if texts is not None and len(paths) != 2:
            raise UntoldError("--source and --target come in twos: give both")
        if not paths:
            raise UntoldError("nothing to check: name files, or give --source and --target")
        for path in paths:
            if not path.exists() or path.is_dir():
                what = "is a directory: name the files in it" if path.is_dir() else "no such file"
                raise UntoldError(f"{path}: {what}")
        return cls(paths, _read_options(columns, *languages), texts is not None)

    def segments(self) -> Iterator[Segment | Damage]:
        """Yields the segments of all files, in order."""
        if self.is_two_texts:
            yield from read_two_files(*self.files)
            return
        for path in self.files:
            yield from read_segments(path, self.options)


def _read_options(
    columns: str | None, source_language: str | None, target_language: str | None
) -> ReadOptions:
    names = None if columns is None else read_columns(columns)
    return ReadOptions(names, source_language, target_language)


def read_columns(text: str) -> tuple[str, str]:
    """Reads two names or numbers of columns, parted by a comma."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise UntoldError(f"--columns {shorten(text)}: name two columns, as in source,target")
    return names[0], names[1]


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


@dataclass
class CheckRun:
    """Judges segments by a model, and findings by rules and a baseline."""

    rules: FailRules
    thresholds: dict[FindingKind, float]
    known: Baseline
    expected: float  # the share of segments that are damaged
    tally: Tally = field(default_factory=Tally)
    fails: bool = False
    _found: set[BaselineEntry] = field(default_factory=set)

    def check(self, trained: TrainedModel, inputs: CheckedFiles, outputs: CheckOutputs) -> Tally:
        """Checks all files, prints findings as they come, and then writes the other outputs."""
        place = outputs.sarif or outputs.html
        table = CheckTable()
        with _spool(place) as spool, _progress(outputs.printed) as advance:
            for item in check_segments(trained, inputs.segments(), self.expected):
                record = self._judge(item)
                if record is not None:
                    _print(record, outputs.printed, table)
                    spool.add(record)
                advance()
            self.tally.stale = len(self.known.stale(inputs.files))
            self._write(spool, inputs, outputs)
        # Findings that were just accepted do not fail; a place that could not be read still does.
        counted = {} if outputs.baseline else self.tally.counted
        self.fails = self.rules.fail(counted, self.tally.damages)
        return self.tally

    def _judge(self, item: CheckedSegment | Segment | Damage) -> Record | None:
        """Counts an item; returns what there is to report of it."""
        if isinstance(item, Damage):
            self.tally.damages += 1
            return damage_record(item)
        if isinstance(item, Segment):
            self.tally.unchecked[item.unchecked or "not judged"] += 1
            return None
        self.tally.checked += 1
        reported = []
        for finding in item.findings(self.thresholds):
            self._found.add(baseline_entry(item.segment, finding.kind))
            if self.known.knows(item.segment, finding.kind):
                self.tally.known += 1
                continue
            self.tally.findings[finding.kind] += 1
            self.tally.counted[item.segment.file] += self.rules.counts(finding)
            reported.append(finding)
        return segment_record(item, reported) if reported else None

    def _write(self, spool: "_Spool", inputs: CheckedFiles, outputs: CheckOutputs) -> None:
        if outputs.sarif is not None:
            _write_parts(outputs.sarif, sarif_parts(spool.records(), Path.cwd()))
        if outputs.html is not None:
            _write_parts(outputs.html, page_parts(spool.records(), self.tally.summary()))
        if outputs.baseline is not None:
            write_baseline(outputs.baseline, self._found | self.known.elsewhere(inputs.files))


@contextmanager
def _progress(printed: str | None) -> Iterator[Callable[[], None]]:
    """Shows progress where no line that is printed disturbs it; yields what counts one more."""
    if printed is not None and sys.stdout is not None and sys.stdout.isatty():
        yield lambda: None
        return
    with task("checking") as begun:
        yield begun.advance


def _print(record: Record, how: str | None, table: CheckTable) -> None:
    if how == "json":
        print(json_line(record), flush=True)
    elif how == "table":
        table.print(record)


def _write_parts(path: Path, parts: Iterator[str]) -> None:
    with new_file(path) as file:
        for part in parts:
            file.write(part.encode())


class _Spool:
    """Keeps records on disk until all is checked, so that memory does not grow with findings."""

    def __init__(self, path: Path | None, file: IO[str] | None) -> None:
        self._path, self._file = path, file

    def add(self, record: Record) -> None:
        """Keeps a record if there is a use for it."""
        if self._file is not None and self._path is not None:
            with writing(self._path):
                self._file.write(json.dumps(record) + "\n")

    def records(self) -> Iterator[Record]:
        """Yields all records from the first one on."""
        if self._file is not None:
            self._file.seek(0)
            for line in self._file:
                yield json.loads(line)


@contextmanager
def _spool(path: Path | None) -> "Iterator[_Spool]":
    """Yields a spool beside the file that is made of it; it has no name and cannot stay."""
    if path is None:
        yield _Spool(None, None)
        return
    is_device = path.exists() and not path.is_file()
    folder = None if is_device else path.absolute().parent
    with writing(path):
        file = tempfile.TemporaryFile(  # noqa: SIM115 (closed below)
            "w+", encoding="utf-8", newline="\n", dir=folder
        )
    try:
        yield _Spool(path, file)
    finally:
        with suppress(OSError):  # of a full disk, which was told before
            file.close()
