"""Options that several commands share, and loading a translator with them."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from untold.errors import UntoldError, shorten
from untold.feedback import task
from untold.stopping import say_if_stopped

if TYPE_CHECKING:
    from untold.translator import Translator

__all__ = [
    "LARGEST_SEED",
    "AsJson",
    "Model",
    "Settings",
    "check_output",
    "decode_changes",
    "identify_file",
    "load_translator",
    "number_option",
    "say_outputs_if_stopped",
]

Number = TypeVar("Number", int, float)
LARGEST_SEED = 2**63 - 1  # that of untold.config, which is slow to import

Model = Annotated[Path, typer.Argument(help="A model directory or a training run.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, such as decode.beam=8."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def number_option(least: Number, most: Number, meaning: str) -> Any:
    """Makes an option that is a number within limits; a whole one if the limits are."""
    is_whole = isinstance(least, int)
    return typer.Option(
        parser=_number_parser(int if is_whole else float, least, most),
        metavar="INTEGER" if is_whole else "NUMBER",
        help=meaning,
    )


def _number_parser(
    kind: type[Number], least: Number, most: Number
) -> Callable[[str | Number], Number]:
    def parse(text: str | Number) -> Number:  # a default comes as the number that it is
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not least <= number <= most:  # also refuses NaN
            what = "a whole number" if kind is int else "a number"
            raise typer.BadParameter(
                f"{shorten(str(text))}: must be {what} from {least:,} to {most:,}"
            )
        return number

    return parse


def check_output(path: Path | None) -> None:
    """Refuses a file that cannot be written, before hours of work are spent on it."""
    if path is None:
        return
    if path.is_dir():
        raise UntoldError(f"{path}: is a directory: name a file")
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UntoldError(f"{path}: there is no directory {parent}: create it first")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise UntoldError(f"{path}: may not be written to: choose another place")


def say_outputs_if_stopped(*paths: Path | None) -> None:
    """Lets the last line of a command that a signal stops say which outputs are written."""
    before = {path: identify_file(path) for path in paths if path is not None}

    def account() -> str:
        written = [path for path, known in before.items() if identify_file(path) != known]
        missing = [path for path in before if path not in written]
        parts = [f"{path} is written and whole" for path in written]
        parts += [f"{path} was not written" for path in missing]
        if missing or not before:
            parts.append("run the same command again")
        return "; ".join(parts if before else ["nothing was written", *parts])

    say_if_stopped(account)


def identify_file(path: Path) -> tuple[int, int] | None:
    """Tells a new file of this name from the one before it."""
    with suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_mtime_ns
    return None


def load_translator(
    paths: Path | list[Path], settings: Iterable[str] | None, **flags: int | None
) -> "Translator":
    """Loads one or more models; --set and the given flags change their settings of decoding."""
    from untold.translator import load

    changes = decode_changes(settings or ())
    given = {name: value for name, value in flags.items() if value is not None}
    for name in given.keys() & changes.keys():
        raise UntoldError(f"--{name} and --set decode.{name} name the same setting: give one")
    shown = paths if isinstance(paths, list) else [paths]
    with task(f"loading {', '.join(map(str, shown))}"):
        translator = load(paths)
    changes |= given
    if given.get("nbest", 1) > translator.decode.beam and "beam" not in changes:
        changes["beam"] = given["nbest"]  # an n-best list needs a beam of at least its size
    return translator.with_decoding(**changes)


def decode_changes(settings: Iterable[str]) -> dict[str, Any]:
    """Parses the values of --set; only settings of [decode] can change without training."""
    from untold.config import override

    changes = override({"decode": {}}, settings)
    if extra := changes.keys() - {"decode"}:
        raise UntoldError(f"--set {shorten(min(extra))}: only decode settings can change here")
    return changes["decode"]
