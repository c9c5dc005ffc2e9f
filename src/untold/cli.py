"""The command line: registers the commands of commands/ and turns errors into exit codes."""

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from untold.commands.listing import COMMANDS, FORMER_COMMANDS
from untold.commands.options import refuse_idle_options
from untold.errors import MISTAKE, escape_controls, explain_failure, one_line
from untold.hardware import ask_for_large_pages, choose_threads
from untold.interruption import stop_on_signals
from untold.progress_bar import show_on
from untold.standard_streams import decode_argument, safe_streams
from untold.version import __version__

# Any mistake in a command line; typer has no public name for it, and has moved it before.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
if TYPE_CHECKING:
    from typer import Context as _Context
else:  # the class of the contexts that typer really makes, and tests check the types of arguments
    _Context = typer.Context.__mro__[1]


class _ReaderGoneError(Exception):
    """Nobody reads standard output any more."""


class _Commands(TyperGroup):
    """Keeps a broken pipe from typer, which would end with exit code 1."""

    context_class = typer.Context  # what `options` asks for

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGoneError from None


class _Command(TyperCommand):
    """Refuses options that would do nothing, whatever the command."""

    def invoke(self, ctx: Any) -> Any:
        refuse_idle_options(ctx)
        return super().invoke(ctx)


def _with_decoded_texts(command: Callable[..., None]) -> Callable[..., None]:
    """Lets a command get its texts as UTF-8; paths stay the bytes that they are."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(**{name: _decode(value) for name, value in given.items()})

    return run


def _decode(given: Any) -> Any:
    if isinstance(given, list):
        return [_decode(each) for each in given]
    return decode_argument(given) if isinstance(given, str) else given


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _command in COMMANDS:
    app.command(cls=_Command)(_with_decoded_texts(_command))
for _name, _command in FORMER_COMMANDS.items():
    app.command(
        _name,
        cls=_Command,
        hidden=True,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(_command)


@app.callback()
def options(
    context: _Context,
    progress: Annotated[
        Literal["auto", "plain", "none"],
        typer.Option(
            envvar="UNTOLD_PROGRESS",
            help="Bars if standard error is a terminal, lines for a log, or no progress at all.",
        ),
    ] = "auto",
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Neural machine translation that knows what it has said and what is still untold."""
    if version:
        print(f"untold {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        return
    context.with_resource(_display(progress))


def _display(progress: Literal["auto", "plain", "none"]) -> AbstractContextManager[None]:
    """Chooses the display; rich is not imported for one that nobody would see."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if progress == "none" or (progress == "auto" and not is_terminal):
        return show_on(None)
    from untold.progress_bar import show

    return show(progress)


def main() -> None:
    """Run the command line; whatever goes wrong is one line on standard error and an exit code."""
    choose_threads()
    ask_for_large_pages()
    with safe_streams():
        _run()


def _run() -> NoReturn:
    try:
        with stop_on_signals():
            try:
                # In its standalone mode typer would print four lines for an error.
                code = app(prog_name="untold", standalone_mode=False)
            finally:
                if sys.stdout is not None:  # None: it was closed before we started
                    sys.stdout.flush()  # here, where a full disk can still be reported
    except (BrokenPipeError, _ReaderGoneError):
        _silence_stdout()
        sys.exit(141)  # the shell reports 141 for a process that SIGPIPE ended
    except _UsageError as error:
        _end(_explain_usage(error), MISTAKE)
    except Exception as error:
        failure = explain_failure(error)
        _silence_stdout()
        _end(failure.line, failure.code, failure.details)
    sys.exit(code if isinstance(code, int) else 0)


def _explain_usage(error: Any) -> str:
    """Words a mistake in the command line: what is wrong, and where its options are listed."""
    place = error.ctx.command_path if error.ctx is not None else "untold"
    message = error.format_message().removesuffix(".").replace("Value error, ", "")
    return f"{message[:1].lower()}{message[1:]}: see {place} --help"


def _end(line: str, code: int, details: str = "") -> NoReturn:
    """Prints the last line to standard error, if that is open, and ends with the exit code."""
    below = escape_controls(details, keep="\n")
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None:
            print(f"untold: {one_line(line)}\n{below}", end="", file=sys.stderr, flush=True)
    sys.exit(code)


def _silence_stdout() -> None:
    """Sends what is left in the buffer nowhere, so that it fails no second time at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
