"""GLEU (Wu et al., 2016): a score for single sentences, which was made to be a reward."""

from collections import Counter
from collections.abc import Sequence

import sacrebleu

from untold.evaluation.metrics import MetricOptions, score_distinct_pairs

__all__ = ["Gleu", "gleu"]

Texts = Sequence[str]
_LONGEST = 4  # words of an n-gram


class Gleu:
    """GLEU over words as BLEU's tokenizer splits them."""

    def __init__(self, options: MetricOptions) -> None:
        self._options = options
        self._tokenizer = sacrebleu.BLEU(tokenize=options.tokenize, force=True).tokenizer

    def sentence_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[float]:
        """Scores single translations."""

        def score(reference: str, hypothesis: str) -> float:
            return gleu(self._words(reference), self._words(hypothesis))

        return score_distinct_pairs(score, references, hypotheses)

    def _words(self, text: str) -> list[str]:
        return self._tokenizer(text.lower() if self._options.lowercase else text).split()


def gleu(reference: Sequence[str], translation: Sequence[str]) -> float:
    """Returns the smaller of precision and recall over all n-grams of one to four words."""
    theirs, ours = _ngrams(reference), _ngrams(translation)
    total = max(theirs.total(), ours.total())
    return (theirs & ours).total() / total if total else 1.0


def _ngrams(words: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(
        tuple(words[start : start + size])
        for size in range(1, _LONGEST + 1)
        for start in range(len(words) - size + 1)
    )
