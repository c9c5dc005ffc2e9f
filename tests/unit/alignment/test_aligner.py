"""A real aligner on the embedded grammar: good links, frozen, the same after saving."""

import sys
from itertools import islice
from pathlib import Path
from statistics import mean

import pytest

from untold.alignment.aligners import Aligner, load_aligner, train_aligner
from untold.config import AlignerConfig
from untold.corpus.alignments import Alignment, alignment_error_rate
from untold.errors import UntoldError
from untold.lab.grammars.sampling import Sample, load_grammar
from untold.metrics.cdr import sentence_cdr

pytest.importorskip("thot", reason="sil-thot is not installed (extra align)")

QUICK = AlignerConfig(kind="fast_align")


Texts = tuple[list[str], list[str]]


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return list(islice(load_grammar("en-de").stream(7), 800))


def sides(samples: list[Sample]) -> Texts:
    return [" ".join(s.source) for s in samples], [" ".join(s.target) for s in samples]


@pytest.fixture(scope="module")
def texts(samples: list[Sample]) -> Texts:
    return sides(samples[:600])


@pytest.fixture(scope="module")
def test_texts(samples: list[Sample]) -> Texts:
    return sides(samples[600:])


@pytest.fixture(scope="module")
def aligner(texts: Texts) -> Aligner:
    return train_aligner(*texts, QUICK)


def diagonal(sources: list[str], targets: list[str]) -> list[Alignment]:
    links = (
        frozenset((i, i) for i in range(min(len(s.split()), len(t.split()))))
        for s, t in zip(sources, targets, strict=True)
    )
    return [Alignment(each, each) for each in links]


def test_unseen_sentences_of_the_grammar_are_linked_well(
    samples: list[Sample], aligner: Aligner, test_texts: Texts
) -> None:
    links = [frozenset(each.alignment) for each in samples[600:]]
    gold = [Alignment(each, each) for each in links]
    found = alignment_error_rate(aligner.align(aligner.split(*test_texts)), gold)
    straight = alignment_error_rate(diagonal(*test_texts), gold)
    assert found is not None and straight is not None
    assert found < 0.17 and straight > 0.4


def test_a_saved_aligner_gives_the_same_links(
    tmp_path: Path, aligner: Aligner, test_texts: Texts
) -> None:
    aligner.save(tmp_path / "saved")
    again = load_aligner(tmp_path / "saved")
    pairs = aligner.split(*test_texts)
    assert again.config == aligner.config
    assert again.align(pairs) == aligner.align(pairs)
    assert again.align_translations(pairs) == aligner.align_translations(pairs)
    with pytest.raises(UntoldError, match="exists"):
        aligner.save(tmp_path / "saved")


def test_links_of_a_pair_depend_on_that_pair_alone(aligner: Aligner, test_texts: Texts) -> None:
    pairs = aligner.split(*test_texts)[:40]
    together = aligner.align(pairs)
    assert [aligner.align([pair])[0] for pair in pairs] == together
    assert aligner.align(pairs[::-1]) == together[::-1]


@pytest.mark.parametrize("kind", ["eflomal", "fast_align", "hmm", "ibm1", "ibm2", "ibm4"])
def test_every_kind_is_the_same_each_time_and_survives_saving(
    tmp_path: Path, kind: str, texts: Texts
) -> None:
    config = AlignerConfig.model_validate({"kind": kind, "iterations": 2})
    few = texts[0][:8], texts[1][:8]
    first, second = train_aligner(*few, config), train_aligner(*few, config)
    pairs = first.split(*few)
    found = first.align(pairs)
    assert found == second.align(pairs)
    assert sum(len(each.sure) for each in found) > 16
    first.save(tmp_path / "saved")
    saved = load_aligner(tmp_path / "saved")
    assert saved.align(pairs) == found
    assert saved.align_translations(pairs) == first.align_translations(pairs)


