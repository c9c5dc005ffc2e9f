"""Kernels in C, for what torch needs dozens of calls for; everything works without them."""

from untold.native.library import load

__all__ = ["load"]
