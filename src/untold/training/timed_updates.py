"""Updates as `untold train` makes them, one by one, to be timed."""

import tempfile
from dataclasses import replace
from pathlib import Path

from untold.corpus.batching import Batch, PairsInMemory
from untold.storage.model_directory import TrainedModel
from untold.training.distributed import ProcessGroup
from untold.training.interruption import Interrupted
from untold.training.progress import Progress
from untold.training.reporter import NullReporter
from untold.training.sequence.sequence_goal import SequenceGoal
from untold.training.trainer import Hooks, RunContext, Trainer, make_optimizer

__all__ = ["TimedUpdates"]


class TimedUpdates:
    """Trains a model on given batches, through the trainer itself. Its weights change."""

    def __init__(self, trained: TrainedModel) -> None:
        if trained.config.train.freeze_backbone:
            trained.model.freeze_backbone()
        reporter = NullReporter(Path(tempfile.gettempdir()), trained.config.train.steps)
        setting, nothing = RunContext(ProcessGroup(), reporter, Interrupted()), PairsInMemory(())
        goal = SequenceGoal(trained) if trained.config.train.sequence.is_on else None
        optimizer = make_optimizer(trained, goal)
        self._trainer = Trainer(trained, optimizer, nothing, setting, Hooks(goal=goal))
        # Where they have begun: the auxiliary losses are part of what an update costs.
        self._progress = Progress(step=trained.config.train.auxiliary_start)

    def __call__(self, batch: Batch) -> float:
        """One update; returns the target tokens that it saw."""
        self._progress = replace(self._progress, step=self._progress.step + 1)
        self._trainer._update(self._progress, [(0, batch)])
        return float(batch.target_tokens)
