"""`untold translate` translates lines of text as they arrive."""

import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untold.commands.align import check_link_file, write_links
from untold.commands.options import AsJson, Model, Settings, load_translator, number_option
from untold.errors import UntoldError
from untold.interruption import say_if_stopped
from untold.progress_bar import active_display, task

if TYPE_CHECKING:
    from untold.translator import Translation, Translator


_LONG = 10_000  # characters

Align = Annotated[
    Path | None,
    typer.Option(help="Write the links, i-j, of source and translation to this file, a line each."),
]

Int8 = Annotated[
    bool, typer.Option("--int8", help="Multiply 8-bit numbers: faster, a little less exact.")
]


def translate(
    model: Model,
    file: Annotated[Path | None, typer.Argument(help="Text, a line each [standard input].")] = None,
    beam: Annotated[int | None, number_option(1, 1000, "Hypotheses kept at each step.")] = None,
    nbest: Annotated[int | None, number_option(1, 10_000, "Translations of each line.")] = None,
    int8: Int8 = False,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--with", help="Another model to ensemble with.")
    ] = None,
    settings: Settings = None,
    align: Align = None,
    as_json: AsJson = False,
) -> None:
    """Translate lines of text, in their order, as they arrive."""
    check_link_file(align, file)
    given = {"beam": beam, "nbest": nbest, "int8": int8 or None}
    translator = load_translator([model, *(ensemble or [])], settings, **given)
    printed = 0
    say_if_stopped(lambda: _account(printed, align))
    lines = _announce_long(_lines(file))
    with _progress(translator, file) as translator:
        groups = translator.stream_groups(lines, copying=as_json, assignments=as_json)
        for number, translation in enumerate(write_links(align, translator, groups)):
            if as_json:
                _print_record(translation)
            elif translator.decode.nbest > 1:
                for each in (translation, *translation.alternatives):
                    print(f"{number} ||| {each.text} ||| {each.score:.4f}", flush=True)
            else:
                print(translation.text, flush=True)
            printed = number + 1


def _print_record(translation: "Translation") -> None:
    from untold.explain.page import translation_record

    print(json.dumps(translation_record(translation), ensure_ascii=False), flush=True)


@contextmanager
def _progress(translator: "Translator", file: Path | None) -> "Iterator[Translator]":
    """Shows progress where the number of lines is known and no line disturbs it."""
    total = None if active_display() is None or _is_terminal() else _count(file)
    if total is None:
        yield translator
        return
    with task("translating", total) as begun:
        yield translator.with_progress(begun.advance)


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _count(file: Path | None) -> int | None:
    """Counts the lines to come; None if they can be read only once."""
    from untold.corpus.text import count_lines, count_lines_ahead

    if file is not None:
        return count_lines(file) if file.is_file() else None
    with suppress(OSError, ValueError, AttributeError):  # closed, or a stream in memory
        return count_lines_ahead(sys.stdin.fileno())
    return None


def _lines(file: Path | None) -> Iterator[str]:
    from untold.corpus.text import read_descriptor, read_lines, split_lines

    if file is not None:
        return read_lines(file)
    if sys.stdin is None:
        raise UntoldError("standard input is closed: name a file to translate")
    try:
        stream: Iterable[bytes] = read_descriptor(sys.stdin.fileno())
    except io.UnsupportedOperation:  # a stream in memory, where nothing ever waits
        stream = sys.stdin.buffer
    return split_lines(stream, "standard input")


def _account(printed: int, links: Path | None) -> str:
    if not printed:
        return "nothing was translated yet"
    done = f"lines printed: {printed:,}" + (f", with their links in {links}" if links else "")
    return f"{done}; to go on, give it the text from line {printed + 1:,} on"


def _announce_long(lines: Iterator[str]) -> Iterator[str]:
    """Says which lines will take long, because nothing comes out before a line is done."""
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONG and sys.stderr is not None:
            print(
                f"untold: line {number} has {len(line):,} characters: it is translated in "
                "segments, and takes as long as a text of this length",
                file=sys.stderr,
            )
        yield line
