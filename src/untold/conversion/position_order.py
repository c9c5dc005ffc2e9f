"""The order in which a Transformer's states hold sines and cosines of the position.

untold writes them pair by pair, as Vaswani et al. do; Marian and Pegasus write all sines before all
cosines. States of one order become those of the other if every weight that reads or writes them is
permuted. The function stays the same, up to the order of sums.
"""

import torch
from jaxtyping import Int
from torch import Tensor, nn

from untold.models.transformer import Transformer

__all__ = ["halves_from_pairs", "pairs_from_halves", "reorder_states"]

# Linear layers of a Transformer by the side on which the states are; heads keep their order.
_READ = ("qkv", "query", "key_value", "inner")
_WRITE = ("out", "outer")


def pairs_from_halves(width: int) -> Int[Tensor, " d"]:
    """Returns where each of our numbers is found in states that hold all sines first."""
    return torch.arange(width).view(2, -1).T.flatten()


def halves_from_pairs(width: int) -> Int[Tensor, " d"]:
    """Inverts `pairs_from_halves`."""
    return torch.arange(width).view(-1, 2).T.flatten()


@torch.no_grad()
def reorder_states(transformer: Transformer, order: Int[Tensor, " d"]) -> None:
    """Permutes the states in place: number k becomes what number order[k] was.

    The table of positions stays as it is, so that the weights alone are in the new order.
    """
    for name, module in transformer.named_modules():
        last = name.rpartition(".")[2]
        if isinstance(module, nn.LayerNorm):
            module.weight.copy_(module.weight[order])
            module.bias.copy_(module.bias[order])
        elif isinstance(module, nn.Embedding) or (isinstance(module, nn.Linear) and last in _READ):
            module.weight.copy_(module.weight[:, order])
        elif isinstance(module, nn.Linear) and last in _WRITE:
            module.weight.copy_(module.weight[order])
            module.bias.copy_(module.bias[order])
