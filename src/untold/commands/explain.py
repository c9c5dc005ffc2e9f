"""`untold explain`: what a model can tell of how its translations came about."""

from collections.abc import Sequence
from pathlib import Path

from untold.introspection.explanation import explain
from untold.introspection.pfrnn_explanation import explain_layers, has_layers_alone
from untold.report.pfrnn_table import print_layers
from untold.report.pictures import check_layer_format, write_explanations, write_layers
from untold.report.terminal import print_explanations
from untold.translator import Translator

__all__ = ["run_explain"]


def run_explain(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], out: Path | None
) -> None:
    """Shares of past and future, or the states of past and future layers where there are no shares.

    To a file, whose suffix is checked before anything is translated, or to the terminal.
    """
    if has_layers_alone(translator):
        _explain_layers(translator, sources, targets, out)
        return
    explanations = explain(translator, sources, targets)
    if out is None:
        print_explanations(explanations)
    else:
        write_explanations(out, explanations)
        _print_written(out, len(explanations))


def _explain_layers(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], out: Path | None
) -> None:
    if out is not None:
        check_layer_format(out)
    explanations = explain_layers(translator, sources, targets)
    if out is None:
        print_layers(explanations)
    else:
        write_layers(out, explanations)
        _print_written(out, len(explanations))


def _print_written(out: Path, sentences: int) -> None:
    print(f"{out}: sentences: {sentences}")
