"""The command line: registers the commands of commands/ and turns errors into exit codes."""

import contextlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from untold.commands.align import align
from untold.commands.average import average
from untold.commands.compare import compare
from untold.commands.config import config
from untold.commands.demo import demo
from untold.commands.evaluate import evaluate
from untold.commands.explain import explain
from untold.commands.info import info
from untold.commands.sample import sample
from untold.commands.score import score
from untold.commands.train import train
from untold.commands.translate import translate
from untold.failures import explain_failure
from untold.threads import choose_at_startup
from untold.version import __version__

__all__ = ["app", "main", "options"]


class _ReaderGoneError(Exception):
    """Nobody reads standard output any more."""


class _Commands(TyperGroup):
    """Keeps a broken pipe from typer, which would end with exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGoneError from None


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _command in (
    *(train, translate, score, evaluate, align, compare),
    *(explain, average, info, sample, demo, config),
):
    app.command()(_command)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Neural machine translation that knows what it has said and what is still untold."""
    if version:
        print(f"untold {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; whatever goes wrong is one line on standard error and an exit code."""
    choose_at_startup()
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # None: it was closed before we started
                sys.stdout.flush()  # here, where a full disk can still be reported
    except (BrokenPipeError, _ReaderGoneError):
        _silence_stdout()
        sys.exit(141)  # the shell reports 141 for a process that SIGPIPE ended
    except Exception as error:
        failure = explain_failure(error)
        _silence_stdout()
        print(f"untold: {failure.line}", file=sys.stderr)
        sys.exit(failure.code)


def _silence_stdout() -> None:
    """Sends what is left in the buffer nowhere, so that it fails no second time at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
