"""Imports of extras: the package when it is needed, or an error that names the extra."""

import importlib
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from untold.errors import UntoldError

_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")  # how Rust cites errno


def import_transformers(module: str = "") -> Any:
    """Returns transformers, or one of its modules; says how to install it if it is missing."""
    # Set before the first import: it would draw bars of its own while it reads weights.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        importlib.import_module("tokenizers")  # without it transformers is there, but no models
        return importlib.import_module(f"transformers.{module}" if module else "transformers")
    except ImportError:
        raise UntoldError(
            "a Hugging Face model needs transformers: pip install 'untold[hf]'"
        ) from None


@contextmanager
def system_errors(place: Path) -> Iterator[None]:
    """Turns a full disk into an OSError, as it is elsewhere; Rust gives it as plain text."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if match := _SYSTEM_ERROR.search(str(error)):
            number = int(match[1])
            raise OSError(number, os.strerror(number), str(place)) from error
        raise


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers from bars and remarks of its own while it reads or writes a folder."""
    logging = import_transformers("utils.logging")
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends packages that nothing here uses
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def import_optional(name: str, extra: str) -> Any:
    """Returns a module; says how to install it if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise UntoldError(f"this export needs {package}: pip install 'untold[{extra}]'") from None
