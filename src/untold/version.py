"""Holds the version and nothing else, so that packaging can read it without any import."""

__version__ = "0.1.0"
