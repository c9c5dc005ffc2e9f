"""How hypotheses of different lengths are compared."""

from typing import TypeVar

from torch import Tensor

__all__ = ["length_penalty"]

Length = TypeVar("Length", float, Tensor)


def length_penalty(length: Length, alpha: float) -> Length:
    """((5 + |y|) / 6)^alpha (Wu et al., 2016, eq. 14); |y| counts EOS; no penalty with alpha 0."""
    return ((5.0 + length) / 6.0) ** alpha
