"""BLEU with several references equals a slow implementation of multi-bleu.perl's definition.

The definition (Moses, scripts/generic/multi-bleu.perl): words are what stands between blanks, -lc
lower-cases them; an n-gram counts at most as often as in the reference that has it most often; the
reference length of a sentence is the one nearest to the length of the translation, of two equally
near ones the shorter; there is no smoothing.
"""

import math
import random

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from untold.errors import UntoldError
from untold.metrics.base import MetricOptions, make_metric, make_metrics, score_corpus
from untold.metrics.significance import corpus_value, sentence_statistics


def occurrences(words, ngram):
    """Counts the places where an n-gram stands, one by one."""
    places = range(len(words) - len(ngram) + 1)
    return sum(words[place : place + len(ngram)] == ngram for place in places)


def slow_multi_bleu(hypotheses, references, *, lowercase=False):
    """Computes the percentage by loops alone; `references` holds one list for each sentence."""
    case = str.lower if lowercase else str
    matched, offered, said, wanted = [0] * 4, [0] * 4, 0, 0
    for hypothesis, own in zip(hypotheses, references, strict=True):
        words = case(hypothesis).split()
        others = [case(text).split() for text in own]
        said += len(words)
        wanted += min((abs(len(other) - len(words)), len(other)) for other in others)[1]
        for n in range(1, 5):
            ngrams = [words[place : place + n] for place in range(len(words) - n + 1)]
            offered[n - 1] += len(ngrams)
            for ngram in {tuple(each) for each in ngrams}:
                most = max(occurrences(other, list(ngram)) for other in others)
                matched[n - 1] += min(most, occurrences(words, list(ngram)))
    if not all(matched):
        return 0.0
    logs = [math.log(m / o) for m, o in zip(matched, offered, strict=True)]
    return 100 * math.exp(min(0.0, 1 - wanted / said) + sum(logs) / 4)


def scored(hypotheses, references, name="multi-bleu", **options):
    """Our figure; `references` holds one list for each sentence, as above."""
    metric = make_metric(name, MetricOptions("none", **options))
    sets = list(zip(*references, strict=True))
    (score,) = metric.multi_reference_scores(sets, hypotheses)
    return score.value


WORDS = ["the", "The", "cat", "CAT", "sat", "on", "a", "mat", ".", ","]
sentences = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


@st.composite
def corpora(draw):
    number = draw(st.integers(1, 4))
    rows = st.tuples(sentences, st.lists(sentences, min_size=number, max_size=number))
    return list(zip(*draw(st.lists(rows, min_size=1, max_size=6)), strict=True))


@given(corpora(), st.booleans())
def test_any_corpus_has_the_score_of_the_definition(corpus, lowercase):
    hypotheses, references = corpus
    expected = slow_multi_bleu(hypotheses, references, lowercase=lowercase)
    assert scored(hypotheses, references, lowercase=lowercase) == pytest.approx(expected, abs=1e-9)


def likely_corpus(seed, number, size=40):
    """A corpus in which translations resemble their references, so that no score is zero."""
    dice = random.Random(seed)
    references, hypotheses = [], []
    for _ in range(size):
        words = dice.choices(WORDS, k=dice.randint(6, 25))
        own = []
        for _ in range(number + 1):
            kept = [word if dice.random() < 0.8 else dice.choice(WORDS) for word in words]
            own.append(" ".join(kept[dice.randint(0, 3) :]))
        hypotheses.append(own.pop())
        references.append(own)
    return hypotheses, references


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("lowercase", [False, True])
def test_likely_corpora_have_the_score_of_the_definition_by_either_metric(number, lowercase):
    """Where every order has a match nothing is smoothed: `bleu` without a tokenizer agrees, too."""
    values = set()
    for seed in range(5):
        hypotheses, references = likely_corpus(seed, number)
        expected = slow_multi_bleu(hypotheses, references, lowercase=lowercase)
        assert 5 < expected < 95
        for name in ("multi-bleu", "bleu"):
            found = scored(hypotheses, references, name, lowercase=lowercase)
            assert found == pytest.approx(expected, abs=1e-9)
        values.add(round(expected, 6))
    assert len(values) == 5


