"""Models laid out for translation: packed weights, and steps that call no modules."""

from untold.prepared.prepared_model import PreparedModel, prepare

__all__ = ["PreparedModel", "prepare"]
