"""Past and future layers in the terminal, a line for each target piece."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from untold.introspection.pfrnn_explanation import LayerExplanation
from untold.introspection.pfrnn_states import LayerTrace

__all__ = ["print_layers"]

_SAME, _OTHER = "=", "≠"
_STYLES = {_SAME: "blue", _OTHER: "bold yellow"}


def print_layers(explanations: Sequence[LayerExplanation], console: Console | None = None) -> None:
    """For each: both texts, what the layers took each piece for, and how long their states are."""
    console = console or Console(highlight=False)
    console.print(_legend())
    for explanation in explanations:
        console.print()
        console.print(Text(explanation.source.text, style="bold"))
        console.print(Text(f"→ {explanation.target.text}  ({explanation.score:.3f})"))
        console.print(_table(explanation.layers))
        console.print(_summary(explanation.layers))
        if explanation.copies:
            console.print(_copies(explanation))


def _legend() -> Text:
    same = Text(f"{_SAME} the piece itself", _STYLES[_SAME])
    return Text("   ").join([same, Text(f"{_OTHER} another one", _STYLES[_OTHER])])


def _table(layers: LayerTrace) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("after", "added to past", "taken from future"):
        table.add_column(name, overflow="fold")
    for name in ("|past|", "|future|"):
        table.add_column(name, justify="right")
    norms = layers.norms()
    rows = zip(
        layers.pieces, layers.added, layers.taken, norms["past"], norms["future"], strict=True
    )
    for piece, added, taken, past, future in rows:
        guesses = (_guess(each, piece) for each in (added, taken))
        table.add_row(Text(piece), *guesses, f"{past:.2f}", f"{future:.2f}")
    return table


def _guess(guess: str, piece: str) -> Text:
    sign = _SAME if guess == piece else _OTHER
    return Text(f"{sign}{guess}", _STYLES[sign])


def _copies(explanation: LayerExplanation) -> Text:
    source, target = explanation.source.words, explanation.target.words
    pairs = (f"{target[copy.target]} ❐{source[copy.source]}" for copy in explanation.copies)
    return Text(f"copied (❐ from): {', '.join(pairs)}", "green")


def _summary(layers: LayerTrace) -> Text:
    counts = {
        name: sum(guess == piece for guess, piece in zip(guesses, layers.pieces, strict=True))
        for name, guesses in (("past", layers.added), ("future", layers.taken))
    }
    said = ", ".join(f"{name} {count} of {len(layers.pieces)}" for name, count in counts.items())
    return Text(f"the piece itself: {said}", "dim")
