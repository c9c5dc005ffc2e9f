"""Trains the systems of an experiment and lets them translate, each once; what is done is kept.

The control for the number of parameters is a trained model with more inner units, which say nothing
at first: like past and future, they start without effect and learn from there.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from untold.alignment.aligners import Aligner, load_aligner, train_aligner
from untold.config import AlignerConfig, Config, override, parse_config
from untold.corpus.alignments import Alignment
from untold.corpus.text import read_parallel
from untold.errors import InUseError
from untold.files import lock_directory
from untold.interruption import last_line
from untold.lab.corpora import FoundCorpus, Scale, TestFiles
from untold.lab.results import KeptResults, fingerprint
from untold.lab.systems import SYSTEMS, System
from untold.metrics.cdr import align_texts
from untold.models.build import build_model, build_model_for
from untold.progress_bar import Task, task
from untold.storage.model_directory import TrainedModel, load_model, save_model
from untold.training.run import RunOptions, train
from untold.training.warm_start import warm_start
from untold.translator import Translator, load


@torch.no_grad()
def widen(trained: TrainedModel, d_ffn: int) -> TrainedModel:
    """Returns the model with feed-forward layers of another, larger inner width."""
    wider = trained.config.model.model_copy(update={"d_ffn": d_ffn})
    config = trained.config.model_copy(update={"model": wider})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        model = build_model_for(trained.tokenizers, config.model)
    reshaped = warm_start(model, trained.model).reshaped
    theirs, mine = (dict(each.named_parameters()) for each in (trained.model, model))
    for name in reshaped:
        narrow, wide = theirs[name], mine[name]
        if name.endswith("outer.weight"):  # what the new units say
            wide.zero_()
        wide[tuple(slice(size) for size in narrow.shape)] = narrow
    return TrainedModel(model.eval(), config, trained.tokenizers)


# Settings that say where something lies; what lies there is decided by others.
_PLACES: Any = {"data": {"root", "train", "valid"}, "train": {"sequence": {"aligner"}}}
_DEFAULT_BACKBONE = "transformer"
_PATIENCE = 10.0  # seconds between looks at what another process makes


@dataclass(frozen=True)
class Plan:
    """Says what an experiment is made of."""

    corpus: FoundCorpus
    scale: Scale
    seeds: int | None  # of each system; unset, those of the scale
    out: Path
    settings: tuple[str, ...] = ()  # of --set, for all systems


@dataclass(frozen=True)
class Job:
    """One training: a system with one seed."""

    system: System
    seed: int = 1

    @property
    def name(self) -> str:
        return f"{self.system.name}-{self.seed}"


@dataclass(frozen=True)
class TranslationJob:
    """Lines that a trained model translates; `decode` are settings of --set."""

    job: Job
    lines: Sequence[str]
    decode: Sequence[str] = ()


class Workshop:
    """Does the work of all items of one experiment, in one folder."""

    def __init__(
        self, plan: Plan, say: Callable[[str], None], bases: "Workshop | None" = None
    ) -> None:
        """`bases` has the trained models that others start from; without it they are made here."""
        self.plan, self._say, self._bases = plan, say, bases or self
        self.kept = KeptResults(plan.out / "results", say)
        self._runs = KeptResults(plan.out / "runs", say)  # says which of them are over
        self._spent, self._updates = 0.0, 0
        self._aligner: Aligner | None = None
        self._links: dict[str, list[Alignment]] = {}  # of references, by fingerprint

    def jobs(self, systems: Iterable[System]) -> list[Job]:
        """Lists the trainings that systems need, those that others start from first.

        One trained model serves all seeds of the systems that start from it.
        """
        found: dict[str, Job] = {}
        for system in systems:
            if system.start is not None and self._bases is self:
                base = Job(SYSTEMS[system.start])
                found.setdefault(base.name, base)
            for job in self.seeds_of(system):
                found.setdefault(job.name, job)
        return list(found.values())

    def seeds_of(self, system: System) -> list[Job]:
        """Lists the trainings of one system."""
        scale = self.plan.scale
        seeds = self.plan.seeds or (scale.seeds if system.is_main else scale.other_seeds)
        return [Job(system, seed) for seed in range(1, 2 if system.start is None else seeds + 1)]

    def train(self, systems: Iterable[System]) -> None:
        """Trains what is not trained yet, and says how long the rest will take.

        Several processes may share one folder: what another one trains is left to it. A system
        whose results are kept is not trained, even if its model is gone: `run` trains it again
        when something new is asked of it.
        """
        jobs = self.jobs(systems)
        while left := [job for job in jobs if not self._was_trained(job)]:
            trained = [self._train(job, left[place:]) for place, job in enumerate(left)]
            if not any(trained):
                self._say("another process trains what is left: waiting for it")
                time.sleep(_PATIENCE)

    def _train(self, job: Job, left: Sequence[Job]) -> bool:
        """Trains one system; says whether it did, or another process is at it."""
        if self._was_trained(job):
            return True
        updates = [self.config(each).train.steps for each in left]
        began = time.monotonic()
        self._say(
            f"{len(left)} left to train, now {job.system.title}, seed {job.seed}"
            f"{self._remaining(sum(updates))}"
        )
        try:
            self.run(job)
        except InUseError:
            return False
        self._spent += time.monotonic() - began
        self._updates += updates[0]
        return True

    def run(self, job: Job) -> Path:
        """Returns the directory of a trained model; a run that was stopped goes on."""
        out, origin = self.plan.out / "runs" / job.name, self._origin(job)
        # Either may be missing: results may come from elsewhere, and may have been removed.
        step = self._runs.get(f"{job.name}/trained", origin, lambda: self._run_training(job, out))
        self.kept.get(f"done/{job.name}", origin, lambda: step)
        return out

    def _run_training(self, job: Job, out: Path) -> int:
        """Trains to the end and returns the number of updates; leaves if a signal stops it."""
        init = self._start(job)
        if job.system.needs_aligner:
            self.aligner_path()
        result = train(self.config(job), RunOptions(out, init, calibrate=False))
        if result.signal:
            kept = f"what is done is kept in {self.plan.out}; the same command goes on"
            print(last_line(result.signal, kept), file=sys.stderr)
            sys.exit(128 + result.signal)
        return result.progress.step

    def config(self, job: Job) -> Config:
        """Builds the configuration of a training."""
        plan, system = self.plan, job.system
        scale, known = plan.scale, plan.corpus.known
        phase = getattr(scale, system.phase)
        settings = {**scale.settings, **phase.settings(), **system.settings, "train.seed": job.seed}
        if "model.backbone" not in system.settings:
            settings = {**scale.transformer, **settings}
        if system.start is not None and "model.separator.kind" in system.settings:
            settings |= scale.further_settings
        if system.needs_aligner:
            settings["train.sequence.aligner"] = str(self._aligner_folder().resolve())
        if system.same_size_as is not None:
            settings["model.d_ffn"] = self._widened(SYSTEMS[system.same_size_as])
        values: Mapping[str, Any] = {
            "data": plan.corpus.settings(),
            "tokenizer": {"size": self._vocabulary(), **known.tokenizer},
        }
        changes = [f"{key}={_toml(value)}" for key, value in settings.items()]
        return parse_config(override(values, [*changes, *plan.settings]), job.name)

    def load(self, job: Job) -> Translator:
        return load(self.run(job))

    def translations(self, job: Job, test: TestFiles) -> list[str]:
        return self.translate([TranslationJob(job, self.plan.corpus.read(test)[0])])[0]

    def translate(self, jobs: Sequence[TranslationJob]) -> list[list[str]]:
        """Translates what is not translated yet, and returns all of it.

        Several processes may share one folder: what another one translates is left to it.
        """
        found: dict[int, list[str]] = {}
        with task("translating", sum(len(each.lines) for each in jobs)) as begun:
            while left := [place for place in range(len(jobs)) if place not in found]:
                for place in left:
                    with suppress(InUseError):
                        found[place] = self._translations(jobs[place], begun)
                if found.keys().isdisjoint(left):
                    self._say("another process translates what is left: waiting for it")
                    time.sleep(_PATIENCE)
        return [found[place] for place in range(len(jobs))]

    def _translations(self, wanted: TranslationJob, begun: Task) -> list[str]:
        """Returns what is kept, or translates unless another process is at it."""
        made_from = [self._origin(wanted.job), list(wanted.lines), list(wanted.decode)]
        name = f"translations/{wanted.job.name}-{fingerprint(made_from)}"
        kept = self.kept.find(name, made_from)
        if kept is not None:
            begun.advance(len(kept))
            return kept
        with lock_directory(self.plan.out / "locks" / name):
            return self.kept.get(name, made_from, lambda: self._translate(wanted, begun))

    def _translate(self, wanted: TranslationJob, begun: Task) -> list[str]:
        lines, decode = list(wanted.lines), override({}, wanted.decode).get("decode", {})
        begun.note = wanted.job.name
        translator = self.load(wanted.job).with_decoding(**decode).with_progress(begun.advance)
        return [each.text for each in translator.translate(lines)]

    def measure(self, name: str, job: Job, inputs: Any, make: Callable[[], Any]) -> Any:
        """Returns a measurement of a trained model, a JSON value, made once."""
        return self.kept.get(f"{name}/{job.name}", [self._origin(job), inputs], make)

    def hash(self, job: Job) -> str:
        """Names the configuration of a training; another one has another name."""
        return fingerprint(self._origin(job))[:8]

    def fingerprint(self, value: Any) -> str:
        return fingerprint(value)

    def aligner_path(self) -> Path:
        """Trains an aligner on the training text, once; a changed text uses that of the whole."""
        if self._bases is not self:
            return self._bases.aligner_path()
        folder = self._aligner_folder()
        with lock_directory(folder.with_suffix(".lock")):
            if not folder.exists():
                self._say("training an aligner")
                sides = read_parallel(*self.plan.corpus.training_paths())
                train_aligner(*sides, AlignerConfig()).save(folder)
        return folder

    def aligner(self) -> Aligner:
        """Loads the aligner of the training text, once."""
        if self._aligner is None:
            self._aligner = load_aligner(self.aligner_path())
        return self._aligner

    def reference_links(self, sources: list[str], references: list[str]) -> list[Alignment]:
        """Links a test set to its references, once: the coverage of all systems needs it."""
        name = fingerprint([sources, references])
        if name not in self._links:
            self._links[name] = align_texts(self.aligner(), sources, references)
        return self._links[name]

    def with_corpus(self, corpus: FoundCorpus, name: str) -> "Workshop":
        """Returns a workshop for another training text, in a folder of its own.

        Its systems start from the models that were trained on the text of this one.
        """
        plan = replace(self.plan, corpus=corpus, out=self.plan.out / name)
        return Workshop(plan, self._say, self._bases)

    def _was_trained(self, job: Job) -> bool:
        return self.kept.find(f"done/{job.name}", self._origin(job)) is not None

    def _origin(self, job: Job) -> Any:
        """Returns all that decides what a training gives: settings and text, wherever it lies."""
        start = job.system.start
        base = None if start is None else self._bases._origin(Job(SYSTEMS[start]))
        config = self.config(job)
        settings = config.model_dump(mode="json", exclude=_PLACES, exclude_defaults=True)
        # The backbone is the default of its own class of settings, so the line above drops it.
        if config.model.backbone != _DEFAULT_BACKBONE:
            settings["model"]["backbone"] = config.model.backbone
        return [settings, self.plan.corpus.training_fingerprint(), base]

    def _start(self, job: Job) -> Path | None:
        """Returns the model that a training starts from."""
        if job.system.start is None:
            return None
        base = self._bases.run(Job(SYSTEMS[job.system.start]))
        if job.system.same_size_as is None:
            return base
        wide = self.plan.out / "runs" / f"{job.system.name}-start"
        with lock_directory(wide.with_suffix(".lock")):
            if not wide.exists():
                save_model(wide, widen(load_model(base), self.config(job).model.d_ffn))
        return wide

    def _widened(self, other: System) -> int:
        """Returns the inner width with which a plain model has as many parameters as another."""
        size = self._vocabulary()
        wide, plain = self.config(Job(other)), self.config(Job(SYSTEMS["transformer"]))
        wanted = _parameters(wide, size)
        widths = [plain.model.d_ffn, plain.model.d_ffn + 8]
        counts = [
            _parameters(plain.model_copy(update={"model": _with_width(plain, width)}), size)
            for width in widths
        ]
        each = (counts[1] - counts[0]) / (widths[1] - widths[0])
        return widths[0] + round((wanted - counts[0]) / each)

    def _vocabulary(self) -> int:
        """Returns the size of the vocabulary: the paper's corpora have their own."""
        return self.plan.scale.vocabulary or self.plan.corpus.known.vocabulary

    def _aligner_folder(self) -> Path:
        return self._bases.plan.out / "aligner"

    def _remaining(self, updates: int) -> str:
        if not self._updates:
            return ""
        minutes = self._spent / self._updates * updates / 60
        return f" (about {minutes:.0f} minutes left)" if minutes >= 1 else " (less than a minute)"


def _parameters(config: Config, size: int) -> int:
    model = build_model(config.model, (size, size), shared=True)
    return sum(weight.numel() for weight in model.parameters())


def _with_width(config: Config, width: int) -> Any:
    return config.model.model_copy(update={"d_ffn": width})


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
