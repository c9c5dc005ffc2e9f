"""Keeps what each hypothesis has covered as one more layer of a cache of transformers.

generate() reorders all layers of a cache with its beams, and so reorders coverage, too.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.errors import UntoldError
from untold.huggingface.transformers_extra import import_transformers

__all__ = ["CoverageLayer", "read_coverage", "write_coverage"]

_caches: Any = import_transformers("cache_utils")


class CoverageLayer(_caches.CacheLayerMixin):
    """Holds coverage where other layers hold keys; no attention reads it."""

    supports_early_init = False

    def __init__(self, covered: Float[Tensor, "r i"]) -> None:
        super().__init__()
        self.lazy_initialization(covered, covered)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Takes the coverage; it has no values beside it."""
        self.keys, self.values, self.is_initialized = key_states, value_states, True
        self.dtype, self.device = key_states.dtype, key_states.device

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        *args: Any,  # noqa: ARG002 - a signature of transformers
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """Replaces the coverage."""
        self.lazy_initialization(key_states, value_states)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Returns the sizes of a mask that nothing asks for."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """Returns one, so that the layer counts as filled and is reordered."""
        return 1

    def get_max_length(self) -> int:
        """Returns -1: it sets no limit."""
        return -1

    def crop(self, tokens_to_remove: int) -> None:
        """Refuses to forget tokens: coverage is a sum, and what was added is not known any more."""
        if tokens_to_remove:
            raise UntoldError(
                "coverage cannot go back by tokens, as assisted generation asks for: generate "
                "without an assistant, or build the model with coverage=False"
            )

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeats every row."""
        covered = self.keys.repeat_interleave(repeats, dim=0)
        self.lazy_initialization(covered, covered)

    def batch_select_indices(self, indices: Int[Tensor, " s"]) -> None:
        """Keeps some rows."""
        covered = self.keys[indices]
        self.lazy_initialization(covered, covered)


def read_coverage(cache: Any) -> Float[Tensor, "r i"]:
    """Returns the coverage that a cache holds."""
    layer = cache.self_attention_cache.layers[-1]
    if not isinstance(layer, CoverageLayer):
        raise UntoldError(
            "the cache holds no coverage: take past_key_values from an output of this model"
        )
    return layer.keys


def write_coverage(cache: Any, covered: Float[Tensor, "r i"]) -> None:
    """Puts coverage behind the layers of the decoder, in place of what was there."""
    layers = cache.self_attention_cache.layers
    if layers and isinstance(layers[-1], CoverageLayer):
        layers.pop()
    layers.append(CoverageLayer(covered.detach() if not torch.is_grad_enabled() else covered))
