"""The special ids of a vocabulary: padding, unknown, beginning and end. Text never becomes one."""

from dataclasses import dataclass
from functools import cached_property

__all__ = ["SENTENCEPIECE_IDS", "SpecialIds"]


@dataclass(frozen=True)
class SpecialIds:
    """Lists the ids of one vocabulary that stand for no text."""

    pad: int
    unk: int
    bos: int
    eos: int
    never_generated: tuple[int, ...] = ()  # further ids that no translation holds: language codes

    @cached_property
    def forbidden(self) -> tuple[int, ...]:
        """Lists the ids that a search never generates; it generates EOS to end a translation."""
        return (self.pad, self.unk, self.bos, *self.never_generated)

    @property
    def control(self) -> frozenset[int]:
        """Holds the ids that given text may not contain."""
        return frozenset((self.pad, self.bos, self.eos, *self.never_generated))


SENTENCEPIECE_IDS = SpecialIds(pad=0, unk=1, bos=2, eos=3)  # of every vocabulary that untold trains
