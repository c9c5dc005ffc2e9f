"""Imports packages that only some exports need, and says which extra brings them."""

import importlib
from typing import Any

from untold.errors import UntoldError

__all__ = ["import_optional"]


def import_optional(name: str, extra: str) -> Any:
    """Returns a module; says how to install it if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise UntoldError(f"this export needs {package}: pip install 'untold[{extra}]'") from None
