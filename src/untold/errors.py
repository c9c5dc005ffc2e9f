"""The one exception that reaches a user: what was wrong, where, and what cures it."""

__all__ = ["UntoldError"]


class UntoldError(Exception):
    """One clear line for a person: the value, the limit and the cure. The CLI prints it, exit 2."""
