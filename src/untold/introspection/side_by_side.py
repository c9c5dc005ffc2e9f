"""Puts beside an explanation what another system makes of the sentence, or links by people."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from untold.corpus.alignments import check_alignments, read_alignments
from untold.errors import UntoldError, shorten
from untold.introspection.explanation import Explanation
from untold.introspection.share_explanation import ShareExplanation

__all__ = ["beside_another", "with_gold_links"]


def beside_another(
    explanations: Sequence[Explanation], others: Sequence[Explanation], names: tuple[str, str]
) -> list[ShareExplanation]:
    """Pairs the explanations of two systems, which have these names, sentence by sentence."""
    found = []
    for one, other in zip(explanations, others, strict=True):
        if not isinstance(one, ShareExplanation) or not isinstance(other, ShareExplanation):
            raise UntoldError(
                "two systems stand side by side only if both separate past and future: "
                'train them with model.separator.kind = "gdr"'
            )
        beside = replace(other, system=names[1])
        found.append(replace(one, system=names[0], against=beside))
    return found


def with_gold_links(explanations: Sequence[Explanation], path: Path) -> list[ShareExplanation]:
    """Adds the links of a file in Pharaoh format, a line for each sentence, to explanations.

    Links count words between blanks, so texts that are shown in other words are refused.
    """
    found = [each for each in explanations if isinstance(each, ShareExplanation)]
    if len(found) < len(explanations):
        raise UntoldError(
            f"{path}: links are shown beside past and future, which this model does not separate: "
            "leave out --alignments"
        )
    for each in found:
        for side in (each.source, each.target):
            if list(side.words) != side.text.split():
                raise UntoldError(
                    f"{path}: {shorten(side.text)!r} is shown as {len(side.words)} words, but "
                    f"links count its {len(side.text.split())} words between blanks: write "
                    "blanks between its words, or leave out --alignments"
                )
    gold = read_alignments(path)
    check_alignments(path, gold, [(each.source.words, each.target.words) for each in found])
    return [replace(each, gold=links) for each, links in zip(found, gold, strict=True)]
