"""Scores of translations against references.

A metric is a class that `METRICS` names. It is made from `MetricOptions` and has one or more of
these methods: `untold evaluate` and validation need `corpus_scores`, a reward of sequence-level
training needs `sentence_scores`, comparisons of systems need `sacrebleu_metric`, and several
references of each sentence need `multi_reference_scores`. This is a whole metric:

    class Exact:
        def __init__(self, options: MetricOptions) -> None:
            self.lowercase = options.lowercase

        def corpus_scores(self, sources, references, hypotheses) -> list[Score]:
            same = sum(r == h for r, h in zip(references, hypotheses, strict=True))
            return [Score("exact", 100 * same / len(references), "exact match")]

To ship it with untold, add a row to untold/registry.py. Another package adds it through an entry
point of the group `untold.metrics`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, get_args, runtime_checkable

from untold.config import DataConfig
from untold.errors import UntoldError
from untold.progress_bar import track
from untold.registry import METRICS, metric_has, metrics_with

Texts = Sequence[str]


@dataclass(frozen=True)
class Score:
    """One figure and the signature that says how it was computed."""

    name: str
    value: float
    signature: str
    details: str = ""
    meaning: str = ""  # for a person, such as "higher is better, up to 100: words that fit"


@dataclass(frozen=True)
class MetricOptions:
    """The settings that metrics are made from; each metric uses those that concern it."""

    tokenize: str = "13a"  # sacreBLEU's name of the tokenizer for BLEU and GLEU
    lowercase: bool = False
    aligner: Path | None = None  # a directory that `untold align --save` wrote, for CDR

    def __post_init__(self) -> None:
        known = get_args(DataConfig.model_fields["bleu_tokenize"].annotation)
        if self.tokenize not in known:
            raise UntoldError(
                f"unknown tokenizer {self.tokenize} for BLEU; known: {', '.join(known)}"
            )


@runtime_checkable
class Metric(Protocol):
    """Scores a corpus.

    A class attribute `needs_aligner = True` says that it needs an aligner, and `ignores` names the
    other options that it does not look at.
    """

    def corpus_scores(self, sources: Texts, references: Texts, hypotheses: Texts, /) -> list[Score]:
        """Returns one or more figures for the whole corpus."""
        ...


@runtime_checkable
class MultiReferenceMetric(Protocol):
    """Scores a corpus whose sentences have several references each."""

    def multi_reference_scores(
        self, references: Sequence[Texts], hypotheses: Texts, /
    ) -> list[Score]:
        """Returns one or more figures; each item of `references` has a line for each sentence."""
        ...


@runtime_checkable
class SentenceMetric(Protocol):
    """Scores single translations, so that it can be a reward."""

    def sentence_scores(
        self, sources: Texts, references: Texts, hypotheses: Texts, /
    ) -> list[float]:
        """Returns a number between 0 and 1 for each translation."""
        ...


def make_metric(name: str, options: MetricOptions) -> Any:
    """Makes the metric of this name; an unknown name is an error."""
    return METRICS[name](options)


def make_metrics(names: Sequence[str], options: MetricOptions) -> list[Metric]:
    """Makes metrics that score a corpus; all others are errors."""
    if unknown := [name for name in names if not metric_has(name, "corpus_scores")]:
        known = ", ".join(metrics_with("corpus_scores"))
        raise UntoldError(f"unknown metric {unknown[0]}; known: {known}")
    return [make_metric(name, options) for name in names]


def corpus_scores(
    hypotheses: Texts,
    references: Texts,
    metrics: Sequence[str] = ("bleu", "chrf", "ter"),
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> list[Score]:
    """Scores translations by the named metrics, which must need nothing but references."""
    made = make_metrics(metrics, MetricOptions(tokenize, lowercase))
    return score_corpus(made, [""] * len(references), references, hypotheses)


def score_corpus(
    metrics: Sequence[Metric],
    sources: Texts,
    references: Texts,
    hypotheses: Texts,
    further: Sequence[Texts] = (),
) -> list[Score]:
    """Scores one translation for each reference by each metric, in the order of the metrics.

    `further` holds more references of each sentence, which all metrics must then be able to use.
    """
    for texts in (references, *further):
        if len(hypotheses) != len(texts):
            raise UntoldError(
                f"{len(hypotheses)} translations but {len(texts)} references: line by line they "
                "must belong together"
            )
        if not any(text.strip() for text in texts):
            raise UntoldError(
                f"nothing to score: {len(texts)} references, all of them empty: give others"
            )
    found: list[Score] = []
    for metric in track(metrics, "scoring", len(metrics)):
        if not further:
            found += metric.corpus_scores(sources, references, hypotheses)
        elif isinstance(metric, MultiReferenceMetric):
            found += metric.multi_reference_scores((references, *further), hypotheses)
        else:
            raise UntoldError(
                f"{type(metric).__name__} scores one reference, not {len(further) + 1}"
            )
    return found


def score_distinct_pairs(
    score: Callable[[str, str], float], references: Texts, hypotheses: Texts
) -> list[float]:
    """Applies `score(reference, hypothesis)` to all pairs and computes equal pairs only once."""
    pairs = list(zip(references, hypotheses, strict=True))
    known = {pair: score(*pair) for pair in dict.fromkeys(pairs)}
    return [known[pair] for pair in pairs]


def score_lines(scores: Sequence[Score], *, aligned: bool) -> list[str]:
    """Formats a line for each score; `aligned` makes columns, which a terminal shows best."""
    name = max((len(score.name) for score in scores), default=0) if aligned else 0
    value = 6 if aligned else 0
    details = max((len(score.details) for score in scores), default=0) if aligned else 0
    return [
        f"{score.name:<{name}} {score.value:>{value}.2f} {score.details:<{details}}"
        f"  [{score.signature}]"
        for score in scores
    ]


def legend_lines(meanings: Iterable[tuple[str, str]]) -> list[str]:
    """Formats a legend of names and what they mean; names with the same meaning share a line.

    "higher is better: words that fit" becomes "NAME (higher is better): words that fit". The lines
    are indented, so that a search for a name at the start of a line finds its figures.
    """
    rows: dict[str, list[str]] = {}
    for name, meaning in meanings:
        if meaning:
            rows.setdefault(meaning, []).append(name)
    lines = []
    for meaning, names in rows.items():
        better, colon, text = meaning.partition(": ")
        row = f"  {', '.join(names)}"
        lines.append(f"{row} ({better}): {text}" if colon else f"{row}: {meaning}")
    return ["", *lines] if lines else []
