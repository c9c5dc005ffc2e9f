"""Metrics: those of sacreBLEU, ROUGE for Chinese, and metrics that other packages register."""

from collections.abc import Iterator, Sequence

import pytest
import sacrebleu

from untold.config import parse_config
from untold.errors import UntoldError
from untold.metrics.base import MetricOptions, Score, corpus_scores, make_metric
from untold.metrics.text_metrics import split_for_rouge
from untold.registry import METRICS, metric_has, metrics_with
from untold.training.sequence.samples import make_reward

Texts = Sequence[str]

HYPOTHESES = ["the cat sat on the mat .", "a dog barks at the moon ."]
REFERENCES = ["the cat sat on a mat .", "a dog barks at the moon ."]


def test_scores_and_signatures_are_sacrebleus_own() -> None:
    bleu, chrf, ter = corpus_scores(HYPOTHESES, REFERENCES)
    expected = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], force=True)
    assert bleu.value == pytest.approx(expected.score)
    assert chrf.value == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score)
    assert ter.value == pytest.approx(sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score)
    assert "tok:13a" in bleu.signature and "version:" in bleu.signature
    assert "BP 1.000" in bleu.details


def test_tokenizer_and_case_reach_bleu() -> None:
    upper = [text.upper() for text in HYPOTHESES]
    (cased,) = corpus_scores(upper, REFERENCES, ["bleu"], tokenize="none")
    (caseless,) = corpus_scores(upper, REFERENCES, ["bleu"], tokenize="none", lowercase=True)
    assert cased.value < 10 < caseless.value
    assert "tok:none" in cased.signature and "case:lc" in caseless.signature


def test_unequal_counts_are_refused_where_sacrebleu_truncates_in_silence() -> None:
    control = sacrebleu.corpus_bleu([*REFERENCES, "extra"], [REFERENCES], force=True)
    assert control.score == pytest.approx(100.0)  # the hazard is real
    with pytest.raises(UntoldError, match="3 translations but 2 references"):
        corpus_scores([*REFERENCES, "extra"], REFERENCES)


def test_nothing_to_score_and_unknown_metrics_are_errors() -> None:
    with pytest.raises(UntoldError, match="empty"):
        corpus_scores([], [])
    with pytest.raises(UntoldError, match="unknown metric meteor; known: bleu"):
        corpus_scores(HYPOTHESES, REFERENCES, ["meteor"])


def test_rouge_counts_chinese_characters() -> None:
    pytest.importorskip("rouge_score", reason="the extra [rouge] is not installed")
    assert split_for_rouge("今天Good天气 2024") == ["今", "天", "good", "天", "气", "2024"]
    scores = {s.name: s.value for s in corpus_scores(["今天天气"], ["今天天气好"], ["rouge"])}
    # 4 of 5 reference characters, all 4 hypothesis characters: recall .8, precision 1
    assert scores["rouge1 recall"] == pytest.approx(80.0)
    assert scores["rouge1 F1"] == pytest.approx(100 * 2 * 0.8 / 1.8)
    # 3 of 4 bigrams
    assert scores["rouge2 recall"] == pytest.approx(75.0)
    assert scores["rougeL recall"] == pytest.approx(80.0)


class Exact:
    """A metric as another package would write it."""

    def __init__(self, options: MetricOptions) -> None:
        self._lowercase = options.lowercase

    def corpus_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[Score]:
        values = self.sentence_scores(_, references, hypotheses)
        return [Score("exact", 100 * sum(values) / len(values), "exact match")]

    def sentence_scores(self, _: Texts, references: Texts, hypotheses: Texts) -> list[float]:
        case = str.lower if self._lowercase else str
        pairs = zip(references, hypotheses, strict=True)
        return [float(case(reference) == case(hypothesis)) for reference, hypothesis in pairs]


@pytest.fixture
def exact() -> Iterator[None]:
    METRICS.add("exact", Exact)
    yield
    METRICS.remove("exact")


def test_a_new_metric_is_known_to_evaluation_and_rewards_at_once(exact: None) -> None:
    upper = [HYPOTHESES[0], HYPOTHESES[1].upper()]
    assert corpus_scores(upper, REFERENCES, ["exact"])[0].value == 0.0
    (score,) = corpus_scores(upper, REFERENCES, ["exact"], lowercase=True)
    assert (score.name, score.value) == ("exact", 50.0)
    config = parse_config({"train": {"sequence": {"kind": "mrt", "reward": "exact"}}})
    reward = make_reward(config.train.sequence, "none")
    assert reward(["", ""], REFERENCES, HYPOTHESES) == [0.0, 1.0]
    assert "exact" not in metrics_with("sacrebleu_metric")
    with pytest.raises(UntoldError, match="known: bleu, chrf, ter, rouge, cdr, multi-bleu, exact"):
        corpus_scores(HYPOTHESES, REFERENCES, ["gleu"])  # it has no score of a corpus


def test_every_shipped_metric_has_the_methods_that_commands_ask_for() -> None:
    assert metrics_with("corpus_scores") == ("bleu", "chrf", "ter", "rouge", "cdr", "multi-bleu")
    assert metrics_with("sentence_scores") == ("bleu", "gleu", "chrf", "rouge", "cdr")
    assert metrics_with("sacrebleu_metric") == ("bleu", "chrf", "multi-bleu")
    assert metrics_with("multi_reference_scores") == ("bleu", "chrf", "ter", "multi-bleu")
    assert not metric_has("meteor", "corpus_scores")


def test_gleu_ignores_case_if_it_is_told_to() -> None:
    texts = ([""], ["The cat"], ["the CAT"])
    found = [
        make_metric("gleu", MetricOptions("none", lowercase)).sentence_scores(*texts)
        for lowercase in (False, True)
    ]
    assert found == [[0.0], [1.0]]
