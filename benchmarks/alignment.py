"""Alignment error rates on gold links: of a model, read in several ways, and of a saved aligner.

    python benchmarks/alignment.py runs/mine --source dev.en --target dev.de --gold dev.align

A model that separates past and future links words by itself, in three ways. Beside them stand its
cross-attention (each target word is linked to the source word that it attends to most; the mean of
all heads and layers, as `untold.load(...).score(..., attention=True)` gives it) and an aligner that
`untold align --save` trained. All read the same pairs; words stand between blanks.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from untold import load
from untold.alignment.aligners import load_aligner, split_pairs
from untold.alignment.model_links import WAYS, align_pairs
from untold.checking.evidence import merge_copying
from untold.corpus.alignments import (
    Alignment,
    alignment_error_rate,
    check_alignments,
    read_alignments,
)
from untold.corpus.text import read_parallel
from untold.corpus.words import word_spans
from untold.translator import Translation, Translator


def attention_links(scored: Translation) -> Alignment:
    """Links each target word to the source word with most of its attention."""
    source, target = word_spans(scored.source_tokens), word_spans(scored.tokens)
    if scored.attention is None or not source:
        return Alignment(frozenset(), frozenset())
    weights = merge_copying(scored.attention, target, source)[:-1]  # without the end's
    links = frozenset((int(row.argmax()), t) for t, row in enumerate(weights))
    return Alignment(links, links)


def model_links(
    translator: Translator, pairs: Sequence[tuple[str, str]]
) -> dict[str, list[Alignment]]:
    """Links the pairs in every way that the model allows."""
    found = {}
    if translator.separates:
        found = {way: align_pairs(translator.models[0], pairs, way) for way in WAYS}
    scored = translator.score(pairs, attention=True)
    return found | {"cross-attention": [attention_links(each) for each in scored]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    for name in ("source", "target", "gold"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--aligner", type=Path)
    given = parser.parse_args()
    texts, gold = read_parallel(given.source, given.target), read_alignments(given.gold)
    pairs = list(zip(*texts, strict=True))
    check_alignments(given.gold, gold, [(s.split(), t.split()) for s, t in pairs])
    found = model_links(load(given.model), pairs)
    if given.aligner:
        aligner = load_aligner(given.aligner)
        found[f"aligner ({aligner.config.kind})"] = aligner.align(
            split_pairs(aligner.config, *texts)
        )
    print(f"{len(pairs)} pairs")
    for way, links in found.items():
        count, error = sum(len(each.sure) for each in links), alignment_error_rate(links, gold)
        print(f"{way:20} AER {'-' if error is None else f'{error:.3f}'}  links {count}")


if __name__ == "__main__":
    main()
