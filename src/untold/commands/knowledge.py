"""`untold evaluate` without translating: what a model takes for told and untold, and the truth."""

import json
from dataclasses import asdict
from pathlib import Path

from untold.corpus.alignments import read_alignments
from untold.errors import UntoldError
from untold.evaluation.bow_overlap import measure_overlap
from untold.evaluation.separation_report import AlignedPair, separation_report
from untold.translator import Translator

__all__ = ["overlap_of", "separation_of"]

Texts = tuple[list[str], list[str]]


def separation_of(translator: Translator, texts: Texts, alignments: Path, *, as_json: bool) -> str:
    """Past, future and redundant against word alignments, for people or for programs."""
    links = read_alignments(alignments)
    if len(links) != len(texts[0]):
        raise UntoldError(
            f"{alignments} has {len(links)} lines for {len(texts[0])} sentence pairs: "
            "give one line of links for each pair"
        )
    pairs = [AlignedPair(*each) for each in zip(*texts, links, strict=True)]
    report = separation_report(translator, pairs)
    return json.dumps(asdict(report)) if as_json else "\n".join(report.lines())


def overlap_of(translator: Translator, texts: Texts, *, as_json: bool) -> str:
    """What the bags know, for people or for programs."""
    found = vars(measure_overlap(translator.models[0], list(zip(*texts, strict=True))))
    lines = (f"{name.replace('_', ' '):24}{value:.3f}" for name, value in found.items())
    return json.dumps(found) if as_json else "\n".join(lines)
