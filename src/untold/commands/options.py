"""What `--set` may change where nothing is trained."""

from collections.abc import Iterable
from typing import Any

from untold.config import override
from untold.errors import UntoldError

__all__ = ["decode_changes"]


def decode_changes(settings: Iterable[str]) -> dict[str, Any]:
    """Settings of [decode] by name; any other section is an error."""
    changes = override({"decode": {}}, settings)
    if extra := changes.keys() - {"decode"}:
        raise UntoldError(f"--set {extra.pop()}: only decode settings can change here")
    return changes["decode"]
