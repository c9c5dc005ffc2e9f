"""`untold adopt` adds past and future to a Hugging Face model whose translations stay the same."""

from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import Settings, number_option
from untold.errors import UntoldError
from untold.interruption import say_if_stopped


def adopt(
    model: Annotated[Path, typer.Argument(help="hf:PATH: a folder, or a name of the hub.")],
    source: Annotated[Path, typer.Option(help="Source text of parallel text, a line each.")],
    target: Annotated[Path, typer.Option(help="Its translations, a line each.")],
    out: Annotated[Path, typer.Option(help="The directory of the new model.")],
    steps: Annotated[int, number_option(1, 1_000_000, "Updates of the training.")] = 300,
    settings: Settings = None,
) -> None:
    """Teach a Hugging Face model what it has told, without changing what it translates.

    Only new parts are trained, on your parallel text; the model itself is frozen. At the end you
    see how well they know told from untold words, and what to type next.
    """
    from untold.storage.model_directory import hugging_face_name
    from untold.training.adoption import run_adoption

    if hugging_face_name(model) is None:
        raise UntoldError(f"{model}: is no Hugging Face model: write it as hf:{model}")
    say_if_stopped(f"what is finished stays in {out}; run the same command again to go on")
    run_adoption(model, (source, target), out, steps, settings or [])


def import_model() -> None:
    """Say what took the place of this command."""
    raise UntoldError(
        "untold import is gone: every command takes a Hugging Face model as hf:PATH, and "
        "untold adopt puts past and future on top of it"
    )
