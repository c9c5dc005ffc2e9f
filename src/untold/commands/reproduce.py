"""The doors to the laboratory: `untold reproduce`, `sample`, `sheet` and `demo`."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untold.commands.options import (
    LARGEST_SEED,
    AsJson,
    Settings,
    identify_file,
    number_option,
    print_notice,
    say_outputs_if_stopped,
)
from untold.errors import UntoldError, shorten
from untold.interruption import say_if_stopped
from untold.progress_bar import task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from untold.lab.corpora import Scale, TestFiles
    from untold.lab.items import Evidence, EvidenceItem
    from untold.lab.runner import Plan, Workshop


Links = Annotated[
    list[str] | None,
    typer.Option(help="A further test of separation: NAME=SOURCE,REFERENCE,ALIGNMENTS."),
]
Seeds = Annotated[int | None, number_option(1, 100, "Trainings of each system [the scale's].")]
Sentences = Annotated[
    str | None, typer.Option(help="Draw these lines of the first test set, such as 3,17.")
]
Seed = Annotated[int, number_option(0, LARGEST_SEED, "The same seed gives the same corpus.")]
Noise = Annotated[
    float, number_option(0.0, 0.99, "Share of training references that lose a clause.")
]
Systems = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=FILE", help="Its translations by a system; may be given again."),
]
Number = Annotated[int, number_option(1, 100_000, "Sentences of the sheet, drawn at random.")]
Aggregate = Annotated[
    Path | None,
    typer.Option(metavar="KEY", help="Count ratings instead, with the key.json of their sheet."),
]


def reproduce(
    item: Annotated[str | None, typer.Argument(help="A table or figure; without it, all.")] = None,
    data: Annotated[str, typer.Option(help="The corpus.")] = "grammar-en-de",
    root: Annotated[Path | None, typer.Option(help="The folder of a real corpus.")] = None,
    scale: Annotated[str, typer.Option(help="smoke, small or paper.")] = "smoke",
    seeds: Seeds = None,
    systems: Annotated[
        str | None, typer.Option(help="Only these of its systems, such as gdr,both.")
    ] = None,
    sentences: Sentences = None,
    links: Links = None,
    out: Annotated[Path | None, typer.Option(help="Where everything is kept.")] = None,
    settings: Settings = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be trained.")] = False,
) -> None:
    """Make a table or figure of the paper: train what it needs, measure, and write a report.

    Without an item it lists what there is. What is done is not done again, and a run that was
    stopped goes on.
    """
    if item is None:
        _list()
        return
    from untold.lab.corpora import find_corpus
    from untold.lab.runner import Plan, Workshop

    found, size = _item(item, systems, sentences), _scale(scale)
    linked = _linked_tests(links or (), item)
    out = out or Path("reproduced") / f"{data}-{scale}"
    say_if_stopped(lambda: f"what is done is kept in {out}; the same command goes on")
    corpus = find_corpus(data, root, out, pairs=size.pairs, sentences=size.sentences)
    chosen = Plan(replace(corpus, linked=linked), size, seeds, out, tuple(settings or ()))
    workshop = Workshop(replace(chosen, seeds=1) if found.one_seed else chosen, print_notice)
    if plan:
        _print_plan(found, workshop)
        return
    workshop = found.prepare(workshop)
    workshop.train(found.trained)
    evidence = replace(found.make(workshop), command=_command(item, systems, sentences, chosen))
    _report(evidence, out / "report", data)


def _print_plan(item: "EvidenceItem", workshop: "Workshop") -> None:
    for job in workshop.jobs(item.trained):
        print(f"{job.name}: {job.system.title}, {workshop.config(job).train.steps} updates")


def _item(name: str, systems: str | None, sentences: str | None) -> "EvidenceItem":
    from untold.lab.registry import find_item

    found = find_item(name)
    if sentences is not None:
        found = found.of_sentences(_lines(sentences))
    return found if systems is None else found.only(systems.split(","))


def _lines(given: str) -> list[int]:
    """Reads the option --sentences."""
    words = [word.strip() for word in given.split(",")]
    if not all(re.fullmatch("[1-9][0-9]{0,8}", word) for word in words):
        raise UntoldError(f"--sentences {given}: write it as numbers of lines from 1, as in 3,17")
    return [int(word) for word in words]


def _linked_tests(given: "Sequence[str]", item: str) -> tuple["TestFiles", ...]:
    """Reads the option --links."""
    from untold.lab.corpora import TestFiles

    if given and item != "separation":
        raise UntoldError(f"--links {given[0]} has no effect on {item}: leave it out")
    found = []
    for text in given:
        name, _, files = text.partition("=")
        paths = files.split(",")
        if not name or len(paths) != 3 or not all(paths):
            raise UntoldError(f"--links {text}: write it as NAME=SOURCE,REFERENCE,ALIGNMENTS")
        if missing := [path for path in paths if not Path(path).exists()]:
            raise UntoldError(f"--links {text}: {missing[0]} is missing")
        source, reference, alignments = (str(Path(path).resolve()) for path in paths)
        found.append(TestFiles(name, source, reference, alignments))
    return tuple(found)


def _report(evidence: "Evidence", folder: Path, corpus: str) -> None:
    """Writes all files of an item and prints its tables."""
    from untold.files import write_file
    from untold.lab.claims import read_result_set
    from untold.lab.pages import claims_page, markdown_table, write_evidence

    paths = [*write_evidence(evidence, folder), folder / "claims.md"]
    write_file(paths[-1], claims_page(read_result_set(folder, corpus)).encode())
    for table in evidence.tables:
        print(f"{table.title}\n\n{markdown_table(table)}\n")
    print("\n".join(evidence.notes))
    print(f"written: {paths[0]} and {len(paths) - 1} more files beside it")


def _command(item: str, systems: str | None, sentences: str | None, plan: "Plan") -> str:
    """Returns the command that makes an item, without the user's own folders."""
    words = ["untold", "reproduce", item, "--data", plan.corpus.name]
    if plan.corpus.known.grammar is None:
        words += ["--root", "DATA"]
    words += ["--scale", plan.scale.name]
    if systems is not None:
        words += ["--systems", systems]
    if sentences is not None:
        words += ["--sentences", sentences]
    if plan.seeds is not None:
        words += ["--seeds", str(plan.seeds)]
    for test in plan.corpus.linked:
        words += ["--links", f"{test.name}=SOURCE,REFERENCE,ALIGNMENTS"]
    return shlex.join([*words, *(word for each in plan.settings for word in ("--set", each))])


