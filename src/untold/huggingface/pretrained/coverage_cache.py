"""Keeps what each hypothesis has covered as one more layer of a cache of transformers.

generate() reorders all layers of a cache with its beams, and so reorders coverage, too. Coverage is
kept position by position, so that assisted generation can take tokens back.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from untold.errors import UntoldError
from untold.huggingface.transformers_extra import import_transformers

__all__ = ["CoverageLayer", "add_coverage", "read_coverage"]

_caches: Any = import_transformers("cache_utils")


class CoverageLayer(_caches.DynamicLayer):
    """Holds coverage (r 1 t i) where other layers hold keys; no attention reads it."""


def read_coverage(cache: Any) -> Float[Tensor, "r i"]:
    """Returns the coverage after the last token that a cache holds."""
    layer = cache.self_attention_cache.layers[-1]
    if not isinstance(layer, CoverageLayer):
        raise UntoldError(
            "the cache holds no coverage: take past_key_values from an output of this model"
        )
    return layer.keys[:, 0, -1]


def add_coverage(cache: Any, covered: Float[Tensor, "r t i"]) -> None:
    """Adds the coverage after each of some more tokens, in a layer behind those of the decoder."""
    layers = cache.self_attention_cache.layers
    if not (layers and isinstance(layers[-1], CoverageLayer)):
        layers.append(CoverageLayer())
    layers[-1].update(covered[:, None], covered[:, None, :, :0])  # it has no values beside it