@pytest.mark.parametrize(
    ("hypothesis", "references", "length"),
    [
        ("a b c d e", ["a b c d", "a b c d e f"], 4),  # equally near: the shorter one
        ("a b c d e", ["a b c d e f", "a b c d"], 4),  # whichever comes first
        ("a b c d e", ["a b c d e f g h i", "a b c d e f"], 6),  # the nearer one
        ("a b c d e", ["a b c d e f", "a b c d e f g"], 6),
    ],
)
def test_the_nearest_length_counts_and_of_two_the_shorter(hypothesis, references, length):
    expected = 100 * math.exp(min(0.0, 1 - length / 5))  # all n-grams match
    assert slow_multi_bleu([hypothesis], [references]) == pytest.approx(expected)
    assert scored([hypothesis], [references]) == pytest.approx(expected)


def test_counts_are_clipped_by_the_reference_that_has_most():
    """Two references with one "the" each do not allow two."""
    hypothesis, tail = "the the x y z", "x y z"
    one, two = [f"the {tail}", f"the {tail}"], [f"the {tail}", f"the the {tail}"]
    assert scored([hypothesis], [one]) == pytest.approx(slow_multi_bleu([hypothesis], [one]))
    assert scored([hypothesis], [one]) < 99 < scored([hypothesis], [two])


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [
        ("a b c", "a b c"),  # no 4-gram at all
        ("a b c d x y", "a b c x d y"),  # 4-grams, but none that matches
        ("", "a b c d"),
        ("x", "y"),
    ],
)
def test_without_a_4_gram_the_score_is_zero_where_smoothed_bleu_may_not_be(hypothesis, reference):
    assert slow_multi_bleu([hypothesis], [[reference]]) == 0.0
    assert scored([hypothesis], [[reference]]) == pytest.approx(0.0, abs=1e-9)


def test_the_smoothing_of_bleu_is_what_differs():
    texts = ["a b c d x y"], [["a b c x d y"]]
    assert scored(*texts, "bleu") > 10 > scored(*texts) == pytest.approx(0.0, abs=1e-9)


def test_the_signature_names_case_tokenizer_and_references():
    metric = make_metric("multi-bleu", MetricOptions("13a", lowercase=True))
    (score,) = metric.multi_reference_scores([["A b c d"]] * 4, ["a b C d"])
    assert score.value == pytest.approx(100.0)
    for part in ("nrefs:4", "case:lc", "tok:none", "smooth:none"):
        assert part in score.signature


def test_statistics_of_significance_tests_see_all_references():
    hypotheses, references = likely_corpus(3, 4)
    metric = make_metric("multi-bleu", MetricOptions()).sacrebleu_metric()
    first, *further = zip(*references, strict=True)
    sums = sentence_statistics(metric, hypotheses, first, further).sum(0)
    assert corpus_value(metric, sums) == pytest.approx(slow_multi_bleu(hypotheses, references))
    with pytest.raises(UntoldError, match="40 translations but 39 references"):
        sentence_statistics(metric, hypotheses, first, [further[0][1:]])


def test_all_metrics_with_several_references_agree_with_sacrebleu():
    hypotheses, references = likely_corpus(5, 3)
    sets = [list(texts) for texts in zip(*references, strict=True)]
    made = make_metrics(["bleu", "chrf", "ter"], MetricOptions("none"))
    found = score_corpus(made, [""] * len(hypotheses), sets[0], hypotheses, sets[1:])
    expected = [
        sacrebleu.corpus_bleu(hypotheses, sets, tokenize="none", force=True),
        sacrebleu.corpus_chrf(hypotheses, sets),
        sacrebleu.corpus_ter(hypotheses, sets, case_sensitive=True),
    ]
    assert [score.value for score in found] == pytest.approx([each.score for each in expected])
    alone = score_corpus(made, [""] * len(hypotheses), sets[0], hypotheses)
    assert alone[0].value < found[0].value and alone[2].value > found[2].value


def test_references_that_cannot_be_used_are_refused():
    bleu, rouge = make_metrics(["bleu", "rouge"], MetricOptions("none"))
    with pytest.raises(UntoldError, match="1 translations but 2 references"):
        score_corpus([bleu], [""], ["a"], ["a"], [["a", "b"]])
    with pytest.raises(UntoldError, match="all of them empty"):
        score_corpus([bleu], [""], ["a"], ["a"], [[" "]])
    with pytest.raises(UntoldError, match="Rouge scores one reference, not 2"):
        score_corpus([rouge], [""], ["a"], ["a"], [["a"]])


def test_blank_references_beside_blank_translations_are_no_division_by_zero():
    assert scored([""], [["", "a b"]]) == 0.0
