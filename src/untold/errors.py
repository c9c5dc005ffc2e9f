"""Defines the exception that untold raises for every mistake that a user can mend."""

__all__ = ["UntoldError"]


class UntoldError(Exception):
    """Tells a user in one line which value is wrong, what the limit is and how to cure it.

    The command line prints the message and exits with code 2.
    """
