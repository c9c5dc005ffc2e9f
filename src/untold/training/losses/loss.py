"""The interface of a loss, and the context from which every loss computes its value.

Counterfactual prefixes: targets from which a random span is deleted.

At the end of a true target nothing is left to translate, so a model may learn that the end of the
sentence means an empty future. After a prefix without a span, the words of the span are still to
come, up to the very end; the bag and link losses teach this. The cross entropy does not see such
prefixes, so that the decoder does not learn to omit words.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.config import TrainConfig
from untold.corpus.batching import Batch
from untold.models.past_future import PastFuture, Separated
from untold.models.seq2seq import Outputs, Seq2Seq

_SHORT = 3  # words of a short span at most
SHORT_SPANS = 0.6  # the share of such spans


@dataclass(frozen=True)
class TargetWords:
    """The words that a decoder reads, y_1 .. y_T EOS, and the whole sentences they are from.

    Both are the same unless words were deleted.
    """

    labels: Int[Tensor, "b t"]
    mask: Bool[Tensor, "b t"]
    whole: Int[Tensor, "b s"]
    whole_mask: Bool[Tensor, "b s"]


@dataclass(frozen=True)
class SpanDeletion:
    """Some sentences of a batch, each without a span."""

    rows: Int[Tensor, " r"]  # their places in the batch
    prefix: Int[Tensor, "r t"]  # BOS y_1 .. y_T
    words: TargetWords
    after: Bool[Tensor, "r t"]  # True where the decoder has read a word behind the span
    origin: Int[Tensor, "r t"]  # the position of each label in the whole sentence


def delete_spans(
    batch: Batch, share: float, short: float = 0.0, *, at_least_one: bool = False
) -> SpanDeletion | None:
    """Chooses about this share of the sentences at random and deletes a random span of each.

    A span has at most half of the words and never includes the last one, since a sentence without
    its end is a true prefix. A share of the spans, `short`, has at most three words: one missing
    noun is harder to notice than a missing clause. None means that no sentence was chosen, unless
    there must be `at_least_one`.
    """
    lengths = batch.target_mask.sum(1) - 1
    chance = torch.rand(3, len(lengths), device=lengths.device)
    rows = ((chance[0] < share) & (lengths >= 2)).nonzero().flatten()
    if not len(rows) and at_least_one:
        rows = lengths.argmax()[None]
    if not len(rows):
        return None
    lengths, chance = lengths[rows], chance[:, rows]
    spans = _span_lengths(chance[1], lengths // 2, short)
    starts = (chance[2] * (lengths - spans)).long()
    places = torch.arange(int((lengths - spans).max()) + 1, device=rows.device)
    mask = places <= (lengths - spans)[:, None]
    origin = places + spans[:, None] * (places >= starts[:, None])
    labels = batch.labels[rows].gather(1, origin.clamp(max=batch.labels.shape[1] - 1))
    labels = labels.masked_fill(~mask, batch.special.pad)
    begin = torch.full_like(labels[:, :1], batch.special.bos)
    words = TargetWords(labels, mask, batch.labels[rows], batch.target_mask[rows])
    prefix = torch.cat([begin, labels[:, :-1]], dim=1).masked_fill(~mask, batch.special.pad)
    return SpanDeletion(rows, prefix, words, mask & (places > starts[:, None]), origin)


def _span_lengths(
    chance: Float[Tensor, " r"], longest: Int[Tensor, " r"], short: float
) -> Int[Tensor, " r"]:
    """Draws lengths from 1 to `longest` evenly, and a share of them from 1 to 3 at most."""
    if not short:
        return 1 + (chance * longest).long()
    few = 1 + (chance / short * longest.clamp(max=_SHORT)).long()
    any_length = 1 + ((chance - short) / (1 - short) * longest).long()
    return torch.where(chance < short, few, any_length)


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
        gradient (SeparatorConfig.backbone_gradient)."""
        return self.past_future.damp(self.model.output_embedding())

    @cached_property
    def counterfactual(self) -> tuple[SpanDeletion, Separated] | None:
        """Deletes spans from some targets and separates their sources again, in one decoder pass.

        None means that no sentence of the batch was chosen.
        """
        config = self.config
        # Processes that share a model must all read a sentence again, or none of them.
        cut = delete_spans(
            self.batch, config.counterfactual, SHORT_SPANS, at_least_one=config.shard
        )
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
    auxiliary: ClassVar[bool] = True  # train.auxiliary_start delays it
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
