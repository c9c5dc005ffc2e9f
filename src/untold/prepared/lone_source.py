"""A sentence that is translated alone: attention to it is two products, with its weights folded in.

For head h, with q = W_q x + b_q, the keys K_h and values V_h of the source, and W_o as columns W_h:

    softmax(q_h K_h') V_h W_h' = softmax(x (K_h W_q^h)' + b_q^h K_h') (V_h W_h')

The brackets depend on the source alone. As long as it is short they are smaller than W_q and W_o,
and a step reads them instead. Sentences of a batch share the weights, so there it does not pay.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.models.backbone import Source
from untold.models.transformer import CrossAttention

__all__ = ["FoldedWeights", "LoneSource", "pays_alone"]

_LONGEST = 64  # positions: then the brackets of a head are as large as its weights


def pays_alone(sentences: int, length: int) -> bool:
    """Tells if folding is worth it."""
    return sentences == 1 and length <= _LONGEST


@dataclass(frozen=True)
class LoneSource(Source):
    """Holds one encoded sentence, and for each layer what its steps multiply by."""

    folded: tuple[
        tuple[Tensor, Tensor, Tensor], ...
    ] = ()  # biases (ki), keys (d ki), values (ki d)

    def select(self, rows: Int[Tensor, " r"]) -> "LoneSource":
        """Returns itself: there is one sentence."""
        assert rows.tolist() == [0]
        return self


class FoldedWeights:
    """The weights of all layers' attention to the source, head by head."""

    def __init__(self, layers: Sequence[CrossAttention]) -> None:
        self._heads = layers[0].heads
        queries = torch.stack([layer.query.weight for layer in layers])
        outputs = torch.stack([layer.out.weight.T for layer in layers])
        both = torch.stack([queries, outputs], dim=1).unflatten(2, (self._heads, -1))
        self._scale = both.shape[3] ** -0.5
        both[:, 0] *= self._scale
        self._weights = both.flatten(0, 2).contiguous()  # (layers, queries and outputs, heads) e d
        biases = torch.stack([layer.query.bias for layer in layers]) * self._scale
        self._biases = biases.unflatten(1, (self._heads, -1))[..., None]
        self.output_biases = [layer.out.bias for layer in layers]

    def fold(self, source: Source, keys_values: Float[Tensor, "i w"]) -> LoneSource:
        """Folds the weights into the keys and values of one sentence, of all layers at once."""
        length, layers, width = len(keys_values), len(self._biases), self._weights.shape[1]
        parts = keys_values.view(length, -1, width).transpose(0, 1)
        folded = torch.bmm(parts, self._weights).view(layers, 2, self._heads * length, -1)
        keys = parts.unflatten(0, (layers, 2, self._heads))[:, 0]
        biases = torch.matmul(keys, self._biases).view(layers, -1)
        each = tuple(
            (biases[layer], folded[layer, 0].T, folded[layer, 1]) for layer in range(layers)
        )
        return LoneSource(source.states, source.mask, folded=each)
