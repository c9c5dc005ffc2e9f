"""`untold reproduce` makes the tables and figures of the paper."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untold.commands.options import Settings, number_option, print_notice
from untold.errors import UntoldError
from untold.stopping import say_if_stopped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from untold.experiments.corpora import TestFiles
    from untold.experiments.evidence_parts import Evidence
    from untold.experiments.items.evidence_item import EvidenceItem
    from untold.experiments.scales import Scale
    from untold.experiments.workshop import Plan, Workshop

__all__ = ["reproduce"]

_Links = Annotated[
    list[str] | None,
    typer.Option(help="A further test of separation: NAME=SOURCE,REFERENCE,ALIGNMENTS."),
]


def reproduce(
    item: Annotated[str | None, typer.Argument(help="A table or figure; without it, all.")] = None,
    data: Annotated[str, typer.Option(help="The corpus.")] = "grammar-en-de",
    root: Annotated[Path | None, typer.Option(help="The folder of a real corpus.")] = None,
    scale: Annotated[str, typer.Option(help="smoke, small or paper.")] = "smoke",
    seeds: Annotated[
        int | None, number_option(1, 100, "Trainings of each system [the scale's].")
    ] = None,
    systems: Annotated[
        str | None, typer.Option(help="Only these of its systems, such as gdr,both.")
    ] = None,
    sentences: Annotated[
        str | None, typer.Option(help="Draw these lines of the first test set, such as 3,17.")
    ] = None,
    links: _Links = None,
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
    from untold.experiments.corpora import find_corpus
    from untold.experiments.workshop import Plan, Workshop

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
    from untold.experiments.items.item_registry import find_item

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
    from untold.experiments.corpora import TestFiles

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
    from untold.durable import write_file
    from untold.experiments.claims.evidence_pages import claims_page
    from untold.experiments.claims.result_set import read_result_set
    from untold.experiments.evidence_files import markdown_table, write_evidence

    paths = [*write_evidence(evidence, folder), folder / "claims.md"]
    write_file(paths[-1], claims_page([read_result_set(folder, corpus)]).encode())
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
    from untold.experiments.scales import SCALES

    if name not in SCALES:
        raise UntoldError(f"--scale {name}: there is no such scale; known: {', '.join(SCALES)}")
    return SCALES[name]


def _list() -> None:
    from untold.experiments.corpora import CORPORA
    from untold.experiments.items.item_registry import ITEMS
    from untold.experiments.scales import SCALES

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
