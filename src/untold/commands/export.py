"""`untold export` writes a model for other programs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from untold.commands.options import Model, print_notice, say_outputs_if_stopped
from untold.errors import UntoldError


def export(
    model: Model,
    out: Annotated[Path, typer.Option(help="The directory to write.")],
    to: Annotated[
        Literal["huggingface", "ctranslate2", "onnx"],
        typer.Option(help="The program that shall read it; onnx keeps past and future."),
    ],
    drop_past_future: Annotated[
        bool,
        typer.Option(
            "--drop-past-future", help="Leave past and future out, even if translations change."
        ),
    ] = False,
) -> None:
    """Write a Transformer for transformers, CTranslate2 or ONNX runtimes, with its vocabulary."""
    from untold.storage.model_directory import load_model

    if to == "onnx" and drop_past_future:
        raise UntoldError(
            "--drop-past-future has no effect on onnx, which keeps them: leave it out"
        )
    say_outputs_if_stopped(out)
    trained, where = load_model(model, with_calibration=False), str(model)
    if to == "onnx":
        from untold.export.onnx import write_onnx_model

        write_onnx_model(trained, out, where)
    else:
        from untold.export.plain_model import plain_model

        plain = plain_model(trained, where, drop_past_future=drop_past_future)
        if plain.left_out:
            print_notice(f"left out: {plain.left_out}")
        if to == "ctranslate2":
            from untold.export.ctranslate2 import write_ctranslate2_model

            write_ctranslate2_model(plain, out)
        else:
            from untold.export.huggingface import write_huggingface_folder

            write_huggingface_folder(plain, out)
    if trained.config.data.lowercase:
        print_notice("the model reads lower case: its text has to be lowercased before")
    print(f"{out}: {model} for {to}")
