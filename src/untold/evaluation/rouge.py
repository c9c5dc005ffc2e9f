"""ROUGE for summaries. Chinese characters and kana count as single words."""

import re
from collections.abc import Sequence
from typing import ClassVar

from untold.errors import UntoldError
from untold.evaluation.metrics import MetricOptions, Score, score_distinct_pairs

__all__ = ["Rouge", "rouge_l", "split_for_rouge"]

Texts = Sequence[str]
_UNSPACED = "぀-ヿ㐀-鿿豈-﫿"  # kana and Chinese characters
_KINDS = ("rouge1", "rouge2", "rougeL")
_SHARED = "words (1), pairs of words (2) or the longest common row of words (L)"
_FIGURES = (
    ("F1", "fmeasure", f"higher is better, up to 100: {_SHARED} that both sides share"),
    ("recall", "recall", f"higher is better, up to 100: {_SHARED} of the reference that are said"),
)


class Rouge:
    """ROUGE-1, ROUGE-2 and ROUGE-L of a corpus by rouge-score; ROUGE-L of single sentences."""

    ignores: ClassVar[tuple[str, ...]] = ("tokenize", "lowercase")

    def __init__(self, _: MetricOptions) -> None:
        """Takes the options of all metrics but needs none: ROUGE always ignores case."""

    def corpus_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[Score]:
        """Scores a corpus by F1 and recall of each kind, as means over sentences."""
        try:
            from rouge_score.rouge_scorer import RougeScorer
        except ImportError:
            raise UntoldError("ROUGE needs rouge-score: pip install 'untold[rouge]'") from None
        scorer = RougeScorer(list(_KINDS), tokenizer=_RougeTokenizer())
        results = [scorer.score(r, h) for h, r in zip(hypotheses, references, strict=True)]
        signature = "rouge-score|split:words+han-characters|case:lc|mean over sentences"
        return [
            Score(
                f"{kind} {name}",
                100 * sum(getattr(result[kind], field) for result in results) / len(results),
                signature,
                meaning=meaning,
            )
            for kind in _KINDS
            for name, field, meaning in _FIGURES
        ]

    def sentence_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[float]:
        """Scores single translations by the F1 of ROUGE-L."""

        def score(reference: str, hypothesis: str) -> float:
            return rouge_l(split_for_rouge(reference), split_for_rouge(hypothesis))

        return score_distinct_pairs(score, references, hypotheses)


def rouge_l(reference: Sequence[str], translation: Sequence[str]) -> float:
    """Returns the F1 of the longest common subsequence."""
    if not reference and not translation:
        return 1.0
    return 2 * _longest_common(reference, translation) / (len(reference) + len(translation))


def split_for_rouge(text: str) -> list[str]:
    """Splits text into lower-cased words, and into characters in scripts without spaces."""
    return re.findall(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+", text.lower())


class _RougeTokenizer:
    """Replaces the tokenizer of rouge-score, which drops every Chinese character."""

    def tokenize(self, text: str) -> list[str]:
        return split_for_rouge(text)


def _longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Returns the length of the longest common subsequence; keeps one row of the table."""
    row = [0] * (len(other) + 1)
    for word in one:
        before = row
        row = [0]
        for place, its in enumerate(other):
            same = before[place] + 1
            row.append(same if word == its else max(before[place + 1], row[place]))
    return row[-1]
