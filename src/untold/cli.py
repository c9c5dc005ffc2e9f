"""The command line: registers the commands of commands/ and turns errors into exit codes."""

import os
import sys

import typer

from untold.commands.align import align
from untold.commands.average import average
from untold.commands.compare import compare
from untold.commands.demo import demo
from untold.commands.evaluate import evaluate
from untold.commands.explain import explain
from untold.commands.info import info
from untold.commands.sample import sample
from untold.commands.score import score
from untold.commands.train import train
from untold.commands.translate import translate
from untold.errors import UntoldError
from untold.threads import choose_at_startup

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Neural machine translation that knows what it has said and what is still untold.",
)
for _command in (
    *(train, translate, score, evaluate, align, compare),
    *(explain, average, info, sample, demo),
):
    app.command()(_command)


def main() -> None:
    """Run the command line; a mistake of the user is one line and exit code 2."""
    choose_at_startup()
    try:
        app()
    except UntoldError as error:
        print(f"untold: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # the shell reports 141 for a process that SIGPIPE ended
