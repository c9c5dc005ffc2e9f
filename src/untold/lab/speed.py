"""Races trained models against each other, in training and in translating.

Other work on the machine slows down whatever runs at that moment. Therefore the contenders
alternate job by job, in a rotating order, and speeds are compared within one round.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from untold.corpus.batching import Batch, PairsInMemory, plan_epoch
from untold.errors import UntoldError
from untold.interruption import Interrupted
from untold.metrics.comparison import ParallelText
from untold.metrics.text_metrics import split_for_rouge
from untold.progress_bar import track
from untold.storage.model_directory import TrainedModel
from untold.training.distributed import ProcessGroup
from untold.training.log import NullReporter
from untold.training.progress import Progress
from untold.training.sequence.objective import make_objective
from untold.training.trainer import Hooks, RunContext, Trainer, make_optimizer
from untold.translator import Translator

Contender = Callable[[Any], Any]  # does one job


@dataclass(frozen=True)
class Speed:
    """The speed of one contender in each round: work per second, and its ratio to the baseline."""

    rates: tuple[float, ...]
    ratios: tuple[float, ...]  # empty if the baseline did no work

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None


def take_turns(
    contenders: Mapping[str, Contender],
    jobs: Sequence[Any],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Measures the seconds of each contender in each round; it does every job once a round."""
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in track(range(rounds), "measuring speeds", rounds):
        spent = dict.fromkeys(names, 0.0)
        for place, job in enumerate(jobs):
            turn = (number + place) % len(names)
            for name in names[turn:] + names[:turn]:
                began = clock()
                contenders[name](job)
                spent[name] += clock() - began
        for name in names:
            seconds[name].append(spent[name])
    return seconds


def measure_speeds(
    contenders: Mapping[str, Callable[[Any], float]],
    jobs: Sequence[Any],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Speed]:
    """Measures the speed of every contender; the first one is the baseline.

    A contender returns the amount of work of a job. All do one round before, to warm up.
    """
    work = {name: sum(run(job) for job in jobs) for name, run in contenders.items()}
    seconds = take_turns(contenders, jobs, rounds, clock)
    rates = {name: [work[name] / spent for spent in seconds[name]] for name in contenders}
    baseline = next(iter(rates.values()))
    return {
        name: Speed(tuple(own), tuple(a / b for a, b in zip(own, baseline, strict=True) if b))
        for name, own in rates.items()
    }


# One round of the race translates this many sentences in batches of this size, and trains on this
# many batches.
_SENTENCES, _BATCH, _UPDATES = 48, 8, 2

Racers = Mapping[str, Translator]


@dataclass(frozen=True)
class RunSpeeds:
    """The speeds of models by name; the first one is the baseline."""

    training: dict[str, Speed]
    decoding: dict[str, Speed]


def race_runs(racers: Racers, test: ParallelText, rounds: int) -> RunSpeeds:
    """Lets models take turns on the sentences of a test set."""
    decoding = _decoding(racers, test, rounds)  # first, because training changes the weights
    return RunSpeeds(_training(racers, test, rounds), decoding)


def _decoding(racers: Racers, test: ParallelText, rounds: int) -> dict[str, Speed]:
    """Measures generated words per second on sentences from all over the test set."""
    sources = [source for source, _ in _whole_pairs(test)]
    sources = sources[:: max(1, len(sources) // _SENTENCES)][:_SENTENCES]
    jobs = [sources[first : first + _BATCH] for first in range(0, len(sources), _BATCH)]

    def contender(translator: Translator) -> Callable[[list[str]], float]:
        return lambda texts: sum(
            len(split_for_rouge(each.text)) for each in translator.translate(texts)
        )

    return measure_speeds({name: contender(each) for name, each in racers.items()}, jobs, rounds)


def _training(racers: Racers, test: ParallelText, rounds: int) -> dict[str, Speed]:
    """Measures target tokens per second of updates on the same pairs.

    All racers train on the batches that the baseline's train.batch_tokens gives.
    """
    texts = _whole_pairs(test)
    pairs = {name: _ids(translator, texts) for name, translator in racers.items()}
    baseline = next(iter(racers.values())).models[0].config
    first = PairsInMemory(next(iter(pairs.values())))
    plan = plan_epoch(first, baseline.train.batch_tokens, seed=1, epoch=0)
    chosen = [plan.indices(number) for number in range(min(_UPDATES, len(plan)))]
    batches = {
        name: [
            racers[name].codec.batch([own[index] for index in indices], indices)
            for indices in chosen
        ]
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
        raise UntoldError(
            f"test set {test.name} has no text to measure speeds on: race on another one"
        )
    return found


def _ids(
    translator: Translator, texts: Sequence[tuple[str, str]]
) -> list[tuple[list[int], list[int]]]:
    """Encodes pairs as the model reads them and cuts them to its maximal length."""
    most = translator.data.max_tokens
    return [(s[:most], t[:most]) for s, t in translator.codec.encode_pairs(texts)]


class TimedUpdates:
    """Trains a model on given batches with the trainer itself. Its weights change."""

    def __init__(self, trained: TrainedModel) -> None:
        if trained.config.train.freeze_backbone:
            trained.model.freeze_backbone()
        reporter = NullReporter(Path(tempfile.gettempdir()), trained.config.train.steps)
        context, nothing = RunContext(ProcessGroup(), reporter, Interrupted()), PairsInMemory(())
        objective = make_objective(trained)
        optimizer = make_optimizer(trained, objective)
        self._trainer = Trainer(trained, optimizer, nothing, context, Hooks(objective=objective))
        # The auxiliary losses have begun at this step: they are part of the cost of an update.
        self._progress = Progress(step=trained.config.train.auxiliary_start)

    def __call__(self, batch: Batch) -> float:
        """Makes one update and returns the number of its target tokens."""
        self._progress = replace(self._progress, step=self._progress.step + 1)
        self._trainer.update(self._progress, [(0, batch.to(self._trainer.device))])
        return float(batch.target_tokens)
