"""The runs and test sets of `untold compare`: reads them, translates with them and times them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from untold.commands.options import load_translator, print_notice
from untold.corpus.lines import read_references
from untold.errors import UntoldError
from untold.evaluation.system_comparison import Comparison, ParallelText, SystemOutputs
from untold.experiments.run_speeds import race_runs
from untold.feedback import Task, task
from untold.storage.model_summary import Parameters, count_parameters
from untold.translator import Translator

__all__ = ["ComparedRuns", "Family", "read_families", "read_tests", "with_speeds"]


@dataclass(frozen=True)
class Family:
    """A row of the table: one run, or several runs that differ in their seeds."""

    name: str
    runs: tuple[Path, ...]


@dataclass(frozen=True)
class ComparedRuns:
    """Families of runs, the test sets that all of them translate, and values of --set for all."""

    families: Sequence[Family]
    tests: Sequence[ParallelText]
    settings: tuple[str, ...] = ()

    def load_baseline(self) -> Translator:
        """Loads the first run of the first family."""
        return self.load(self.families[0].runs[0])

    def load(self, run: Path) -> Translator:
        """Loads a run with the settings that are common to all."""
        return load_translator(run, self.settings)

    def translate(self) -> list[SystemOutputs]:
        """Translates every test set with every run, once all runs have been loaded and checked."""
        sizes = [self._size(family) for family in self.families]
        runs = sum(len(family.runs) for family in self.families)
        with task("comparing", runs * len(self.tests)) as begun:
            return [
                SystemOutputs(
                    family.name, size, [self._translations(run, begun) for run in family.runs]
                )
                for family, size in zip(self.families, sizes, strict=True)
            ]

    def _size(self, family: Family) -> Parameters:
        """Counts the parameters of a family, whose runs must agree."""
        sizes = [count_parameters(self.load(run).models[0].model) for run in family.runs]
        if len(set(sizes)) > 1:
            raise UntoldError(
                f"{family.name}: its runs have {', '.join(f'{size.total:,}' for size in sizes)} "
                "parameters, but the runs of one row differ in nothing but their seeds"
            )
        return sizes[0]

    def _translations(self, run: Path, comparing: Task) -> list[list[str]]:
        translator, texts = self.load(run), []
        for test in self.tests:
            with task(f"translating {test.name} with {run}", len(test.sources)) as begun:
                found = translator.with_progress(begun.advance).translate(test.sources)
            texts.append([each.text for each in found])
            comparing.advance()
        return texts


def with_speeds(comparison: Comparison, compared: ComparedRuns, rounds: int) -> Comparison:
    """Adds speeds to a comparison; the first run of each family races on the first test set."""
    racers = {family.name: compared.load(family.runs[0]) for family in compared.families}
    speeds = race_runs(racers, compared.tests[0], rounds)
    return replace(comparison, training=speeds.training, decoding=speeds.decoding)


def read_families(given: Sequence[str]) -> list[Family]:
    """Parses RUN, which is named after its directory, NAME=RUN and NAME=RUN,RUN."""
    found: dict[str, Family] = {}
    for text in given:
        family = _family(text)
        if family.name in found:
            raise UntoldError(
                f"two rows are called {family.name}: call one of them otherwise, as in "
                f"OTHER={','.join(map(str, family.runs))}"
            )
        found[family.name] = family
    return list(found.values())


def read_tests(given: Sequence[str]) -> list[ParallelText]:
    """Parses NAME=SOURCE,REFERENCE and reads the files; no name may occur twice.

    More references of the same sentences may follow the first.
    """
    if not given:
        raise UntoldError("no test set: give one as --test NAME=SOURCE,REFERENCE")
    found: dict[str, ParallelText] = {}
    for text in given:
        name, _, files = text.partition("=")
        paths = files.split(",")
        if not name or len(paths) < 2 or not all(paths):
            raise UntoldError(f"--test {text}: write it as NAME=SOURCE,REFERENCE")
        if name in found:
            raise UntoldError(f"--test {text}: two test sets are called {name}: rename one")
        source, *references = map(Path, paths)
        sources, (first, *further) = read_references(source, references, print_notice)
        found[name] = ParallelText(name, sources, first, further)
    return list(found.values())


def _family(text: str) -> Family:
    name, equals, runs = text.partition("=")
    if not equals or Path(text).exists():
        return Family(Path(text).resolve().name, (Path(text),))
    paths = tuple(Path(run) for run in runs.split(",") if run)
    if not name or not paths:
        raise UntoldError(f"{text}: write a row as RUN, NAME=RUN or NAME=RUN,RUN")
    if len(set(paths)) < len(paths):
        raise UntoldError(f"{text}: names the same run twice")
    return Family(name, paths)
