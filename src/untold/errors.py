"""Defines the exception that untold raises for every mistake that a user can mend."""

__all__ = ["UntoldError", "shorten"]


class UntoldError(Exception):
    """Tells a user in one line which value is wrong, what the limit is and how to cure it.

    The command line prints the message and exits with code 2.
    """


def shorten(value: object, most: int = 60) -> str:
    """Returns a value as text that fits into a line of an error: printable and not too long."""
    text = str(value)
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in cut)
