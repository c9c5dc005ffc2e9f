"""The attention of a wrapped Hugging Face model: beams share the keys of their source.

transformers calls it by the name FOLDED. The adapter hands over all masks ready-made, as four axes
of booleans, which transformers passes on as they are. Where transformers makes the masks itself, as
in generate(), the function of that name makes all of them: without it they would be left out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from untold.huggingface.transformers_extra import import_transformers

__all__ = ["FOLDED", "ShownWeights", "folded_attention", "register_folded_attention", "showing"]

FOLDED = "untold_folded"


class ShownWeights:
    """Collects the weights of one attention layer while the decoder runs."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer
        self.weights: Float[Tensor, "b t i"] | None = None  # the mean of the heads


_SHOWN: ContextVar[ShownWeights | None] = ContextVar("shown weights", default=None)


@contextmanager
def showing(layer: nn.Module | None) -> Iterator[ShownWeights | None]:
    """Collects the weights of a layer within the block; None collects nothing."""
    shown = None if layer is None else ShownWeights(layer)
    token = _SHOWN.set(shown)
    try:
        yield shown
    finally:
        _SHOWN.reset(token)


def register_folded_attention() -> str:
    """Makes the attention known to transformers, and returns its name."""
    functions = import_transformers("modeling_utils").ALL_ATTENTION_FUNCTIONS
    if FOLDED not in functions:
        functions.register(FOLDED, folded_attention)
        import_transformers("masking_utils").ALL_MASK_ATTENTION_FUNCTIONS.register(
            FOLDED, _whole_mask
        )
    return FOLDED


def _whole_mask(*sizes: Any, **options: Any) -> Bool[Tensor, "b 1 t i"]:
    """Makes a mask of booleans, also where transformers would leave it to the attention."""
    always = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return import_transformers("masking_utils").sdpa_mask(*sizes, **options | always)


def folded_attention(
    module: nn.Module,
    query: Float[Tensor, "r k t e"],
    key: Float[Tensor, "b k i e"],
    value: Float[Tensor, "b k i e"],
    attention_mask: Bool[Tensor, "#b 1 #t i"],
    **options: Any,
) -> tuple[Float[Tensor, "r t k e"], Float[Tensor, "b k t i"] | None]:
    """Attends with r = b n queries over the keys of b sentences; n is 1 where nothing is folded.

    `options` are those of transformers: scaling, dropout, output_attentions, and the position bias
    of T5. Weights are returned where transformers asks for them.
    """
    dropout, scale = options.get("dropout", 0.0), options.get("scaling")
    bias: Tensor | None = options.get("position_bias")
    (rows, heads, length, width), sentences = query.shape, key.shape[0]
    is_folded = rows != sentences
    if is_folded:  # T5 gives cross attention a bias of zeros, which would not fit
        bias = None
        folded = query.view(sentences, -1, heads, length, width).transpose(1, 2)
        query = folded.reshape(sentences, heads, -1, width)
    mask: Tensor = attention_mask
    if bias is not None:
        mask = bias.masked_fill(~attention_mask, -torch.inf)
    shown, weights, returned = _SHOWN.get(), None, bool(options.get("output_attentions"))
    if returned or (shown is not None and shown.layer is module):
        scores = query @ key.transpose(2, 3) * (width**-0.5 if scale is None else scale)
        if bias is not None:
            scores = scores + bias
        # Not -inf: where all is masked, weights are even, as transformers has them, and not NaN.
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1)
        if shown is not None and shown.layer is module:
            shown.weights = weights.mean(1).view(rows, length, -1)
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale
    )
    if is_folded:
        output = output.view(sentences, heads, -1, length, width).transpose(1, 2)
        output = output.reshape(rows, heads, length, width)
    return output.transpose(1, 2).contiguous(), weights if returned else None
