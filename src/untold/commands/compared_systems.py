"""The systems and test sets that `untold evaluate` compares: reads them and translates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from untold.commands.options import load_translator, print_notice
from untold.errors import UntoldError
from untold.progress_bar import Task, task

if TYPE_CHECKING:
    from untold.metrics.comparison import ParallelText, SystemOutputs
    from untold.storage.summary import Parameters
    from untold.translator import Translator


@dataclass(frozen=True)
class Family:
    """A system: one run, or several runs that differ in their seeds; models, or translations."""

    name: str
    runs: tuple[Path, ...]


def read_families(given: Sequence[str]) -> list[Family]:
    """Parses RUN, which is named after its file, NAME=RUN and NAME=RUN,RUN."""
    families: dict[str, Family] = {}
    for text in given:
        family = _family(text)
        if family.name in families:
            raise UntoldError(
                f"two systems are called {family.name}: call one of them otherwise, as in "
                f"OTHER={','.join(map(str, family.runs))}"
            )
        families[family.name] = family
    return list(families.values())


def _family(text: str) -> Family:
    name, equals, runs = text.partition("=")
    if not equals or Path(text).exists():
        return Family(Path(text).resolve().name, (Path(text),))
    paths = tuple(Path(run) for run in runs.split(",") if run)
    if not name or not paths:
        raise UntoldError(f"{text}: write a system as RUN, NAME=RUN or NAME=RUN,RUN")
    if len(set(paths)) < len(paths):
        raise UntoldError(f"{text}: names the same run twice")
    return Family(name, paths)


def read_tests(
    source: Path | None, references: Sequence[Path], given: Sequence[str]
) -> "list[ParallelText]":
    """Reads the test sets of --test NAME=SOURCE,REFERENCE, or that of --source and --reference."""
    if (source is not None and bool(references)) == bool(given):
        raise UntoldError(
            "name test sets either by --source and --reference or by --test NAME=SOURCE,REFERENCE"
        )
    if source is not None and references:
        return [_read_test(source.stem, [source, *references])]
    tests: dict[str, ParallelText] = {}
    for text in given:
        name, _, files = text.partition("=")
        paths = files.split(",")
        if not name or len(paths) < 2 or not all(paths):
            raise UntoldError(f"--test {text}: write it as NAME=SOURCE,REFERENCE")
        if name in tests:
            raise UntoldError(f"--test {text}: two test sets are called {name}: rename one")
        tests[name] = _read_test(name, [Path(path) for path in paths])
    return list(tests.values())


def _read_test(name: str, paths: Sequence[Path]) -> "ParallelText":
    from untold.corpus.text import read_references
    from untold.metrics.comparison import ParallelText

    sources, (first, *further) = read_references(paths[0], paths[1:], print_notice)
    return ParallelText(name, sources, first, further)


def system_outputs(
    families: Sequence[Family], tests: "Sequence[ParallelText]", settings: Sequence[str] | None
) -> "list[SystemOutputs]":
    """Translates every test set with every run, once all runs have been loaded and checked."""
    from untold.metrics.comparison import SystemOutputs

    sizes = [_size(family, tests, settings) for family in families]
    runs = sum(len(family.runs) for family in families)
    with task("comparing", runs * len(tests)) as comparing:
        return [
            SystemOutputs(
                family.name,
                size,
                [list(_run_outputs(run, tests, settings, comparing)) for run in family.runs],
            )
            for family, size in zip(families, sizes, strict=True)
        ]


def _size(
    family: Family, tests: "Sequence[ParallelText]", settings: Sequence[str] | None
) -> "Parameters | None":
    """Counts the parameters of a system, whose runs must agree; files have none."""
    from untold.storage.summary import count_parameters

    outputs = [run for run in family.runs if run.is_file()]
    if outputs and len(tests) > 1:
        raise UntoldError(
            f"{outputs[0]} holds the translations of one test set, but there are {len(tests)}: "
            "give one --test"
        )
    models = [run for run in family.runs if not run.is_file()]
    sizes = [count_parameters(load_translator(run, settings).models[0].model) for run in models]
    if len(set(sizes)) > 1:
        raise UntoldError(
            f"{family.name}: its runs have {', '.join(f'{size.total:,}' for size in sizes)} "
            "parameters, but the runs of one row differ in nothing but their seeds"
        )
    return sizes[0] if sizes else None


def _run_outputs(
    run: Path, tests: "Sequence[ParallelText]", settings: Sequence[str] | None, comparing: Task
) -> Iterator[list[str]]:
    translator = None if run.is_file() else load_translator(run, settings)
    for test in tests:
        if translator is None:
            yield read_outputs(run, test)
        else:
            yield translate_test(translator, test, f"translating {test.name} with {run}")
        comparing.advance()


def read_outputs(path: Path, test: "ParallelText") -> list[str]:
    """Reads a file of translations, a line for each source."""
    from untold.corpus.text import read_lines

    lines = list(read_lines(path))
    if len(lines) != len(test.sources):
        raise UntoldError(
            f"{path} has {len(lines)} lines and the source of {test.name} has "
            f"{len(test.sources)}: line by line they must belong together"
        )
    return lines


def translate_test(
    translator: "Translator", test: "ParallelText", title: str = "translating"
) -> list[str]:
    """Translates a test set and shows how far it is."""
    with task(title, len(test.sources)) as begun:
        translations = translator.with_progress(begun.advance).translate(list(test.sources))
    return [translation.text for translation in translations]
