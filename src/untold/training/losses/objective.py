"""The objective: the weighted sum of all losses that apply to a model.

    total = cross entropy  +  ramp * (sum over the auxiliary losses of weight * value)

Losses are found by name in the registry LOSSES. The order of its rows is the order of the columns
in the log and of the random numbers that the losses draw.

Counterfactual losses, which need a second decoder pass, are learnt last: `Objective.backward` frees
the values of the first pass before it makes the second one, so that they never share the memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untold.config import TrainConfig
from untold.corpus.batching import Batch
from untold.errors import UntoldError
from untold.models.seq2seq import Outputs, Seq2Seq
from untold.registry import Registry
from untold.training.losses.loss import Loss, LossContext

_SHIPPED = {
    "nll": "untold.training.losses.cross_entropy:CrossEntropyLoss",
    "bow": "untold.training.losses.bag_of_words:BagOfWordsLoss",
    "ends": "untold.training.losses.links:EndsLoss",
    "lexicon": "untold.training.losses.links:TranslationTableLoss",
    "links": "untold.training.losses.links:LinkLoss",
    "bca": "untold.training.losses.auxiliary:ContentAgreementLoss",
    "counterfactual": "untold.training.losses.bag_of_words:CounterfactualBagLoss",
    "cut_links": "untold.training.losses.links:CounterfactualLinkLoss",
    "word_prediction": "untold.training.losses.auxiliary:WordPredictionLoss",
    "past": "untold.training.losses.auxiliary:PastLayerLoss",
    "future": "untold.training.losses.auxiliary:FutureLayerLoss",
}
LOSSES: Registry[type[Loss]] = Registry("loss", "untold.losses", _SHIPPED)


@dataclass(frozen=True)
class Losses:
    """Sums over a batch: training minimises `total`, the log shows `parts`."""

    total: Float[Tensor, ""]
    parts: dict[str, Float[Tensor, ""]]


class Objective:
    """Computes the loss of a batch for one model and one configuration."""

    def __init__(self, model: Seq2Seq, config: TrainConfig) -> None:
        self.model = model
        self.config = config
        losses = _find_losses(model, config)
        self.losses = tuple((loss, loss.weight(config)) for loss in losses)
        # Only the last losses may be put off: the order in which losses draw random numbers stays.
        last = takewhile(lambda pair: pair[0].counterfactual, reversed(self.losses))
        self.put_off = len(tuple(last))
        self.names = ("loss", *(loss.name for loss in losses))  # the columns of the log
        self.judges = nn.ModuleDict()  # networks that learn beside the model: see sequence/

    def __call__(self, batch: Batch, step: int, outputs: Outputs | None = None) -> Losses:
        """Runs the model on a batch and adds up the losses; `step` counts updates from 1.

        `outputs` are those of the model for the batch, if it was run already.
        """
        if outputs is None:
            outputs = self.model(batch.source, batch.source_mask, batch.prefix)
        context = LossContext(self.model, outputs, batch, self.config, step)
        return self.extend(self._add_up(self.losses, context), context)

    def backward(self, batch: Batch, step: int, tokens: int) -> dict[str, Float[Tensor, ""]]:
        """Adds the gradients of the total, divided by `tokens`, to the parameters; returns parts.

        The gradients are those of `__call__`, but for the order of their sums.
        """
        precision = partial(mixed_precision, batch.labels.device, self.config)
        if not self.put_off:
            with precision():
                losses = self(batch, step)
            _backward(losses.total / tokens)
            return losses.parts
        with precision():
            source = self.model.encode(batch.source, batch.source_mask)
            outputs = self.model.decode(source.leaves(), batch.prefix)
            context = LossContext(self.model, outputs, batch, self.config, step)
            first = self._add_up(self.losses[: -self.put_off], context)
        _backward(first.total / tokens)
        with precision():
            last = self._add_up(self.losses[-self.put_off :], context)
        _backward(last.total / tokens)
        source.backward(outputs.source)
        return first.parts | last.parts | {"loss": first.parts["loss"] + last.parts["loss"]}

    def _add_up(self, losses: Sequence[tuple[Loss, float]], context: LossContext) -> Losses:
        total = torch.zeros((), device=context.batch.labels.device)
        parts, ramp = {}, auxiliary_factor(self.config, context.step)
        for loss, weight in losses:
            scale = ramp * weight if loss.auxiliary else weight
            value = loss.value(context) if scale else None
            if value is not None:
                total = total + scale * value
                parts[loss.name] = context.figures.get(loss.name, value).detach()
        return Losses(total, {"loss": total.detach()} | parts)

    def extend(self, supervised: Losses, context: LossContext) -> Losses:  # noqa: ARG002
        """Adds terms that are not learnt from the reference; the plain objective has none."""
        return supervised


def mixed_precision(device: torch.device, config: TrainConfig) -> torch.autocast:
    """Makes the context in which losses are computed: bf16 where train.precision asks for it."""
    return torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16")


def _backward(total: Float[Tensor, ""]) -> None:
    """Adds gradients to the parameters; a frozen run learns nothing before its losses begin."""
    if total.requires_grad:
        total.backward()


def auxiliary_factor(config: TrainConfig, step: int) -> float:
    """Returns the factor, 0 or 1, of all auxiliary losses at an update (from 1)."""
    return float(step > config.auxiliary_start)


def check_loss_names(config: TrainConfig) -> None:
    """Refuses names in train.losses that no package has registered as a loss."""
    for name in config.losses:
        if name not in LOSSES:
            raise UntoldError(f"train.losses: {LOSSES.unknown(name)}")
        if name in _SHIPPED:
            raise UntoldError(
                f"train.losses.{name}: this loss has a key of its own in [train], which "
                "docs/losses.md names: set that one"
            )
        if LOSSES[name].name != name:
            raise UntoldError(
                f"train.losses.{name}: the class {LOSSES[name].__name__} calls itself "
                f"{LOSSES[name].name}: give it the name under which it is registered"
            )


def _find_losses(model: Seq2Seq, config: TrainConfig) -> tuple[Loss, ...]:
    """Makes the losses that have a weight and that apply."""
    check_loss_names(config)
    found = [LOSSES[name]() for name in LOSSES.names if name in _SHIPPED or name in config.losses]
    return tuple(
        loss
        for loss in found
        if loss.weight(config)
        and loss.applies(model, config)
        and not (config.freeze_backbone and loss.trains_backbone)
    )
