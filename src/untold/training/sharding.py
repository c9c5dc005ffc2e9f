"""Shards a model over all processes (FSDP2), for models that do not fit one device.

Each process keeps a part of every weight, gradient and moment of the optimizer. A block of layers
is gathered while it computes, and no longer. Every process must therefore call the same blocks in
the same order: one that has no batch computes another's for company, with weight zero, and one that
has drawn no sentence to read a second time, without a span, reads one so for company.
"""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untold.config import Config
from untold.corpus.batching import Batch
from untold.errors import UntoldError
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import DecoderLayer, EncoderLayer
from untold.storage.model_directory import TrainedModel
from untold.training.distributed import ProcessGroup, reached_parameters
from untold.training.losses.loss import LossContext
from untold.training.losses.objective import (
    Announce,
    Losses,
    Objective,
    auxiliary_ramp,
    mixed_precision,
)


def check_sharding(config: Config) -> None:
    """Refuses settings by which processes would call blocks a different number of times."""
    if not config.train.shard:
        return
    if config.train.sequence.is_on:
        raise UntoldError(
            f'train.sequence.kind = "{config.train.sequence.kind}" draws translations of different '
            "lengths in each process, which train.shard cannot: set one of them to its default"
        )


class Shards:
    """Holds a sharded model, and in the main process its whole twin, for files and validation."""

    def __init__(
        self,
        trained: TrainedModel,
        objective: Objective,
        processes: ProcessGroup,
        device: torch.device,
    ) -> None:
        """Shards the model of `trained` in place; optimizers must be made afterwards."""
        self.processes = processes
        self.trained = trained
        self._config = objective.config
        self.twin: TrainedModel | None = None
        if processes.is_main:
            model = copy.deepcopy(trained.model).to(device).eval()
            self.twin = TrainedModel(model, trained.config, trained.tokenizers)
        self._root = _Root(_ObjectiveInCompany(objective.model, objective.config))
        _shard(self._root, trained.model, device.type)

    def backward(
        self, batch: Batch, step: int, tokens: int | float, announce: Announce | None = None
    ) -> dict[str, Tensor]:
        """Adds gradients as `Objective.backward` does, and to all processes at once."""
        assert announce is None, "shards send their gradients by themselves"
        with mixed_precision(batch.labels.device, self._config):
            total, parts = self._root(batch, step)
        total = total / tokens
        # A frozen run learns nothing before its losses begin, but all processes must go on alike.
        if total.requires_grad:
            total.backward()
        return parts

    def finish(self) -> None:
        """Removes gradients that no process has, which torch has filled with zeros.

        The optimizer passes them over, as it does if one process trains alone.
        """
        parameters = dict(self.trained.model.named_parameters())
        own = [float(name in self._root.used) for name in parameters]
        counts = self.processes.all_reduce_sum(own, next(iter(parameters.values())).device)
        for parameter, count in zip(parameters.values(), counts, strict=True):
            if not count:
                parameter.grad = None
        self._root.used.clear()

    def gather(self) -> None:
        """Copies the weights of all processes to the whole twin; all must call it together."""
        whole = {} if self.twin is None else dict(self.twin.model.named_parameters())
        with torch.no_grad():
            for name, parameter in self.trained.model.named_parameters():
                value = gathered(parameter)
                if name in whole:
                    whole[name].copy_(value)


class _Root(nn.Module):
    """Computes the loss as one module, so that FSDP sees where a pass begins and ends."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.model = objective.model
        self.objective = objective
        self.used: set[str] = set()  # the names of parameters that losses depend on

    def forward(self, batch: Batch, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the total, and the parts for the log."""
        losses = self.objective(batch, step)
        reached = reached_parameters([losses.total])
        for name, parameter in self.model.named_parameters():
            # Parameters of blocks are parted again by now; a pass uses every block.
            if id(parameter) in reached or hasattr(parameter, "to_local"):
                self.used.add(name)
        return losses.total, losses.parts


class _ObjectiveInCompany(Objective):
    """Makes a second pass through the decoder whenever other processes may have to make one."""

    def extend(self, supervised: Losses, context: LossContext) -> Losses:
        """Adds zero, which depends on the second pass."""
        ramp = auxiliary_ramp(self.config, context.step)
        active = (each for each, _ in self.losses if ramp or not each.auxiliary)
        if not any(each.counterfactual for each in active):
            return supervised
        return replace(supervised, total=supervised.total + _company(context))


def _company(context: LossContext) -> Float[Tensor, ""]:
    """Returns zero, which depends on the second pass that losses have made, or on another.

    Random numbers are drawn as if there were no other.
    """
    if context.counterfactual is not None:
        separated = context.counterfactual[1]
    else:
        batch = context.batch
        devices = [batch.prefix.device] if batch.prefix.device.type == "cuda" else []
        row = torch.zeros(1, dtype=torch.long, device=batch.prefix.device)
        with torch.random.fork_rng(devices=devices):
            source = context.outputs.source.select(row)
            separated = context.model.decode(source, batch.prefix[:1]).separated
        assert separated is not None
    return 0.0 * separated.shares.sum()


def _shard(root: _Root, model: Seq2Seq, device: str) -> None:
    # Imported here: runs of one process need neither, and they take a second.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    # The output of a linear layer is a view. Nothing changes one in place, which would be an error.
    warnings.filterwarnings("ignore", r"FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(device, (torch.distributed.get_world_size(),))
    for block in _blocks(model):
        fully_shard(block, mesh=mesh)
    fully_shard(root, mesh=mesh)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # losses are divided by the tokens of all
            module.set_force_sum_reduction_for_comms(True)
            module.set_reduce_scatter_unused_params(True)


def _blocks(model: Seq2Seq) -> Iterator[nn.Module]:
    """Finds the modules that are gathered one by one; the rest is gathered for the whole pass.

    A decoder layer has several: its keys and values of the source are computed with the encoder.
    """
    yield from model.backbone.blocks()
    for module in model.modules():
        if isinstance(module, EncoderLayer):
            yield module
        elif isinstance(module, DecoderLayer):
            yield from (module.self_attention, module.ffn)
            yield from (module.cross_attention.key_value, module.cross_attention)


def gathered(tensor: Tensor) -> Tensor:
    """Returns the whole of a tensor that may be sharded; all processes must call it together."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()
