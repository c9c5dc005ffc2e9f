"""Shards a model over all processes (FSDP2), for models that do not fit one device.

Each process keeps a part of every weight, gradient and moment of the optimizer. A block of layers
is gathered while it computes, and no longer. Every process must therefore call the same blocks in
the same order: all have as many batches, and each reads some sentence a second time, without a
span, whenever counterfactual losses are on.
"""

import copy
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from untold.config import Config
from untold.corpus.batching import Batch
from untold.errors import UntoldError
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import DecoderLayer, EncoderLayer
from untold.storage.model_directory import TrainedModel
from untold.training.distributed import ProcessGroup
from untold.training.losses.objective import Losses, Objective, mixed_precision


def check_sharding(config: Config, world_size: int) -> None:
    """Refuses settings by which processes would call blocks a different number of times."""
    train = config.train
    if train.sequence.is_on:
        raise UntoldError(
            f'train.sequence.kind = "{train.sequence.kind}" draws translations of different '
            "lengths in each process, which train.shard cannot: set one of them to its default"
        )
    if train.accumulate % world_size:
        raise UntoldError(
            f"train.accumulate = {train.accumulate} is not a multiple of the {world_size} "
            f"processes that share a model: set it to {world_size}"
        )


class ShardedModel:
    """Holds a sharded model, and in the main process its whole twin, for files and validation."""

    def __init__(
        self,
        trained: TrainedModel,
        objective: Objective,
        processes: ProcessGroup,
        device: torch.device,
    ) -> None:
        """Shards the model of `trained` in place; optimizers must be made afterwards."""
        self._model, self._config = trained.model, objective.config
        self.twin: TrainedModel | None = None
        if processes.is_main:
            model = copy.deepcopy(trained.model).to(device).eval()
            self.twin = TrainedModel(model, trained.config, trained.tokenizers)
        self._root = _Root(objective)
        _shard(self._root, trained.model, device.type, processes.world_size)

    def backward(self, batch: Batch, step: int, tokens: int) -> dict[str, Tensor]:
        """Adds gradients as `Objective.backward` does, and to all processes at once."""
        with mixed_precision(batch.labels.device, self._config):
            losses = self._root(batch, step)
        if losses.total.requires_grad:
            (losses.total / tokens).backward()
        return losses.parts

    @torch.no_grad()
    def gather(self) -> None:
        """Copies the weights of all processes to the whole twin; all must call it together."""
        twins = {} if self.twin is None else dict(self.twin.model.named_parameters())
        for name, parameter in self._model.named_parameters():
            value = whole_tensor(parameter)
            if name in twins:
                twins[name].copy_(value)


class _Root(nn.Module):
    """Computes the loss as one module, so that FSDP sees where a pass begins and ends."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.model = objective.model
        self.objective = objective

    def forward(self, batch: Batch, step: int) -> Losses:
        """Computes the losses of a batch."""
        return self.objective(batch, step)


def _shard(root: nn.Module, model: Seq2Seq, device: str, world_size: int) -> None:
    # Imported here: runs of one process need neither, and they take a second.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    # The output of a linear layer is a view. Nothing changes one in place, which would be an error.
    warnings.filterwarnings("ignore", r"FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(device, (world_size,))
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


def whole_tensor(tensor: Tensor) -> Tensor:
    """Returns the whole of a tensor that may be sharded; all processes must call it together."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def sharded_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Returns this process's part of a whole tensor if the parameter is sharded."""
    if not hasattr(parameter, "full_tensor") or not tensor.dim():
        return tensor.to(parameter.device)
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(parameter, DTensor)
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements)
