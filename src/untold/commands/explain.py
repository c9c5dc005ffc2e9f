"""`untold explain` shows how translations came about."""

from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import (
    Model,
    Settings,
    check_output,
    load_translator,
    say_outputs_if_stopped,
)
from untold.feedback import task

__all__ = ["explain"]


def explain(
    model: Model,
    source: Annotated[list[str], typer.Option(help="A sentence; may be given again.")],
    target: Annotated[
        list[str] | None, typer.Option(help="Its translation, one for each source [the model's].")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A .html, .json, .png or .svg file, even if it exists [the terminal]."),
    ] = None,
    settings: Settings = None,
) -> None:
    """Show what was told and what was still untold of a source before each target word.

    A PFRNN without a separator has no such shares; then show the pieces that its past and future
    layers predict after each target piece.
    """
    from untold.introspection.explanation import explain as explain_translations
    from untold.introspection.explanation import explanation_kind
    from untold.report.pictures import check_format, print_explanations, write_explanations

    say_outputs_if_stopped(out)
    if out is not None:
        check_format(out)  # before the model is loaded
        check_output(out)
    translator = load_translator(model, settings, ("batch_tokens",) if target else None)
    if out is not None:
        check_format(out, explanation_kind(translator))  # before anything is translated
    with task("explaining", len(source)) as begun:
        translator = translator.with_progress(begun.advance)
        explanations = explain_translations(translator, source, target or [])
    if out is None:
        print_explanations(explanations)
    else:
        with task(f"drawing {out}"):
            write_explanations(out, explanations)
        print(f"{out}: sentences: {len(explanations)}")
