import pytest
import sacrebleu

from untold.errors import UntoldError
from untold.evaluation.metrics import corpus_scores
from untold.evaluation.rouge import split_for_rouge

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
