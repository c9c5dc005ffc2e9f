"""BLEU, chrF and TER as sacreBLEU computes them, with its signatures."""

from collections.abc import Sequence
from typing import ClassVar

import sacrebleu
from sacrebleu.metrics.base import Metric as SacrebleuMetric

from untold.evaluation.metrics import MetricOptions, Score, score_distinct_pairs

__all__ = ["Bleu", "Chrf", "MultiBleu", "Ter"]

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
