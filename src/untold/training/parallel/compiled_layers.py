"""Compiles the layers of a Transformer (torch.compile), where the device can run the result."""

import torch
from torch import nn

from untold.errors import UntoldError
from untold.models.layers import FeedForward
from untold.models.transformer import CrossAttention, SelfAttention

__all__ = ["check_compilation", "compile_layers"]

_LEAST_CAPABILITY = (7, 0)  # of a GPU that Triton, which makes the kernels, can write for


def check_compilation(device: torch.device) -> None:
    """Refuses devices for which no kernels can be made.

    On CPUs the kernels of untold are faster than what torch.compile would write.
    """
    cure = "leave out train.compile"
    if device.type != "cuda":
        raise UntoldError(f"train.compile = true needs a GPU, and this run is on a CPU: {cure}")
    found = torch.cuda.get_device_capability(device)
    if found < _LEAST_CAPABILITY:
        least, has = (".".join(map(str, each)) for each in (_LEAST_CAPABILITY, found))
        raise UntoldError(
            f"train.compile = true needs a GPU of compute capability {least}, not {has}: {cure}"
        )


def compile_layers(model: nn.Module, backend: str = "inductor") -> int:
    """Compiles every attention and feed-forward layer in place, and returns how many there are.

    Batches have all lengths, so shapes are dynamic. Names of parameters stay as they are.
    """
    kinds = (CrossAttention, FeedForward, SelfAttention)
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    for layer in layers:
        layer.compile(dynamic=True, backend=backend)
    return len(layers)
