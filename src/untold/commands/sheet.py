"""`untold sheet` lets people rate translations, and counts their ratings."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untold.commands.options import (
    LARGEST_SEED,
    AsJson,
    identify_file,
    number_option,
    print_notice,
    say_outputs_if_stopped,
)
from untold.errors import UntoldError, shorten
from untold.feedback import task, track

if TYPE_CHECKING:
    from untold.evaluation.adequacy_sheet import RaterFile

__all__ = ["sheet"]

Systems = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=FILE", help="Its translations by a system; may be given again."),
]
Number = Annotated[int, number_option(1, 100_000, "Sentences of the sheet, drawn at random.")]
Aggregate = Annotated[
    Path | None,
    typer.Option(metavar="KEY", help="Count ratings instead, with the key.json of their sheet."),
]


def sheet(
    files: Annotated[
        list[Path] | None, typer.Argument(help="With --aggregate: sheets filled in, one a rater.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Source text, a line each.")] = None,
    system: Systems = None,
    reference: Annotated[
        Path | None, typer.Option(help="Reference translations, shown to raters.")
    ] = None,
    number: Number = 200,
    seed: Annotated[int, number_option(0, LARGEST_SEED, "Chooses sentences, or trials.")] = 1,
    out: Annotated[Path | None, typer.Option(help="The directory to write to.")] = None,
    aggregate: Aggregate = None,
    as_json: AsJson = False,
) -> None:
    """Write a sheet on which people rate translations of anonymous systems, or count ratings.

    OUT/raters has the sheet as a spreadsheet and as a page for a browser, either of which a rater
    fills in. OUT/key.json says which system is which: keep it from the raters.
    """
    if aggregate is not None:
        _aggregate(aggregate, files or [], seed, as_json)
        return
    if source is None or not system or out is None:
        raise UntoldError(
            "sheet needs --source, --system and --out to write a sheet, or --aggregate and the "
            "sheets that were filled in: see untold sheet --help"
        )
    _export(source, _read_systems(system), reference, (number, seed), out)


def _export(
    source: Path,
    systems: dict[str, Path],
    reference: Path | None,
    drawn: tuple[int, int],
    out: Path,
) -> None:
    from untold.durable import new_directory
    from untold.evaluation.adequacy_sheet import (
        draw_sheet,
        key_json,
        read_sheet_texts,
        sheet_csv,
    )
    from untold.report.sheets.sheet_page import sheet_page

    say_outputs_if_stopped(out)
    with task("reading the translations"):
        texts = read_sheet_texts(source, systems, reference)
    drawn_sheet = draw_sheet(texts, *drawn)
    with task(f"writing {out}"), new_directory(out) as folder:
        (folder / "raters").mkdir()
        (folder / "raters" / "sheet.csv").write_bytes(sheet_csv(drawn_sheet))
        (folder / "raters" / "sheet.html").write_bytes(sheet_page(drawn_sheet))
        (folder / "key.json").write_bytes(key_json(drawn_sheet))
    print(
        f"{out / 'raters'}: sheet {drawn_sheet.name}, {drawn[0]:,} sources by {len(systems)} "
        f"systems: give raters sheet.csv or sheet.html, and keep {out / 'key.json'}"
    )


def _aggregate(key_file: Path, files: list[Path], seed: int, as_json: bool) -> None:
    from untold.evaluation.adequacy_sheet import aggregate_ratings, read_key, read_rater_file
    from untold.evaluation.seed_statistics import SignPatterns
    from untold.report.sheets.sheet_table import print_results, results_record

    say_outputs_if_stopped()
    if not files:
        raise UntoldError("--aggregate needs sheets that were filled in: name a file of each rater")
    _refuse_repeated(files)
    key = read_key(key_file)
    raters = [
        read_rater_file(path, key) for path in track(files, "reading the ratings", len(files))
    ]
    for line in _doubts(files, raters):
        print_notice(line)
    with task("comparing systems"):
        results = aggregate_ratings(key, raters, SignPatterns(seed=seed))
    if as_json:
        print(json.dumps(results_record(results), ensure_ascii=False))
    else:
        print_results(results)


def _doubts(files: list[Path], raters: "list[RaterFile]") -> Iterator[str]:
    """Words what is suspicious about files, but no mistake for sure."""
    known: dict[frozenset[object], Path] = {}
    for path, rater in zip(files, raters, strict=True):
        if rater.shifted:
            yield (
                f"{path}: {len(rater.shifted)} rows have another translation than the sheet, the "
                f"first on line {rater.shifted[0]}: was a column sorted by itself, or edited?"
            )
        same = known.setdefault(frozenset(rater.ratings.items()), path)
        if same != path:
            yield f"{path}: has the very ratings of {same}: is it a copy?"


def _refuse_repeated(files: list[Path]) -> None:
    """Refuses a file that was named twice: its rater would count double, and agree too well."""
    known: set[tuple[int, int]] = set()
    for path in files:
        found = identify_file(path)
        if found in known:
            raise UntoldError(f"{path}: is named twice: name one file of each rater")
        if found is not None:  # whoever reads a missing one will say so
            known.add(found)


def _read_systems(given: list[str]) -> dict[str, Path]:
    from untold.evaluation.adequacy_sheet import MOST_SYSTEMS

    systems: dict[str, Path] = {}
    for text in given:
        name, sign, path = text.partition("=")
        if not sign or not name.strip() or not path:
            raise UntoldError(f"--system {shorten(text)}: write it as NAME=FILE")
        if name in systems:
            raise UntoldError(f"--system {shorten(text)}: there is another {shorten(name)}: rename")
        systems[name] = Path(path)
    if len(systems) > MOST_SYSTEMS:
        raise UntoldError(f"{len(systems)} systems: a sheet has at most {MOST_SYSTEMS}: name fewer")
    return systems
