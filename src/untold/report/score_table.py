"""Words the scores of `untold evaluate` for a person: a line each, and a legend below them."""

from collections.abc import Iterable, Sequence

from untold.evaluation.metrics import Score

__all__ = ["legend_lines", "score_lines"]


def score_lines(scores: Sequence[Score], *, aligned: bool) -> list[str]:
    """Formats a line for each score; `aligned` makes columns, which a terminal shows best."""
    name = max((len(each.name) for each in scores), default=0) if aligned else 0
    value = 6 if aligned else 0
    details = max((len(each.details) for each in scores), default=0) if aligned else 0
    return [
        f"{each.name:<{name}} {each.value:>{value}.2f} {each.details:<{details}}"
        f"  [{each.signature}]"
        for each in scores
    ]


def legend_lines(meanings: Iterable[tuple[str, str]]) -> list[str]:
    """Formats a legend of names and what they mean; names with the same meaning share a line.

    "higher is better: words that fit" becomes "NAME (higher is better): words that fit". The lines
    are indented, so that a search for a name at the start of a line finds its figures.
    """
    rows: dict[str, list[str]] = {}
    for name, meaning in meanings:
        if meaning:
            rows.setdefault(meaning, []).append(name)
    lines = []
    for meaning, names in rows.items():
        better, colon, text = meaning.partition(": ")
        row = f"  {', '.join(names)}"
        lines.append(f"{row} ({better}): {text}" if colon else f"{row}: {meaning}")
    return ["", *lines] if lines else []
