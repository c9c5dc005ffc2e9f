"""`untold translate` translates lines of text as they arrive."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import AsJson, Model, Settings, load_translator, number_option
from untold.errors import UntoldError

__all__ = ["translate"]


def translate(
    model: Model,
    file: Annotated[Path | None, typer.Argument(help="Text, a line each [standard input].")] = None,
    beam: Annotated[int | None, number_option(1, 1000, "Hypotheses kept at each step.")] = None,
    nbest: Annotated[int | None, number_option(1, 10_000, "Translations of each line.")] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--with", help="Another model to ensemble with.")
    ] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Translate lines of text, in their order, as they arrive."""
    from untold.report.json_records import translation_record

    translator = load_translator([model, *(ensemble or [])], settings, beam=beam, nbest=nbest)
    found = translator.stream(_lines(file), copying=as_json, assignments=as_json)
    for number, translation in enumerate(found):
        if as_json:
            print(json.dumps(translation_record(translation), ensure_ascii=False), flush=True)
        elif translator.decode.nbest > 1:
            for each in (translation, *translation.alternatives):
                print(f"{number} ||| {each.text} ||| {each.score:.4f}", flush=True)
        else:
            print(translation.text, flush=True)


def _lines(file: Path | None) -> Iterator[str]:
    from untold.corpus.lines import read_lines, split_lines

    if file is None and sys.stdin is None:
        raise UntoldError("standard input is closed: name a file to translate")
    return split_lines(sys.stdin.buffer, "standard input") if file is None else read_lines(file)
