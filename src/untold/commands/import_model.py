"""`untold import` makes a Hugging Face model untold's own."""

from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import say_outputs_if_stopped
from untold.errors import UntoldError


def import_model(
    model: Annotated[Path, typer.Argument(help="hf:PATH: a folder, or a name of the hub.")],
    out: Annotated[Path, typer.Option(help="Where to write the model.")],
) -> None:
    """Turn a Marian model into a Transformer of untold with the same translations.

    The new model needs transformers no more; all commands take it, and export writes it elsewhere.
    """
    from untold.export.huggingface_import import import_folder
    from untold.storage.model_directory import hugging_face_name, save_model

    name = hugging_face_name(model)
    if name is None:
        raise UntoldError(f"{model}: is no Hugging Face model: write it as hf:{model}")
    say_outputs_if_stopped(out)
    imported = import_folder(name)
    save_model(out, imported.trained)
    print(f"{out}: logits differ from those of {model} by {imported.difference:.1g} at most")
