"""Updates as `untold train` makes them, one by one, so that they can be timed."""

import tempfile
from dataclasses import replace
from pathlib import Path

from untold.corpus.batching import Batch, PairsInMemory
from untold.storage.model_directory import TrainedModel
from untold.training.distributed import ProcessGroup
from untold.training.interruption import Interrupted
from untold.training.progress import Progress
from untold.training.reporter import NullReporter
from untold.training.sequence.sequence_objective import make_objective
from untold.training.trainer import Hooks, RunContext, Trainer, make_optimizer

__all__ = ["TimedUpdates"]


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
