"""Tables, figures and notes: these are what an item of the paper's evidence comes to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

__all__ = ["Evidence", "EvidenceTable", "Picture", "number", "over_seeds"]


@dataclass(frozen=True)
class EvidenceTable:
    """A table of texts; the first column names the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """A figure that can be drawn as png or svg."""

    name: str
    title: str
    draw: Callable[[str], bytes]  # from "png" or "svg"


@dataclass(frozen=True)
class Evidence:
    """The tables and figures of one item, with notes: signatures, numbers of sentences, seeds."""

    name: str
    title: str
    claim: str  # what the paper says
    tables: Sequence[EvidenceTable]
    pictures: Sequence[Picture] = ()
    notes: Sequence[str] = ()
    figures: Mapping[str, object] = field(default_factory=dict)  # what was measured, for programs
    files: Mapping[str, bytes] = field(default_factory=dict)  # others, by their path in the report
    command: str = ""  # that makes it


def over_seeds(values: Sequence[float | None], places: int = 2) -> str:
    """Formats the mean of the seeds, with the standard deviation where there are several."""
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        return ""
    mean = number(fmean(known), places)
    return mean if len(known) == 1 else f"{mean} ± {number(stdev(known), places)}"


def number(value: float | None, digits: int = 2) -> str:
    """Formats a figure of a table; nothing where there is none."""
    return "" if value is None else f"{value:.{digits}f}"
