"""Rewards against independent definitions, and functions of the user's own."""

import itertools
import sys
from types import ModuleType

import pytest
import sacrebleu

from untold.alignment.aligners import Aligner, train_aligner
from untold.config import AlignerConfig, SequenceConfig
from untold.errors import UntoldError
from untold.metrics.text_metrics import gleu, rouge_l
from untold.training.sequence.samples import make_reward

REFERENCES = ["the cat sat on the mat .", "a b c d e", "Das ist gut .", "one"]
TRANSLATIONS = ["the the cat sat on mat .", "b a c e", "Das ist gut .", "two"]
SOURCES = ["s"] * 4


def reward(name, **settings):
    config = SequenceConfig(kind="reinforce", reward=name, **settings)
    return make_reward(config, "none")


def test_bleu_is_sacrebleu_s_sentence_score():
    expected = [
        sacrebleu.sentence_bleu(h, [r], tokenize="none", use_effective_order=True).score / 100
        for h, r in zip(TRANSLATIONS, REFERENCES, strict=True)
    ]
    assert reward("bleu")(SOURCES, REFERENCES, TRANSLATIONS) == pytest.approx(expected)
    assert 0 < expected[0] < expected[2] == pytest.approx(1)


def test_bleu_splits_words_as_the_data_do():
    characters = make_reward(SequenceConfig(kind="reinforce"), "char")
    (found,) = characters([""], ["ab cd"], ["ab ce"])
    assert found > reward("bleu")([""], ["ab cd"], ["ab ce"])[0]


def test_chrf_is_sacrebleu_s_sentence_score():
    expected = [
        sacrebleu.sentence_chrf(h, [r]).score / 100
        for h, r in zip(TRANSLATIONS, REFERENCES, strict=True)
    ]
    assert reward("chrf")(SOURCES, REFERENCES, TRANSLATIONS) == pytest.approx(expected)


def plain_gleu(reference, translation):
    """Matches by crossing n-grams off a list."""
    counts = []
    for words, others in ((translation, reference), (reference, translation)):
        lists = [
            [tuple(side[i : i + n]) for n in (1, 2, 3, 4) for i in range(len(side) - n + 1)]
            for side in (words, others)
        ]
        left, hits = list(lists[1]), 0
        for gram in lists[0]:
            if gram in left:
                left.remove(gram)
                hits += 1
        counts.append(hits / len(lists[0]))
    return min(counts)


def test_gleu_is_the_smaller_of_precision_and_recall():
    for reference, translation in itertools.product(REFERENCES, TRANSLATIONS):
        words = reference.split(), translation.split()
        assert gleu(*words) == pytest.approx(plain_gleu(*words))
    assert gleu(["a", "b"], ["a", "b", "c", "d"]) == pytest.approx(3 / 10)
    assert gleu(["a", "b", "c", "d"], ["a", "b"]) == pytest.approx(3 / 10)
    assert (gleu([], []), gleu([], ["a"]), gleu(["a"], [])) == (1.0, 0.0, 0.0)


def subsequences(words):
    for size in range(len(words) + 1):
        yield from itertools.combinations(words, size)


def test_rouge_l_is_f1_of_the_longest_common_subsequence():
    for reference, translation in itertools.product(REFERENCES, TRANSLATIONS):
        one, other = reference.split(), translation.split()
        common = max(map(len, set(subsequences(one)) & set(subsequences(other))))
        precision, recall = common / len(other), common / len(one)
        expected = 2 * precision * recall / (precision + recall) if common else 0.0
        assert rouge_l(one, other) == pytest.approx(expected)
    assert (rouge_l([], []), rouge_l(["a"], [])) == (1.0, 0.0)
    assert reward("rouge")([""], ["中国人"], ["中国"])[0] == pytest.approx(0.8), "by characters"


def test_rouge_l_is_that_of_rouge_score():
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"])
    found = reward("rouge")(SOURCES, REFERENCES, TRANSLATIONS)
    for value, r, h in zip(found, REFERENCES, TRANSLATIONS, strict=True):
        assert value == pytest.approx(scorer.score(r, h)["rougeL"].fmeasure)


def module(monkeypatch, name, **functions):
    made = ModuleType(name)
    vars(made).update(functions)
    monkeypatch.setitem(sys.modules, name, made)


def test_a_function_of_one_s_own_gets_all_three_texts(monkeypatch):
    seen = []

    def mine(sources, references, translations):
        seen.append((list(sources), list(references), list(translations)))
        return [len(text) / 10 for text in translations]

    module(monkeypatch, "my_rewards", mine=mine)
    found = reward("my_rewards:mine")(["s"], ["r"], ["four"])
    assert found == [0.4]
    assert seen == [(["s"], ["r"], ["four"])]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda *_: [0.5], r"gave 1 numbers for 2 translations: it must give one each"),
        (lambda *_: [0.5, float("nan")], r"gave nan for 'second': rewards must be finite"),
    ],
)
def test_a_function_that_gives_something_else_is_named(monkeypatch, result, message):
    module(monkeypatch, "my_rewards", mine=result)
    with pytest.raises(UntoldError, match=rf"reward = my_rewards:mine {message}"):
        reward("my_rewards:mine")(["s", "s"], ["r", "r"], ["first", "second"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:f", "No module named 'no_such_module'"),
        ("math:no_such", "no attribute 'no_such'"),
        ("math:pi", "it is no function"),
    ],
)
def test_a_function_that_is_not_there_is_named(name, message):
    with pytest.raises(UntoldError, match=rf"train\.sequence\.reward = {name}: .*{message}"):
        reward(name)


def test_cdr_counts_by_the_aligner_of_the_settings(tmp_path):
    """Of an aligner that has learnt which letter is which: half of the words, all, or none."""
    pytest.importorskip("thot", reason="the extra [align] is not installed")
    words = [("a", "x"), ("b", "y"), ("c", "z"), ("d", "w")]
    pairs = [(f"{a} {b}", f"{x} {y}") for (a, x), (b, y) in itertools.permutations(words, 2)] * 5
    train_aligner(*zip(*pairs, strict=True), AlignerConfig()).save(tmp_path / "aligner")
    found = reward("cdr", aligner=str(tmp_path / "aligner"))
    assert found(["a b", "a b", "c d"], ["x y", "x y", "z w"], ["x", "y x", ""]) == [0.5, 1.0, 0.0]


def test_cdr_asks_for_its_splitter_before_there_is_text(tmp_path, monkeypatch):
    pytest.importorskip("thot", reason="the extra [align] is not installed")
    words = (["a", "b"], ["x", "y"])
    Aligner.train([words] * 3, AlignerConfig(source_words="jieba")).save(tmp_path / "aligner")
    monkeypatch.setitem(sys.modules, "rjieba", None)  # as if it were not installed
    with pytest.raises(UntoldError, match=r"untold\[zh\]"):
        reward("cdr", aligner=str(tmp_path / "aligner"))


def test_cdr_without_its_aligner_names_the_path(tmp_path):
    with pytest.raises(UntoldError, match="nowhere"):
        reward("cdr", aligner=str(tmp_path / "nowhere"))
