"""`untold compare`: runs of one family side by side, as Table 1 of the paper has them."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from untold.commands.options import decode_changes
from untold.corpus.batching import PairsInMemory, collate, plan_epoch
from untold.corpus.lines import read_parallel
from untold.errors import UntoldError
from untold.evaluation.metrics import corpus_metric, split_for_rouge
from untold.evaluation.speed_race import Speed, measure_speeds
from untold.evaluation.system_comparison import (
    Comparison,
    ParallelText,
    SystemOutputs,
    Trials,
    compare_outputs,
)
from untold.report.comparison_table import comparison_markdown, comparison_record, print_comparison
from untold.storage.model_summary import Parameters, count_parameters
from untold.training.timed_updates import TimedUpdates
from untold.translator import Translator, load

__all__ = ["CompareOptions", "Family", "compare", "read_families", "read_tests", "run_compare"]

_METRICS = ("bleu", "chrf")
_SENTENCES, _BATCH, _UPDATES = 48, 8, 2  # that each round translates, at a time, and trains on


@dataclass(frozen=True)
class CompareOptions:
    """As the command line gives them."""

    metric: str
    tokenize: str | None  # None: as the baseline says
    lowercase: bool
    trials: Trials
    rounds: int  # of the race; none measures no speed
    settings: Sequence[str] = ()


@dataclass(frozen=True)
class Family:
    """A row: one run, or several that differ in their seeds."""

    name: str
    runs: tuple[Path, ...]


def run_compare(
    runs: Sequence[str],
    tests: Sequence[str],
    options: CompareOptions,
    form: Literal["table", "markdown", "json"],
) -> None:
    """Compare and print."""
    comparison = compare(read_families(runs), read_tests(tests), options)
    if form == "json":
        print(json.dumps(comparison_record(comparison), ensure_ascii=False))
    elif form == "markdown":
        print(comparison_markdown(comparison))
    else:
        print_comparison(comparison)


def compare(
    families: Sequence[Family], tests: Sequence[ParallelText], options: CompareOptions
) -> Comparison:
    """Translate every test set with every run, score and test; then race one run of each row."""
    if options.metric not in _METRICS:
        known = ", ".join(_METRICS)
        raise UntoldError(f"unknown metric {options.metric}; known: {known}")
    settings = options.settings
    tokenize = options.tokenize or _load(families[0].runs[0], settings).data.bleu_tokenize
    metric = corpus_metric(options.metric, tokenize, options.lowercase)
    sizes = [_size(family, settings) for family in families]
    systems = [
        SystemOutputs(
            family.name, size, [_translations(run, tests, settings) for run in family.runs]
        )
        for family, size in zip(families, sizes, strict=True)
    ]
    comparison = compare_outputs(metric, systems, tests, options.trials)
    if not options.rounds:
        return comparison
    _say("measuring speeds")
    racers = {family.name: _load(family.runs[0], settings) for family in families}
    decoding = _decoding(racers, tests[0], options.rounds)  # first: training changes the weights
    training = _training(racers, tests[0], options.rounds)
    return replace(comparison, training=training, decoding=decoding)


def read_families(given: Sequence[str]) -> list[Family]:
    """RUN, called by its directory's name, or NAME=RUN,RUN."""
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
    """NAME=SOURCE,REFERENCE each, of different names."""
    if not given:
        raise UntoldError("no test set: give one as --test NAME=SOURCE,REFERENCE")
    found: dict[str, ParallelText] = {}
    for text in given:
        name, _, files = text.partition("=")
        paths = files.split(",")
        if not name or len(paths) != 2 or not all(paths):
            raise UntoldError(f"--test {text}: write it as NAME=SOURCE,REFERENCE")
        if name in found:
            raise UntoldError(f"--test {text}: two test sets are called {name}: rename one")
        found[name] = ParallelText(name, *read_parallel(Path(paths[0]), Path(paths[1])))
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


def _load(run: Path, settings: Sequence[str]) -> Translator:
    return load(run).with_decoding(**decode_changes(settings))


def _size(family: Family, settings: Sequence[str]) -> Parameters:
    """Of its runs, which must agree. All are loaded: one that cannot be is found out early."""
    sizes = [count_parameters(_load(run, settings).models[0].model) for run in family.runs]
    if len(set(sizes)) > 1:
        raise UntoldError(
            f"{family.name}: its runs have {', '.join(f'{size.total:,}' for size in sizes)} "
            "parameters, but the runs of one row differ in nothing but their seeds"
        )
    return sizes[0]


def _translations(
    run: Path, tests: Sequence[ParallelText], settings: Sequence[str]
) -> list[list[str]]:
    translator, texts = _load(run, settings), []
    for test in tests:
        _say(f"translating {test.name} with {run}")
        texts.append([each.text for each in translator.translate(test.sources)])
    return texts


def _decoding(racers: dict[str, Translator], test: ParallelText, rounds: int) -> dict[str, Speed]:
    """Generated words a second, on sentences from all over the test set."""
    sources = [source for source, _ in _whole_pairs(test)]
    sources = sources[:: max(1, len(sources) // _SENTENCES)][:_SENTENCES]
    jobs = [sources[first : first + _BATCH] for first in range(0, len(sources), _BATCH)]

    def contender(translator: Translator) -> Callable[[list[str]], float]:
        return lambda texts: sum(
            len(split_for_rouge(each.text)) for each in translator.translate(texts)
        )

    return measure_speeds({name: contender(each) for name, each in racers.items()}, jobs, rounds)


def _training(racers: dict[str, Translator], test: ParallelText, rounds: int) -> dict[str, Speed]:
    """Target tokens a second of updates on the same pairs, in batches of the baseline's size."""
    texts = _whole_pairs(test)
    pairs = {name: _ids(translator, texts) for name, translator in racers.items()}
    baseline = next(iter(racers.values())).models[0].config
    first = PairsInMemory(next(iter(pairs.values())))
    plan = plan_epoch(first, baseline.train.batch_tokens, seed=1, epoch=0)
    chosen = [plan.indices(number) for number in range(min(_UPDATES, len(plan)))]
    batches = {
        name: [collate([own[index] for index in indices], indices) for indices in chosen]
        for name, own in pairs.items()
    }

    def contender(name: str) -> Callable[[int], float]:
        update, own = TimedUpdates(racers[name].models[0]), batches[name]
        return lambda number: update(own[number])

    return measure_speeds({name: contender(name) for name in racers}, range(len(chosen)), rounds)


def _whole_pairs(test: ParallelText) -> list[tuple[str, str]]:
    pairs = zip(test.sources, test.references, strict=True)
    found = [pair for pair in pairs if all(text.strip() for text in pair)]
    if not found:
        raise UntoldError(f"test set {test.name} has no text to measure speeds on: use --no-speed")
    return found


def _ids(
    translator: Translator, texts: Sequence[tuple[str, str]]
) -> list[tuple[list[int], list[int]]]:
    """As the model reads them, no longer than it was trained on."""
    tokenizers, data = translator.tokenizers, translator.data
    sides = zip(*texts, strict=True)
    prepared = [[text.lower() if data.lowercase else text for text in side] for side in sides]
    sources = tokenizers.source.encode(prepared[0])
    targets = tokenizers.target.encode(prepared[1])
    most = data.max_tokens
    return [(s[:most], t[:most]) for s, t in zip(sources, targets, strict=True)]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
