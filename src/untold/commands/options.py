"""Options that several commands share, and loading a translator with them."""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from untold.errors import UntoldError, shorten
from untold.interruption import say_if_stopped
from untold.progress_bar import task

if TYPE_CHECKING:
    from untold.storage.model_directory import TrainedModel
    from untold.translator import Translator


Number = TypeVar("Number", int, float)
LARGEST_SEED = 2**63 - 1  # that of untold.config, which is slow to import

Model = Annotated[Path, typer.Argument(help="A model directory, a training run, or hf:PATH.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, such as decode.beam=8."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class NoEffect:
    """Parameters of a command that do nothing beside another one of it."""

    command: str
    beside: str
    idle: tuple[str, ...]
    reason: str


_TRAINING = ("train_source", "train_target", "save", "kind", "source_words", "target_words")
_SCORING = ("metrics", "tokenize", "lowercase", "out")
NO_EFFECT = (
    NoEffect("evaluate", "alignments", (*_SCORING, "aligner"), "which scores nothing"),
    NoEffect("evaluate", "as_json", ("markdown",), "which prints another format"),
    NoEffect(
        "align",
        "aligner",
        _TRAINING,
        "which is trained already and remembers what a word is",
    ),
    NoEffect("align", "model", ("aligner", *_TRAINING), "which links words itself"),
    *(
        NoEffect(
            "check",
            side,
            ("files", "columns", "source_language", "target_language"),
            "which reads plain text",
        )
        for side in ("source", "target")
    ),
    NoEffect("check", "quiet", ("as_json",), "which prints no findings"),
    NoEffect("clean", "table", ("source", "target", "out_source", "out_target"), "which has both"),
    NoEffect("clean", "source", ("columns", "out"), "which is plain text"),
    NoEffect(
        "sheet",
        "aggregate",
        ("source", "system", "reference", "number", "out"),
        "which writes no sheet",
    ),
    NoEffect("sheet", "source", ("files", "as_json"), "which writes a sheet"),
)


def refuse_idle_options(context: Any) -> None:
    """Refuses options that were given beside one that leaves them without effect."""
    options = {each.name: each for each in context.command.params}
    given = {
        name
        for name in options
        if getattr(context.get_parameter_source(name), "name", None) == "COMMANDLINE"
    }
    for rule in NO_EFFECT:
        if rule.command == context.command.name and rule.beside in given:
            for name in sorted(given.intersection(rule.idle)):
                option, other = options[name].opts[0], options[rule.beside].opts[0]
                raise UntoldError(
                    f"{option} has no effect beside {other}, {rule.reason}: leave out one of them"
                )


def refuse_options_of_other_metrics(names: Sequence[str], **given: object) -> None:
    """Refuses options of metrics that none of the named metrics looks at."""
    from untold.registry import METRICS

    for option, value in given.items():
        if value and all(option in getattr(METRICS[name], "ignores", ()) for name in names):
            raise UntoldError(f"--{option} has no effect on {', '.join(names)}: leave it out")


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


def print_notice(line: str) -> None:
    """Prints a line to standard error, so that it does not mix with results."""
    print(line, file=sys.stderr, flush=True)


def identify_file(path: Path) -> tuple[int, int] | None:
    """Tells a new file of this name from the one before it."""
    with suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_mtime_ns
    return None


def load_trained(path: Path) -> "TrainedModel":
    """Loads one model as it was trained."""
    from untold.storage.model_directory import load_model

    with task(f"loading {path}"):
        return load_model(path)


def load_translator(
    paths: Path | list[Path],
    settings: Iterable[str] | None,
    used: Collection[str] | None = None,
    **flags: int | None,
) -> "Translator":
    """Loads one or more models; --set and the given flags change their settings of decoding.

    `used` are the settings that a command looks at, by default all; it refuses to change others.
    """
    from untold.translator import load

    model_changes, changes = _divide_changes(settings or ())
    given = {name: value for name, value in flags.items() if value is not None}
    for name in given.keys() & changes.keys():
        raise UntoldError(f"--{name} and --set decode.{name} name the same setting: give one")
    shown = paths if isinstance(paths, list) else [paths]
    with task(f"loading {', '.join(map(str, shown))}"):
        translator = load(paths, settings=model_changes)
    changes |= given
    if unused := [name for name in changes if used is not None and name not in used]:
        others = ", ".join(f"decode.{other}" for other in used or ())
        raise UntoldError(f"--set decode.{unused[0]} has no effect here; what has one: {others}")
    if given.get("nbest", 1) > translator.decode.beam and "beam" not in changes:
        changes["beam"] = given["nbest"]  # an n-best list needs a beam of at least its size
    return translator.with_decoding(**changes)


def decode_changes(settings: Iterable[str]) -> dict[str, Any]:
    """Parses the values of --set; only settings of [decode] can change without training."""
    model, changes = _divide_changes(settings)
    if model:
        raise UntoldError("--set model: only decode settings can change here")
    return changes


def _divide_changes(settings: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parses the values of --set: those of [model], which a Hugging Face folder leaves open, too.

    Whoever loads the model refuses the others.
    """
    from untold.config import override

    changes = override({"decode": {}, "model": {}}, settings)
    if extra := changes.keys() - {"decode", "model"}:
        raise UntoldError(f"--set {shorten(min(extra))}: only decode settings can change here")
    return changes["model"], changes["decode"]
