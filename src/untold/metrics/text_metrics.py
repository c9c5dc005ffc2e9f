"""Metrics of texts: BLEU, chrF and TER as sacreBLEU computes them, ROUGE and GLEU.

ROUGE takes Chinese characters and kana for single words. GLEU (Wu et al., 2016) scores single
sentences; it was made to be a reward.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

import sacrebleu
from sacrebleu.metrics.base import Metric as SacrebleuMetric

from untold.errors import UntoldError
from untold.metrics.base import MetricOptions, Score, score_distinct_pairs

Texts = Sequence[str]

_BLEU = (
    "higher is better, up to 100: n-grams of words that the reference has, too; then the "
    "percentages for 1/2/3/4 words, the penalty for brevity (BP, 1 is none), the words of both"
)
_CHRF = "higher is better, up to 100: the same for n-grams of characters, so half a word counts"
_TER = (
    "lower is better, 0 is perfect: words to insert, delete, replace or move for each 100 words of "
    "the reference"
)


class Bleu:
    """BLEU. Its details are the n-gram precisions, the brevity penalty and the length ratio."""

    def __init__(self, options: MetricOptions) -> None:
        self._options = options

    def corpus_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[Score]:
        """Scores a corpus."""
        return self.multi_reference_scores([references], hypotheses)

    def multi_reference_scores(self, references: Sequence[Texts], hypotheses: Texts) -> list[Score]:
        """Scores a corpus against several references of each sentence."""
        return _bleu_scores(self.sacrebleu_metric(), references, hypotheses)

    def sentence_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[float]:
        """Scores single translations by smoothed BLEU."""
        # A single translation has few 4-grams: BLEU stops at the longest n-gram that it has.
        return _sentence_scores(self._sacrebleu(effective_order=True), references, hypotheses)

    def sacrebleu_metric(self) -> SacrebleuMetric:
        """Makes sacreBLEU's BLEU for whole corpora."""
        return self._sacrebleu(effective_order=False)

    def _sacrebleu(self, *, effective_order: bool) -> SacrebleuMetric:
        # force: the user chooses the tokenizer, so sacreBLEU need not guess and warn.
        return sacrebleu.BLEU(
            lowercase=self._options.lowercase,
            tokenize=self._options.tokenize,
            effective_order=effective_order,
            force=True,
        )


class MultiBleu:
    """BLEU as multi-bleu.perl defines it: words as they stand, split at blanks, no smoothing."""

    ignores: ClassVar[tuple[str, ...]] = ("tokenize",)

    def __init__(self, options: MetricOptions) -> None:
        self._lowercase = options.lowercase

    def corpus_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[Score]:
        """Scores a corpus."""
        return self.multi_reference_scores([references], hypotheses)

    def multi_reference_scores(self, references: Sequence[Texts], hypotheses: Texts) -> list[Score]:
        """Scores a corpus against several references of each sentence."""
        return _bleu_scores(self.sacrebleu_metric(), references, hypotheses)

    def sacrebleu_metric(self) -> SacrebleuMetric:
        """Makes sacreBLEU's BLEU with the tokenizer and smoothing of multi-bleu.perl: none."""
        return sacrebleu.BLEU(
            lowercase=self._lowercase, tokenize="none", smooth_method="none", force=True
        )


class Chrf:
    """ChrF, the F-score of character n-grams."""

    ignores: ClassVar[tuple[str, ...]] = ("tokenize",)

    def __init__(self, options: MetricOptions) -> None:
        self._lowercase = options.lowercase

    def corpus_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[Score]:
        """Scores a corpus."""
        return self.multi_reference_scores([references], hypotheses)

    def multi_reference_scores(self, references: Sequence[Texts], hypotheses: Texts) -> list[Score]:
        """Scores a corpus; the best reference of each sentence counts."""
        return _corpus_scores(self.sacrebleu_metric(), references, hypotheses, _CHRF)

    def sentence_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[float]:
        """Scores single translations."""
        return _sentence_scores(self.sacrebleu_metric(), references, hypotheses)

    def sacrebleu_metric(self) -> SacrebleuMetric:
        """Makes sacreBLEU's chrF."""
        return sacrebleu.CHRF(lowercase=self._lowercase)


class Ter:
    """TER, the translation edit rate. Lower is better, so it is neither a reward nor compared."""

    ignores: ClassVar[tuple[str, ...]] = ("tokenize",)

    def __init__(self, options: MetricOptions) -> None:
        self._lowercase = options.lowercase

    def corpus_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[Score]:
        """Scores a corpus."""
        return self.multi_reference_scores([references], hypotheses)

    def multi_reference_scores(self, references: Sequence[Texts], hypotheses: Texts) -> list[Score]:
        """Scores a corpus; the nearest reference of each sentence counts."""
        metric = sacrebleu.TER(case_sensitive=not self._lowercase)
        return _corpus_scores(metric, references, hypotheses, _TER)


def _bleu_scores(
    metric: SacrebleuMetric, references: Sequence[Texts], hypotheses: Texts
) -> list[Score]:
    result = metric.corpus_score(list(hypotheses), [list(each) for each in references])
    precisions = "/".join(f"{precision:.1f}" for precision in result.precisions)
    # Blank references count no words where the translation has none, either.
    ratio = result.sys_len / result.ref_len if result.ref_len else 0.0
    details = (
        f"{precisions} BP {result.bp:.3f} length ratio {ratio:.3f} "
        f"({result.sys_len}/{result.ref_len})"
    )
    return [Score("BLEU", result.score, str(metric.get_signature()), details, _BLEU)]


def _corpus_scores(
    metric: SacrebleuMetric, references: Sequence[Texts], hypotheses: Texts, meaning: str
) -> list[Score]:
    result = metric.corpus_score(list(hypotheses), [list(each) for each in references])
    signature = str(metric.get_signature())
    return [Score(result.name, float(result.score), signature, meaning=meaning)]


def _sentence_scores(metric: SacrebleuMetric, references: Texts, hypotheses: Texts) -> list[float]:
    def score(reference: str, hypothesis: str) -> float:
        return float(metric.sentence_score(hypothesis, [reference]).score) / 100

    return score_distinct_pairs(score, references, hypotheses)


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