def test_new_words_are_linked_and_empty_sides_are_not(aligner: Aligner) -> None:
    pairs = [
        (["The", "zorblax", "reads", "a", "book", "."], ["Der", "Zorblax", "liest", "."]),
        ([], ["leer"]),
        (["empty"], []),
        ([], []),
        (["."], ["."]),
    ]
    new, *empty, last = aligner.align(pairs)
    assert (0, 0) in new.sure
    assert 1 in {i for i, _ in new.sure} and 1 in {j for _, j in new.sure}
    assert all(not each.possible for each in empty)
    assert last.sure == {(0, 0)}
    assert aligner.align([]) == []


def test_case_and_names_that_the_aligner_keeps_for_itself_do_not_matter(aligner: Aligner) -> None:
    plain = aligner.align([(["the", "child", "reads", "."], ["das", "kind", "liest", "."])])
    assert plain == aligner.align([(["The", "CHILD", "reads", "."], ["DAS", "Kind", "Liest", "."])])
    odd = (["NULL", "UNKNOWN_WORD", "|||", "."], ["NULL", "<UNUSED_WORD>", "|||", "."])
    other = (["qqa", "qqb", "qqc", "."], ["qqd", "qqe", "qqf", "."])
    assert aligner.align([odd]) == aligner.align([other]), "all of them are just unseen words"


def test_rewards_by_a_real_aligner(aligner: Aligner, test_texts: Texts) -> None:
    sources, references = (side[:50] for side in test_texts)
    assert sentence_cdr(aligner, sources, references, references) == [1] * 50
    assert sentence_cdr(aligner, sources, references, [""] * 50) == [0] * 50
    half = [" ".join(text.split()[: len(text.split()) // 2]) for text in references]
    assert 0.3 < mean(sentence_cdr(aligner, sources, references, half)) < 0.7


def test_words_of_the_right_number_are_no_translation(aligner: Aligner, test_texts: Texts) -> None:
    sources, references = (side[:50] for side in test_texts)
    junk = [" ".join(f"q{place}" for place in range(len(text.split()))) for text in references]
    assert sentence_cdr(aligner, sources, references, junk) == [0] * 50
    by_length = sorted(range(50), key=lambda number: len(references[number].split()))
    other = dict(zip(by_length, by_length[1:] + by_length[:1], strict=True))
    wrong = [references[other[number]] for number in range(50)]
    assert mean(sentence_cdr(aligner, sources, references, wrong)) < 0.4


@pytest.mark.parametrize("word", ["", "two words", "a\u3000b"])
def test_words_that_are_none_are_refused(aligner: Aligner, word: str) -> None:
    with pytest.raises(UntoldError, match="an empty word or one with a blank"):
        aligner.align([(["a"], ["b", word])])
    with pytest.raises(UntoldError, match="an empty word or one with a blank"):
        Aligner.train([([word], ["b"])], QUICK)


def test_nothing_to_learn_from_is_said() -> None:
    with pytest.raises(UntoldError, match="no words to learn alignment from in 2 pairs"):
        train_aligner(["", "a"], ["b", ""], QUICK)


def test_chinese_without_blanks_is_refused_before_training() -> None:
    with pytest.raises(UntoldError, match="the source side"):
        train_aligner(["我们的新家有一台电梯。"], ["Our new home has an elevator ."], QUICK)


def test_a_place_without_an_aligner_and_a_damaged_one_are_named(
    tmp_path: Path, aligner: Aligner
) -> None:
    with pytest.raises(UntoldError, match=r"no aligner there: make one with untold align --save"):
        load_aligner(tmp_path)
    aligner.save(tmp_path / "saved")
    (tmp_path / "saved" / "forward.params").write_bytes(b"")
    with pytest.raises(UntoldError, match=r"forward\.params"):
        load_aligner(tmp_path / "saved")


def test_without_thot_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "thot.alignment", None)
    with pytest.raises(UntoldError, match=r"pip install 'untold\[align\]'"):
        Aligner.train([(["a"], ["b"])], QUICK)
