"""Trains the systems of an experiment and lets them translate, each once; what is done is kept."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from untold.alignment.aligner import load_aligner, train_aligner
from untold.config import AlignerConfig, Config, override, parse_config
from untold.corpus.lines import read_parallel
from untold.experiments.corpora import FoundCorpus, TestFiles
from untold.experiments.kept_results import KeptResults, fingerprint
from untold.experiments.scales import Scale
from untold.experiments.systems import SYSTEMS, System
from untold.feedback import task
from untold.models.build import build_model
from untold.stopping import last_line
from untold.training.run import RunOptions, train
from untold.translator import Translator, load

__all__ = ["Job", "Plan", "Workshop"]


@dataclass(frozen=True)
class Plan:
    """Says what an experiment is made of."""

    corpus: FoundCorpus
    scale: Scale
    seeds: int
    out: Path
    settings: tuple[str, ...] = ()  # of --set, for all systems


@dataclass(frozen=True)
class Job:
    """One training: a system with one seed."""

    system: System
    seed: int = 1

    @property
    def name(self) -> str:
        """Returns the name of its run."""
        return f"{self.system.name}-{self.seed}"


class Workshop:
    """Does the work of all items of one experiment, in one folder."""

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self.plan, self._say = plan, say
        self.kept = KeptResults(plan.out / "results", say)
        self._began, self._spent, self._updates = time.monotonic(), 0.0, 0

    def jobs(self, systems: Iterable[System]) -> list[Job]:
        """Lists the trainings that systems need, those that others start from first.

        One trained model serves all seeds of the systems that start from it.
        """
        found: dict[str, Job] = {}
        for system in systems:
            if system.start is not None:
                base = Job(SYSTEMS[system.start])
                found.setdefault(base.name, base)
            is_base = system.start is None and system.same_size_as is None
            for seed in range(1, 2 if is_base else self.plan.seeds + 1):
                job = Job(system, seed)
                found.setdefault(job.name, job)
        return list(found.values())

    def train(self, systems: Iterable[System]) -> None:
        """Trains what is not trained yet, and says how long the rest will take."""
        jobs = [job for job in self.jobs(systems) if not self._is_done(job)]
        left = [self.config(job).train.steps for job in jobs]
        for number, job in enumerate(jobs):
            self._say(
                f"training {number + 1} of {len(jobs)}: {job.system.title}, seed {job.seed}"
                f"{self._remaining(sum(left[number:]))}"
            )
            began = time.monotonic()
            self.run(job)
            self._spent += time.monotonic() - began
            self._updates += left[number]

    def run(self, job: Job) -> Path:
        """Returns the directory of a trained model; a run that was stopped goes on."""
        out = self.plan.out / "runs" / job.name
        if self._is_done(job):
            return out
        start = job.system.start
        init = None if start is None else self.run(Job(SYSTEMS[start]))
        if job.system.needs_aligner:
            self.aligner_path()
        result = train(self.config(job), RunOptions(out, init))
        if result.signal:
            kept = f"what is done is kept in {self.plan.out}; the same command goes on"
            print(last_line(result.signal, kept), file=sys.stderr)
            sys.exit(128 + result.signal)
        self.kept.get(f"done/{job.name}", self._origin(job), lambda: result.progress.step)
        return out

    def config(self, job: Job) -> Config:
        """Builds the configuration of a training."""
        plan, system = self.plan, job.system
        scale, known = plan.scale, plan.corpus.known
        phase = getattr(scale, system.phase)
        if system.same_size_as is not None:  # it cannot start from the plain model
            phase = phase.longer(scale.further)
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
            "tokenizer": {"size": scale.vocabulary or known.vocabulary},
        }
        changes = [f"{key}={_toml(value)}" for key, value in settings.items()]
        return parse_config(override(values, [*changes, *plan.settings]), job.name)

    def load(self, job: Job) -> Translator:
        """Loads a trained model."""
        return load(self.run(job))

    def translations(self, job: Job, test: TestFiles, decode: Sequence[str] = ()) -> list[str]:
        """Translates a test set with a trained model; `decode` are settings of --set."""
        return self.translate_lines(job, self.plan.corpus.read(test)[0], decode)

    def translate_lines(self, job: Job, lines: list[str], decode: Sequence[str]) -> list[str]:
        """Translates any lines with a trained model; `decode` are settings of --set."""
        made_from = [self._origin(job), lines, list(decode)]
        name = f"translations/{job.name}-{fingerprint(made_from)}"
        return self.kept.get(name, made_from, lambda: self._translate(job, lines, decode))

    def _translate(self, job: Job, lines: list[str], decode: Sequence[str]) -> list[str]:
        translator = self.load(job).with_decoding(**override({}, decode).get("decode", {}))
        with task(f"translating with {job.name}", len(lines)) as begun:
            found = translator.with_progress(begun.advance).translate(lines)
        return [each.text for each in found]

    def measure(self, name: str, job: Job, inputs: Any, make: Callable[[], Any]) -> Any:
        """Returns a measurement of a trained model, a JSON value, made once."""
        return self.kept.get(f"{name}/{job.name}", [self._origin(job), inputs], make)

    def hash(self, job: Job) -> str:
        """Names the configuration of a training; another one has another name."""
        return fingerprint(self._origin(job))[:8]

    def fingerprint(self, value: Any) -> str:
        """Names a JSON value."""
        return fingerprint(value)

    def aligner_path(self) -> Path:
        """Trains an aligner on the training text, once."""
        folder = self._aligner_folder()
        if not folder.exists():
            self._say("training an aligner")
            train_aligner(*read_parallel(*self.plan.corpus.training_paths()), AlignerConfig()).save(
                folder
            )
        return folder

    def aligner(self) -> Any:
        """Loads the aligner of the training text."""
        return load_aligner(self.aligner_path())

    def with_corpus(self, corpus: FoundCorpus, name: str) -> "Workshop":
        """Returns a workshop for another training text, in a folder of its own."""
        plan = replace(self.plan, corpus=corpus, out=self.plan.out / name)
        return Workshop(plan, self._say)

    def _is_done(self, job: Job) -> bool:
        done = self.kept.find(f"done/{job.name}", self._origin(job))
        return done is not None and (self.plan.out / "runs" / job.name).exists()

    def _origin(self, job: Job) -> Any:
        """Returns all that decides what a training gives."""
        start = job.system.start
        base = None if start is None else self._origin(Job(SYSTEMS[start]))
        return [self.config(job).model_dump(mode="json", exclude={"data": {"root"}}), base]

    def _widened(self, other: System) -> int:
        """Returns the inner width with which a plain model has as many parameters as another."""
        known, scale = self.plan.corpus.known, self.plan.scale
        size = scale.vocabulary or known.vocabulary
        wide, plain = self.config(Job(other)), self.config(Job(SYSTEMS["transformer"]))
        wanted = _parameters(wide, size)
        widths = [plain.model.d_ffn, plain.model.d_ffn + 8]
        counts = [
            _parameters(plain.model_copy(update={"model": _with_width(plain, width)}), size)
            for width in widths
        ]
        each = (counts[1] - counts[0]) / (widths[1] - widths[0])
        return widths[0] + round((wanted - counts[0]) / each)

    def _aligner_folder(self) -> Path:
        return self.plan.out / "aligner"

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
