"""Compares searches by how much of the source they leave untold: plain, penalties, tell_all.

    python benchmarks/tell_all.py MODEL --source F --reference F --alignments F \
        --search "" --search length_penalty=2 --search coverage_penalty=0.3 --search tell_all=0.5

A word is omitted if no word that it is linked to in the reference occurs in the translation. With
--aligner the aligner must agree, which real text needs because of synonyms. Choose strengths on a
validation set and compare on a test set.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import untold
from untold.alignment.aligners import load_aligner
from untold.corpus.text import read_lines
from untold.lab.omission_benchmark import natural_set
from untold.metrics.base import corpus_scores
from untold.metrics.separation import AlignedPair, read_aligned_pairs
from untold.translator import Translator


def main() -> None:
    """Prints one line for each search."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    for name in ("source", "reference", "alignments"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--aligner", type=Path)
    parser.add_argument("--search", action="append", default=[], help="name=value, name=value")
    parser.add_argument("--pairs", type=int, help="use only the first pairs")
    given = parser.parse_args()
    texts = [list(read_lines(path)) for path in (given.source, given.reference)]
    pairs = read_aligned_pairs(texts[0], texts[1], given.alignments)[: given.pairs]
    aligner = None if given.aligner is None else load_aligner(given.aligner)
    translator = untold.load(given.model)
    print(f"{'search':45}{'BLEU':>7}{'length':>8}{'omitted':>9}")
    for search in given.search or [""]:
        measured = measure(translator.with_decoding(**settings(search)), pairs, aligner)
        print(f"{search or 'plain':45}" + "{:7.2f}{:8.3f}{:9.4f}".format(*measured), flush=True)


def settings(text: str) -> dict[str, object]:
    """Reads name=value pairs; whole numbers stay whole only for the beam."""
    found: dict[str, object] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            sys.exit(f"--search {text}: write name=value")
        known = value.replace(".", "", 1).isdigit()
        found[name] = int(value) if name == "beam" else float(value) if known else value
    return found


def measure(translator: Translator, pairs: list[AlignedPair], aligner: object) -> tuple[float, ...]:
    """Returns BLEU, the ratio of lengths, and the share of source words that were omitted."""
    outputs = [each.text for each in translator.translate([pair.source for pair in pairs])]
    references = [pair.target for pair in pairs]
    (bleu,) = corpus_scores(outputs, references, ("bleu",), tokenize=translator.data.bleu_tokenize)
    cases = natural_set(pairs, outputs, aligner).cases  # type: ignore[arg-type]
    omitted = np.concatenate([case.omitted[case.counted] for case in cases])
    lengths = [sum(len(text.split()) for text in side) for side in (outputs, references)]
    return bleu.value, lengths[0] / lengths[1], float(omitted.mean())


if __name__ == "__main__":
    main()
