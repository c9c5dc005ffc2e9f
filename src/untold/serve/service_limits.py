"""The limits of the service, and their defaults: beyond each of them a request is refused."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from untold.errors import UntoldError, shorten

_MOST = 10**9


@dataclass(frozen=True)
class ServiceLimits:
    """Says how much one request may ask for, and how much all of them together may hold."""

    characters: int = 2000  # of a text to translate
    pair_characters: int = 1000  # of each side of a pair: its cost grows with their product
    texts: int = 64  # of one request; also pairs
    beam: int = 16
    nbest: int = 16
    file_bytes: int = 4 << 20  # of a file to check
    segments: int = 5000  # of a file to check
    queue: int = 128  # requests that wait
    streams: int = 32  # that run at a time; more of them wait
    connections: int = 512
    seconds: float = 60.0  # for the answer to one request, from its last byte on
    read_seconds: float = 10.0  # for the head of a request, and again for its body
    drain_seconds: float = 20.0  # for the requests that run when the server is told to stop
    batch_texts: int = 64  # texts of several requests that are translated together
    batch_characters: int = 8000  # and how long they are together

    @property
    def body_bytes(self) -> int:
        """Leaves room for the largest request that the other limits allow, as JSON may write it."""
        longest = max(self.characters, self.pair_characters)
        pairs = self.texts * 2 * 6 * longest  # \u00e9 is six bytes
        return max(pairs, self.file_bytes * 4 // 3) + (64 << 10)


def read_limits(given: Sequence[str]) -> ServiceLimits:
    """Reads limits such as characters=5000; the others keep their defaults."""
    limits = ServiceLimits()
    known = {each.name: type(getattr(limits, each.name)) for each in fields(limits)}
    for each in given:
        name, _, text = each.partition("=")
        if name not in known:
            names = ", ".join(known)
            raise UntoldError(f"--limit {shorten(each)}: unknown limit; known: {names}")
        try:
            number = known[name](text)
        except ValueError:
            number = 0
        least = 1 if known[name] is int else 0.01
        if not least <= number <= _MOST:
            kind = "a whole number" if known[name] is int else "a number of seconds"
            bounds = f"from {least:g} to {_MOST:,}"
            raise UntoldError(f"--limit {shorten(each)}: must be {kind} {bounds}")
        limits = replace(limits, **{name: number})
    return limits
