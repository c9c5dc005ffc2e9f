"""The version, alone, so that packaging can read it without importing anything."""

__all__ = ["__version__"]

__version__ = "0.1.0"
