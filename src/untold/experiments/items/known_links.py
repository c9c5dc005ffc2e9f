"""Word links of test sets: those of a file, or else of an aligner trained on the training text."""

from collections.abc import Sequence

from untold.corpus.alignments import Alignment, read_alignments
from untold.evaluation.separation_report import AlignedPair
from untold.experiments.corpora import TestFiles
from untold.experiments.workshop import Workshop

__all__ = ["aligned_pairs", "interesting_pairs", "links_note"]

_SHORTEST, _LONGEST = 5, 12  # words of a sentence that is shown


def aligned_pairs(workshop: Workshop, test: TestFiles) -> list[AlignedPair]:
    """Returns the pairs of a test set with their links."""
    corpus = workshop.plan.corpus
    sources, references = corpus.read(test)
    path = corpus.alignments(test)
    if path is not None:
        links: Sequence[Alignment] = read_alignments(path)[: len(sources)]
    else:
        aligner = workshop.aligner()
        links = aligner.align(aligner.split(sources, references))
    return [AlignedPair(*each) for each in zip(sources, references, links, strict=True)]


def links_note(workshop: Workshop, test: TestFiles) -> str:
    """Says where the links come from."""
    is_given = workshop.plan.corpus.alignments(test) is not None
    return "links: the corpus's own" if is_given else "links: an aligner trained on the same text"


def interesting_pairs(workshop: Workshop, count: int) -> list[tuple[str, str]]:
    """Chooses short pairs whose words change their order, or share a word of the other side."""
    pairs = aligned_pairs(workshop, workshop.plan.corpus.known.tests[0])
    short = [p for p in pairs if _SHORTEST <= len(p.source.split()) <= _LONGEST]
    ranked = sorted(short or pairs, key=lambda pair: -_interest(pair))
    return [(pair.source, pair.target) for pair in ranked[:count]]


def _interest(pair: AlignedPair) -> float:
    """Counts crossing links and words with several, by the length of the sentence."""
    links = sorted(pair.alignment.sure)
    crossing = sum(a[0] < b[0] and a[1] > b[1] for a in links for b in links)
    several = len(links) - len({target for _, target in links})
    return (crossing + several) / (1 + len(pair.source.split()))
