"""Kernels in C, for what torch needs dozens of calls for; everything works without them."""

from untold.native.library import in_parts, load

__all__ = ["in_parts", "load"]
