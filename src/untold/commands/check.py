"""`untold check` finds what translations leave out and what they add.

The steps of `untold check`: reads files, judges segments, prints and writes what was found.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer

from untold.checking.checker import CheckedSegment
from untold.checking.reports import (
    CheckTable,
    damage_record,
    json_line,
    page_parts,
    sarif_parts,
    segment_record,
)
from untold.checking.segments import Damage, FindingKind, Segment
from untold.checking.verdict import (
    Baseline,
    BaselineEntry,
    FailRules,
    Tally,
    baseline_entry,
    write_baseline,
)
from untold.commands.options import (
    AsJson,
    Model,
    check_output,
    load_translator,
    number_option,
    print_notice,
    say_outputs_if_stopped,
)
from untold.errors import UntoldError, shorten
from untold.files import new_file, writing
from untold.progress_bar import task

FOUND = 1  # the exit code if the check fails

Files = Annotated[
    list[Path] | None, typer.Argument(help="Files with translations, such as .tsv, .po or .xlf.")
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND[:PROBABILITY]",
        help="omission, addition or damage: only these fail; may be given again [all that is "
        "reported].",
    ),
]
Expected = Annotated[
    float, number_option(0.001, 0.999, "The share of segments that are probably damaged.")
]
Columns = Annotated[
    str | None, typer.Option(metavar="SOURCE,TARGET", help="Columns of a table, by name or number.")
]
SourceLanguage = Annotated[
    str | None, typer.Option(help="Which language of a TMX or XLIFF file is the source.")
]
Known = Annotated[
    Path | None, typer.Option("--baseline", help="Report no findings that this file lists.")
]
WriteKnown = Annotated[
    Path | None,
    typer.Option(
        "--write-baseline", help="List all findings in this file, even if it exists, and accept."
    ),
]


def check(
    model: Model,
    files: Files = None,
    source: Annotated[Path | None, typer.Option(help="Plain source text instead.")] = None,
    target: Annotated[Path | None, typer.Option(help="And its translations.")] = None,
    columns: Columns = None,
    source_language: SourceLanguage = None,
    target_language: Annotated[str | None, typer.Option(help="And which the target.")] = None,
    threshold: Annotated[float, number_option(0.0, 1.0, "Report from this probability on.")] = 0.5,
    expected: Expected = 0.1,
    fail_on: FailOn = None,
    budget: Annotated[
        int, number_option(0, 10**9, "So many findings may a file have before the check fails.")
    ] = 0,
    baseline: Known = None,
    write_baseline: WriteKnown = None,
    as_json: AsJson = False,
    sarif: Annotated[Path | None, typer.Option(help="Write SARIF, for code review.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to read and filter.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the summary only.")] = False,
) -> None:
    """Find source words that were never translated, and target words that nothing explains.

    Ends with exit code 1 if the check fails: if something was found, or could not be read.
    """
    from untold.checking.verdict import Baseline, read_baseline, read_fail_rules

    rules = read_fail_rules(fail_on or [], threshold, budget)
    texts = None if source is None and target is None else (source, target)
    inputs = CheckedFiles.from_options(
        files or [], texts, columns=columns, languages=(source_language, target_language)
    )
    printed = None if quiet else "json" if as_json else "table"
    outputs = CheckOutputs(printed, sarif, html, write_baseline)
    for path in outputs.paths:
        check_output(path)
    say_outputs_if_stopped(*outputs.paths)
    known = Baseline() if baseline is None else read_baseline(baseline)
    translator = load_translator(model, None)
    run = CheckRun(rules, rules.shown(threshold), known, expected)
    print_notice(run.check(translator, inputs, outputs).summary())
    if run.fails:
        raise typer.Exit(FOUND)


if TYPE_CHECKING:
    from untold.checking.segments import ReadOptions
    from untold.translator import Translator


Record = Mapping[str, Any]


@dataclass(frozen=True)
class CheckedFiles:
    """The files that a check reads: tables and catalogues, or two plain texts."""

    files: tuple[Path, ...]
    options: "ReadOptions"
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

    def segments(self) -> "Iterator[Segment | Damage]":
        """Yields the segments of all files, in order."""
        from untold.checking.formats import read_segments, read_two_files

        if self.is_two_texts:
            yield from read_two_files(*self.files)
            return
        for path in self.files:
            yield from read_segments(path, self.options)


def _read_options(
    columns: str | None, source_language: str | None, target_language: str | None
) -> "ReadOptions":
    from untold.checking.segments import ReadOptions

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

    def check(self, translator: "Translator", inputs: CheckedFiles, outputs: CheckOutputs) -> Tally:
        """Checks all files, prints findings as they come, and then writes the other outputs."""
        from untold.checking.checker import check_segments

        place = outputs.sarif or outputs.html
        table = CheckTable()
        with _spool(place) as spool, _progress(outputs.printed) as advance:
            for item in check_segments(translator, inputs.segments(), self.expected):
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
