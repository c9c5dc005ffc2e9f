"""The interface of a loss, and the context from which every loss computes its value."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from jaxtyping import Float
from torch import Tensor

from untold.config import TrainConfig
from untold.corpus.batching import Batch
from untold.models.past_future import PastFuture, Separated
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.training.losses.counterfactual import SpanDeletion, delete_spans

__all__ = ["Loss", "LossContext", "SeparationLoss"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class LossContext:
    """Holds one batch and the model's outputs for it, and computes what several losses share.

    Shared results are computed when the first loss asks for them, and then only once.
    """

    model: Seq2Seq
    outputs: Outputs  # of the teacher-forced pass over the batch
    batch: Batch
    config: TrainConfig
    step: int  # the number of the update, from 1
    figures: dict[str, Tensor] = field(default_factory=dict)  # what the log shows of each loss
    _results: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def past_future(self) -> PastFuture:
        """Returns the model's past and future; ask only for a model that has them."""
        assert self.model.past_future is not None
        return self.model.past_future

    @property
    def separated(self) -> Separated:
        """Returns capsules and assignments; ask only for a model with past and future."""
        assert self.outputs.separated is not None
        return self.outputs.separated

    @cached_property
    def damped_embedding(self) -> Float[Tensor, "v d"]:
        """The output embedding as the heads of the capsules see it: it gets a share of their
        gradient (model.separator.backbone_gradient)."""
        return self.past_future.damp(self.model.output_embedding())

    @cached_property
    def counterfactual(self) -> tuple[SpanDeletion, Separated] | None:
        """Deletes spans from some targets and separates their sources again, in one decoder pass.

        None means that no sentence of the batch was chosen.
        """
        cut = delete_spans(self.batch, self.config.counterfactual, self.config.short_spans)
        if cut is None:
            return None
        decoded = self.model.decode(self.outputs.source.select(cut.rows), cut.prefix)
        assert decoded.separated is not None
        return cut, decoded.separated

    def once(self, compute: Callable[["LossContext"], Result]) -> Result:
        """Returns compute(self); losses that share a computation call this with one function."""
        if compute not in self._results:
            self._results[compute] = compute(self)
        return self._results[compute]


class Loss(ABC):
    """One term of the objective. All values are sums over the sentences of a batch."""

    name: ClassVar[str]  # its column in the log, and its name in the registry
    auxiliary: ClassVar[bool] = True  # train.auxiliary_start and auxiliary_warmup delay it
    trains_backbone: ClassVar[bool] = False  # train.freeze_backbone leaves it out
    counterfactual: ClassVar[bool] = False  # of `outputs` it reads the source alone

    def weight(self, config: TrainConfig) -> float:
        """Returns its factor in the total; a loss with weight zero is never computed.

        A loss without a key of its own has its weight in train.losses.
        """
        return config.losses.get(self.name, 0.0)

    def applies(self, model: Seq2Seq, config: TrainConfig) -> bool:  # noqa: ARG002
        """Tells whether the model has the parts that this loss trains."""
        return True

    @abstractmethod
    def value(self, context: LossContext) -> Float[Tensor, ""] | None:
        """Computes the loss, with gradients; None means that this batch has nothing to learn from.

        The log shows this value, unless the loss puts another one into `context.figures`.
        """


class SeparationLoss(Loss):
    """A loss on capsules or assignments: it applies to models with past and future."""

    def applies(self, model: Seq2Seq, config: TrainConfig) -> bool:  # noqa: ARG002
        """Tells whether the model has a separator."""
        return model.past_future is not None
