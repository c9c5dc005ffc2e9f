"""Scores against references: BLEU, chrF and TER with signatures, ROUGE for summaries."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sacrebleu
from sacrebleu.metrics.base import Metric

from untold.errors import UntoldError

__all__ = ["METRICS", "Score", "corpus_metric", "corpus_scores", "split_for_rouge"]

METRICS = ("bleu", "chrf", "ter", "rouge")
_UNSPACED = "぀-ヿ㐀-鿿豈-﫿"  # kana and Chinese characters
_ROUGE_KINDS = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True)
class Score:
    """One figure and how it was computed."""

    name: str
    value: float
    signature: str
    details: str = ""


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf", "ter"),
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> list[Score]:
    """The named scores of a whole corpus, one hypothesis for each reference."""
    if len(hypotheses) != len(references):
        raise UntoldError(
            f"{len(hypotheses)} translations but {len(references)} references: line by line they "
            "must belong together"
        )
    if not references:
        raise UntoldError("nothing to score: both files are empty")
    if unknown := [name for name in metrics if name not in METRICS]:
        raise UntoldError(f"unknown metric {unknown[0]}; known: {', '.join(METRICS)}")
    scorers = _scorers(tokenize, lowercase)
    return [score for name in metrics for score in scorers[name](hypotheses, references)]


def corpus_metric(name: str, tokenize: str, lowercase: bool) -> Metric:
    """BLEU, chrF or TER as sacreBLEU computes it."""
    if name == "bleu":
        # force: our users are asked how their text is tokenised, sacreBLEU need not guess.
        return sacrebleu.BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    if name == "chrf":
        return sacrebleu.CHRF(lowercase=lowercase)
    return sacrebleu.TER(case_sensitive=not lowercase)


def split_for_rouge(text: str) -> list[str]:
    """Words, and single characters of scripts written without spaces, as ROUGE counts them."""
    return re.findall(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+", text.lower())


def _scorers(
    tokenize: str, lowercase: bool
) -> dict[str, Callable[[Sequence[str], Sequence[str]], list[Score]]]:
    return {
        "bleu": lambda h, r: _bleu(h, r, corpus_metric("bleu", tokenize, lowercase)),
        "chrf": lambda h, r: _sacre(corpus_metric("chrf", tokenize, lowercase), h, r),
        "ter": lambda h, r: _sacre(corpus_metric("ter", tokenize, lowercase), h, r),
        "rouge": _rouge,
    }


def _bleu(hypotheses: Sequence[str], references: Sequence[str], metric: Metric) -> list[Score]:
    result = metric.corpus_score(list(hypotheses), [list(references)])
    precisions = "/".join(f"{precision:.1f}" for precision in result.precisions)
    details = (
        f"{precisions} BP {result.bp:.3f} length ratio {result.sys_len / result.ref_len:.3f} "
        f"({result.sys_len}/{result.ref_len})"
    )
    return [Score("BLEU", result.score, str(metric.get_signature()), details)]


def _sacre(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> list[Score]:
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return [Score(result.name, float(result.score), str(metric.get_signature()))]


class _Splitter:
    """What rouge-score asks of a tokenizer; its own would drop every Chinese character."""

    def tokenize(self, text: str) -> list[str]:
        return split_for_rouge(text)


def _rouge(hypotheses: Sequence[str], references: Sequence[str]) -> list[Score]:
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        raise UntoldError("ROUGE needs rouge-score: pip install 'untold[rouge]'") from None
    scorer = RougeScorer(list(_ROUGE_KINDS), tokenizer=_Splitter())
    results = [scorer.score(r, h) for h, r in zip(hypotheses, references, strict=True)]
    signature = "rouge-score|split:words+han-characters|case:lc|mean over sentences"
    return [
        Score(
            f"{kind} {name}",
            100 * sum(getattr(result[kind], field) for result in results) / len(results),
            signature,
        )
        for kind in _ROUGE_KINDS
        for name, field in (("F1", "fmeasure"), ("recall", "recall"))
    ]
