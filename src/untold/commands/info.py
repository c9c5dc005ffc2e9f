"""`untold info` describes a model."""

import json

from untold.commands.options import AsJson, Model, say_outputs_if_stopped

__all__ = ["info"]


def info(model: Model, as_json: AsJson = False) -> None:
    """Say what a model is: its shape, size, vocabulary and settings."""
    from untold.storage.model_directory import load_model
    from untold.storage.model_summary import summarise

    say_outputs_if_stopped()
    summary = summarise(load_model(model), model)
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
        return
    for name, value in summary.items():
        print(f"{name}: {value}")
