"""Defines the exception for every mistake that a user can mend, and words that may be echoed."""

import re

__all__ = ["CONTROLS", "InUseError", "UntoldError", "escape_controls", "one_line", "shorten"]

# What a terminal obeys instead of showing it (C0, DEL, C1), what ends lines or turns the direction
# of writing in the middle of a text, and what has no UTF-8 or may not stand in XML.
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_LONGEST_LINE = 1000  # characters; only mistakes echo more


class UntoldError(Exception):
    """Tells a user in one line which value is wrong, what the limit is and how to cure it.

    The command line prints the message and exits with code 2.
    """


class InUseError(UntoldError):
    """Another process works in a directory."""


def escape_controls(text: str, keep: str = "") -> str:
    r"""Returns text that only shows: ESC becomes the four characters \x1b, and so on.

    Characters of `keep` stay as they are.
    """
    return CONTROLS.sub(lambda found: _escape(found[0], keep), text)


def shorten(value: object, most: int = 60) -> str:
    """Returns a value as text that fits into a line of an error: harmless and not too long."""
    text = str(value)
    return escape_controls(text if len(text) <= most else f"{text[: most - 1]}…")


def one_line(text: str, most: int = _LONGEST_LINE) -> str:
    """Returns harmless text of one line; one too long lacks its middle, for a cure ends it."""
    line = escape_controls(text.strip())
    if len(line) <= most:
        return line
    start = most * 2 // 3
    return f"{line[:start]} … {line[start + 3 - most :]}"


def _escape(sign: str, keep: str) -> str:
    return sign if sign in keep else repr(sign)[1:-1]
