"""`untold translate` translates lines of text as they arrive."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import AsJson, Model, Settings, load_translator
from untold.errors import UntoldError

__all__ = ["translate"]

_LONG = 10_000  # characters


def translate(
    model: Model,
    file: Annotated[Path | None, typer.Argument(help="Text, a line each [standard input].")] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at each step.")] = None,
    nbest: Annotated[int | None, typer.Option(help="Translations of each line.")] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--with", help="Another model to ensemble with.")
    ] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Translate lines of text, in their order, as they arrive."""
    from untold.report.json_records import translation_record

    translator = load_translator([model, *(ensemble or [])], settings, beam=beam, nbest=nbest)
    lines = _announce_long(_lines(file))
    found = translator.stream(lines, copying=as_json, assignments=as_json)
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


def _announce_long(lines: Iterator[str]) -> Iterator[str]:
    """Says which lines will take long, because nothing comes out before a line is done."""
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONG:
            print(
                f"untold: line {number} has {len(line):,} characters: it is translated in "
                "segments, and takes as long as a text of this length",
                file=sys.stderr,
            )
        yield line
