"""Does a model know what it has translated, and which search leaves least of the source untold?

    python benchmarks/quality.py
    python benchmarks/quality.py MODEL --source F --target F --alignments F --aligner DIR \\
        --search "" --search coverage_penalty=0.3 --search "beam=8, length_penalty=2"

Without options it reads the model that comes with the package on sentences of its grammar. The
first table says how well past and future are told apart on the given targets, beside a rule that
only counts words. The second has the error rates of the links that the model gives, in three ways;
beside them stand its cross-attention (each target word is linked to the source word that it attends
to most, in the mean of all heads and layers) and an aligner that `untold align --save` trained.

The third compares searches. A source word is omitted if no word that it is linked to in the
reference occurs in the translation; with --aligner the aligner must agree, which real text needs
because of synonyms. Choose strengths on a validation set and compare on a test set.
"""

import argparse
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import untold
from race import Table, write_json
from untold.alignment.aligners import Aligner, load_aligner, split_pairs
from untold.alignment.model_links import WAYS, align_pairs
from untold.corpus.alignments import Alignment, alignment_error_rate
from untold.corpus.text import read_parallel
from untold.corpus.words import merge_copying, words_between_spaces
from untold.embedded import embedded_model
from untold.lab.grammars.sampling import load_grammar
from untold.lab.omission_benchmark import natural_set
from untold.metrics.base import corpus_scores
from untold.metrics.separation import AlignedPair, read_aligned_pairs, separation_report
from untold.translator import Translation, Translator

SEED = 11  # of sentences that the embedded model was not trained on, but for short ones
FIGURES = ("auc", "accuracy", "accuracy_off_rule", "flips", "redundant_auc")
SEARCHES = [
    "",
    "length_penalty=2",
    "coverage_penalty=0.3",
    "coverage_penalty=0.3, coverage_source=past",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("model", type=Path, nargs="?", default=embedded_model())
    parser.add_argument("--source", type=Path, help="sentences, a line each; else the grammar's")
    parser.add_argument("--target", type=Path, help="their translations")
    parser.add_argument("--alignments", type=Path, help="links between their words, i-j")
    parser.add_argument("--aligner", type=Path, help="what `untold align --save` wrote")
    parser.add_argument("--search", action="append", default=[], help="name=value, name=value")
    parser.add_argument("--pairs", type=int, default=400, help="use only the first pairs")
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    options = parser.parse_args()
    pairs = read_pairs(options)
    aligner = load_aligner(options.aligner) if options.aligner else None
    translator = untold.load(options.model)
    tables = []
    if translator.separates:
        tables.append(separation_table(translator, pairs))
        print(tables[-1].text(), end="\n\n", flush=True)
    tables.append(link_table(translator, pairs, aligner))
    print(tables[-1].text(), end="\n\n", flush=True)
    tables.append(search_table(translator, pairs, aligner, options.search or SEARCHES))
    print(tables[-1].text())
    if options.json:
        write_json(options.json, [], vars(options), tables)


def read_pairs(options: argparse.Namespace) -> list[AlignedPair]:
    """Pairs with the links between their words, from files or from the grammar."""
    files = (options.source, options.target, options.alignments)
    if all(files):
        texts = read_parallel(options.source, options.target)
        return read_aligned_pairs(*texts, options.alignments)[: options.pairs]
    if any(files):
        sys.exit("--source, --target and --alignments belong together")
    samples = itertools.islice(load_grammar("en-de").stream(SEED), options.pairs)
    return [
        AlignedPair(
            " ".join(sample.source),
            " ".join(sample.target),
            Alignment(frozenset(sample.alignment), frozenset(sample.alignment)),
        )
        for sample in samples
    ]


def separation_table(translator: Translator, pairs: Sequence[AlignedPair]) -> Table:
    """The figures of `untold evaluate --alignments` that say most."""
    report = separation_report(translator, pairs)
    rows = [
        [name.replace("_", " "), getattr(report.model, name), getattr(report.rule, name)]
        for name in FIGURES
    ]
    rows.append(["omission word auc", report.omission_auc, "-"])
    title = f"Past, future and redundant on {len(pairs)} pairs"
    return Table(title, ["higher is better", "model", "rule"], rows)


def link_table(
    translator: Translator, pairs: Sequence[AlignedPair], aligner: Aligner | None
) -> Table:
    """The alignment error rate of every way to link words."""
    texts = [(pair.source, pair.target) for pair in pairs]
    links: dict[str, Sequence[Alignment]] = {}
    if translator.separates:
        links = {way: align_pairs(translator.models[0], texts, way) for way in WAYS}
    scored = translator.score(texts, attention=True)
    links["cross-attention"] = [attention_links(translation) for translation in scored]
    if aligner:
        sides = [list(side) for side in zip(*texts, strict=True)]
        links[f"aligner ({aligner.config.kind})"] = aligner.align(
            split_pairs(aligner.config, *sides)
        )
    gold = [pair.alignment for pair in pairs]
    rows = [
        [way, alignment_error_rate(own, gold), sum(len(pair.sure) for pair in own)]
        for way, own in links.items()
    ]
    return Table("Links between words, lower is better", ["way", "AER", "links"], rows)


def attention_links(scored: Translation) -> Alignment:
    """Links each target word to the source word with most of its attention."""
    source = words_between_spaces("", scored.source_tokens)
    target = words_between_spaces("", scored.tokens)
    if scored.attention is None or not source:
        return Alignment(frozenset(), frozenset())
    weights = merge_copying(scored.attention, target, source)[:-1]  # without the end's
    links = frozenset((int(row.argmax()), t) for t, row in enumerate(weights))
    return Alignment(links, links)


def search_table(
    translator: Translator,
    pairs: Sequence[AlignedPair],
    aligner: Aligner | None,
    searches: Sequence[str],
) -> Table:
    """BLEU, length and omitted words of every search."""
    rows = []
    references = [pair.target for pair in pairs]
    for text in searches:
        searching = translator.with_decoding(**search_settings(text))
        outputs = [best.text for best in searching.translate([pair.source for pair in pairs])]
        tokenize = translator.data.bleu_tokenize
        (bleu,) = corpus_scores(outputs, references, ("bleu",), tokenize=tokenize)
        cases = natural_set(pairs, outputs, aligner).cases
        omitted = np.concatenate([case.omitted[case.counted] for case in cases]).mean()
        lengths = [sum(len(line.split()) for line in side) for side in (outputs, references)]
        figures = f"{bleu.value:.2f}", f"{lengths[0] / lengths[1]:.3f}", f"{omitted:.4f}"
        rows.append([text or "as the model is set", *figures])
    columns = ["search", "BLEU", "length of the reference's", "source words omitted"]
    return Table("What searches leave out", columns, rows)


def search_settings(text: str) -> Mapping[str, float | str]:
    """Reads `name=value, name=value`; whole numbers stay whole only for the beam."""
    settings: dict[str, float | str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            sys.exit(f"--search {text}: write name=value")
        is_number = value.replace(".", "", 1).isdigit()
        settings[name] = int(value) if name == "beam" else float(value) if is_number else value
    return settings


if __name__ == "__main__":
    main()
