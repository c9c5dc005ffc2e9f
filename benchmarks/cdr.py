"""What CDR makes of texts that are no translations, with and without evidence for its links.

    untold sample en-de --pairs 5000 --out data/en-de
    python benchmarks/cdr.py data/en-de --kinds eflomal,fast_align

A good measure gives little to junk (words nobody has seen, as many as the reference has) and to
another sentence's reference of about the same length, and about half to half of a reference.
"""

import argparse
from pathlib import Path

from untold.alignment.aligners import Aligner, train_aligner
from untold.config import AlignerConfig
from untold.corpus.alignments import alignment_error_rate, read_alignments
from untold.corpus.text import read_parallel
from untold.metrics.cdr import measure_cdr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="what untold sample en-de wrote")
    parser.add_argument("--kinds", default="eflomal,fast_align,hmm")
    parser.add_argument("--evidence", default="0,0.001,0.01,0.1")
    arguments = parser.parse_args()
    train = read_parallel(arguments.corpus / "train.en", arguments.corpus / "train.de")
    for kind in arguments.kinds.split(","):
        trained = train_aligner(*train, AlignerConfig.model_validate({"kind": kind}))
        for evidence in map(float, arguments.evidence.split(",")):
            config = trained.config.model_copy(update={"evidence": evidence})
            print(
                kind, f"evidence {evidence:g}", figures(Aligner(config, trained.backend), arguments)
            )


def figures(aligner: Aligner, arguments: argparse.Namespace) -> str:
    corpus = arguments.corpus
    sources, references = read_parallel(corpus / "test.en", corpus / "test.de")
    gold = read_alignments(corpus / "test.align")
    links = aligner.align_translations(aligner.split(sources, references))
    cells = [f"AER {alignment_error_rate(links, gold):.4f}"]
    for name, texts in no_translations(references).items():
        found = measure_cdr(aligner, sources, references, texts)
        cells.append(f"{name} {found.macro:.3f}")
    return ", ".join(cells)


def no_translations(references: list[str]) -> dict[str, list[str]]:
    lengths = [len(text.split()) for text in references]
    order = sorted(range(len(references)), key=lengths.__getitem__)
    following = dict(zip(order, order[1:] + order[:1], strict=True))
    return {
        "half": [" ".join(text.split()[: len(text.split()) // 2]) for text in references],
        "other": [references[following[number]] for number in range(len(references))],
        "junk": [" ".join(f"q{place}" for place in range(length)) for length in lengths],
    }


if __name__ == "__main__":
    main()