def _scale(name: str) -> "Scale":
    from untold.lab.corpora import SCALES

    if name not in SCALES:
        raise UntoldError(f"--scale {name}: there is no such scale; known: {', '.join(SCALES)}")
    return SCALES[name]


def _list() -> None:
    from untold.lab.corpora import CORPORA, SCALES
    from untold.lab.registry import ITEMS

    width = max(map(len, (*ITEMS, *CORPORA)))
    print("items: untold reproduce ITEM [--data CORPUS --root FOLDER] [--scale SCALE]\n")
    for item in ITEMS.values():
        print(f"  {item.name:{width}}  {item.title}")
    print("\ncorpora (--data); real ones need --root\n")
    for corpus in CORPORA.values():
        print(f"  {corpus.name:{width}}  {'-'.join(corpus.languages)}; {corpus.origin}")
    print("\nscales (--scale)\n")
    for each in SCALES.values():
        print(f"  {each.name:{width}}  {each.meaning}")


def sample(
    grammar: Annotated[str, typer.Argument(help="en-de, zh-en, or a .grammar file.")],
    out: Annotated[Path, typer.Option(help="The directory to write to.")],
    pairs: Annotated[int, number_option(1, 10_000_000, "Training pairs.")] = 20_000,
    seed: Seed = 7,
    noise: Noise = 0.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a corpus that is there and differs.")
    ] = False,
) -> None:
    """Write a corpus of a synchronous grammar: train, dev, test, with gold word alignments."""
    from untold.files import move_files, scratch_directory
    from untold.lab.grammars.sampling import write_sample

    before = _files(out)
    say_if_stopped(lambda: _account(out, before))
    if not overwrite or not out.is_dir():
        print(write_sample(grammar, pairs, seed, out, noise=noise))
        return
    with scratch_directory(out / "sample") as folder:
        report = write_sample(grammar, pairs, seed, folder, noise=noise)
        move_files(folder, out)
    print(replace(report, out=out))


def _files(out: Path) -> dict[str, tuple[int, int] | None]:
    return {path.name: identify_file(path) for path in sorted(out.glob("[!.]*"))}


def _account(out: Path, before: dict[str, tuple[int, int] | None]) -> str:
    new = [name for name, known in _files(out).items() if known != before.get(name)]
    done = f"{', '.join(new)} are whole; nothing else" if new else "nothing"
    return f"{done} was written to {out}; run the same command again"


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

    OUT/raters has the sheet, a table that raters fill in with a spreadsheet program. OUT/key.json
    says which system is which: keep it from the raters.
    """
    from untold.lab.sheets import draw_sheet, read_sheet_texts, write_sheet

    if aggregate is not None:
        _aggregate(aggregate, files or [], seed, as_json)
        return
    if source is None or not system or out is None:
        raise UntoldError(
            "sheet needs --source, --system and --out to write a sheet, or --aggregate and the "
            "sheets that were filled in: see untold sheet --help"
        )
    say_outputs_if_stopped(out)
    with task("reading the translations"):
        texts = read_sheet_texts(source, _read_systems(system), reference)
    drawn = draw_sheet(texts, number, seed)
    with task(f"writing {out}"):
        write_sheet(drawn, out)
    print(
        f"{out / 'raters'}: sheet {drawn.name}, {number:,} sources by {len(system)} systems: give "
        f"raters sheet.csv, and keep {out / 'key.json'}"
    )


def _aggregate(key_file: Path, files: list[Path], seed: int, as_json: bool) -> None:
    from untold.lab.ratings import aggregate_ratings, print_results, results_record
    from untold.lab.sheets import read_key, read_raters
    from untold.lab.statistics import SignPatterns

    say_outputs_if_stopped()
    if not files:
        raise UntoldError("--aggregate needs sheets that were filled in: name a file of each rater")
    key = read_key(key_file)
    with task("reading the ratings"):
        raters = read_raters(files, key, print_notice)
    with task("comparing systems"):
        results = aggregate_ratings(key, raters, SignPatterns(seed=seed))
    if as_json:
        print(json.dumps(results_record(results), ensure_ascii=False))
    else:
        print_results(results)


def _read_systems(given: list[str]) -> dict[str, Path]:
    systems: dict[str, Path] = {}
    for text in given:
        name, _, path = text.partition("=")
        if not name.strip() or not path:
            raise UntoldError(f"--system {shorten(text)}: write it as NAME=FILE")
        if name in systems:
            raise UntoldError(f"--system {shorten(text)}: there is another {shorten(name)}: rename")
        systems[name] = Path(path)
    return systems


def demo(
    out: Annotated[Path, typer.Option(help="The directory to work in.")] = Path("runs/demo"),
) -> None:
    """Train on the embedded corpus, translate unseen sentences, and show the scores."""
    from untold.lab.demo import run_demo

    say_if_stopped(f"what is finished stays in {out}; run the same command again to go on")
    run_demo(out)
