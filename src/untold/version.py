"""Holds the version and nothing else, so that packaging can read it without any import."""

__all__ = ["__version__"]

__version__ = "0.1.0"
