"""Explanations of a PFRNN in the terminal, a line for each target piece."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from untold.introspection.pfrnn_explanation import PfrnnExplanation
from untold.introspection.pfrnn_states import PfrnnStates

__all__ = ["pfrnn_table"]

_SAME, _OTHER = "=", "≠"
_STYLES = {_SAME: "blue", _OTHER: "bold yellow"}


def pfrnn_table(explanations: Sequence[PfrnnExplanation]) -> list[RenderableType]:
    """Shows both texts, the pieces that the layers predict, and the norms of their states."""
    parts: list[RenderableType] = [_legend()]
    for explanation in explanations:
        source = Text(explanation.source.text, style="bold")
        target = Text(f"→ {explanation.target.text}  ({explanation.score:.3f})")
        parts += ["", source, target, _table(explanation.pfrnn), _summary(explanation.pfrnn)]
        if explanation.copies:
            parts.append(_copies(explanation))
    return parts


def _legend() -> Text:
    same = Text(f"{_SAME} the piece itself", _STYLES[_SAME])
    return Text("   ").join([same, Text(f"{_OTHER} another one", _STYLES[_OTHER])])


def _table(states: PfrnnStates) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("after", "added to past", "taken from future"):
        table.add_column(name, overflow="fold")
    for name in ("|past|", "|future|"):
        table.add_column(name, justify="right")
    norms = states.norms()
    rows = zip(
        states.pieces, states.added, states.taken, norms["past"], norms["future"], strict=True
    )
    for piece, added, taken, past, future in rows:
        guesses = (_guess(each, piece) for each in (added, taken))
        table.add_row(Text(piece), *guesses, f"{past:.2f}", f"{future:.2f}")
    return table


def _guess(guess: str, piece: str) -> Text:
    sign = _SAME if guess == piece else _OTHER
    return Text(f"{sign}{guess}", _STYLES[sign])


def _copies(explanation: PfrnnExplanation) -> Text:
    source, target = explanation.source.words, explanation.target.words
    pairs = (f"{target[copy.target]} ❐{source[copy.source]}" for copy in explanation.copies)
    return Text(f"copied (❐ from): {', '.join(pairs)}", "green")


def _summary(states: PfrnnStates) -> Text:
    counts = {
        name: sum(guess == piece for guess, piece in zip(guesses, states.pieces, strict=True))
        for name, guesses in (("past", states.added), ("future", states.taken))
    }
    said = ", ".join(f"{name} {count} of {len(states.pieces)}" for name, count in counts.items())
    return Text(f"the piece itself: {said}", "dim")
