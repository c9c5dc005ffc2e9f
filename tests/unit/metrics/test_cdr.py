"""Coverage by hand, against a slow count, and by an aligner whose links anyone can see."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.alignment.aligners import Aligner
from untold.config import AlignerConfig
from untold.corpus.alignments import Alignment
from untold.errors import UntoldError
from untold.metrics.cdr import cdr, cdr_of_links, covered_words, measure_cdr, sentence_cdr

LINKS = st.frozensets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=9)


class SameWord:
    """Links equal words, and remembers how many pairs it was asked about."""

    def __init__(self) -> None:
        self.asked = 0

    def links(
        self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
    ) -> list[frozenset[tuple[int, int]]]:
        self.asked += len(pairs)
        return [
            frozenset((i, j) for i, s in enumerate(a) for j, t in enumerate(b) if s == t)
            for a, b in pairs
        ]

    def translates(self, source: str, target: str) -> float:
        return float(source == target)

    def save(self, folder: Path) -> None:
        raise NotImplementedError


@pytest.fixture
def aligner() -> Aligner:
    return Aligner(AlignerConfig(), SameWord())


def links(*found: tuple[int, int]) -> Alignment:
    return Alignment(frozenset(found), frozenset(found))


def test_the_figures_of_two_sentences_by_hand() -> None:
    references = [links((0, 0), (1, 1), (2, 2), (2, 3)), links((0, 0)), links()]
    hypotheses = [
        links((1, 0), (2, 1), (4, 2), (4, 3), (2, 4), (2, 5)),
        links((0, 0)),
        links((3, 0)),
    ]
    found = cdr_of_links(references, hypotheses)
    # C_ref {0,1,2} and {0}; C_gen {1,2,4} and {0}; the third sentence is skipped.
    assert found.macro == pytest.approx((2 / 3 + 1) / 2)
    assert found.micro == pytest.approx(3 / 4)
    assert found.under == pytest.approx(1 / 4)
    assert found.over == pytest.approx(1 / 4)
    # Word 2 has three links, not two; word 4 has two, not one. Word 1 and word 0 have one.
    assert found.repeated == pytest.approx(2 / 4)
    assert (found.sentences, found.skipped) == (2, 1)


def test_only_sure_links_cover() -> None:
    possible = Alignment(frozenset({(0, 0)}), frozenset({(0, 0), (1, 0)}))
    assert cdr_of_links([possible], [links((0, 0))]).macro == 1
    assert cdr_of_links([links((0, 0), (1, 0))], [possible]).macro == 0.5


def test_without_any_covered_word_there_is_no_ratio() -> None:
    with pytest.raises(UntoldError, match="in none of 2 sentences"):
        cdr_of_links([links(), links()], [links((0, 0)), links()])


@given(st.lists(st.tuples(LINKS, LINKS), min_size=1, max_size=5))
def test_the_figures_against_a_slow_count(pairs: list) -> None:
    ratios, kept, missed, said, added, repeated = [], 0, 0, 0, 0, 0
    for reference, hypothesis in pairs:
        wanted = [i for i in range(7) if any(i == a for a, _ in reference)]
        told = [i for i in range(7) if any(i == a for a, _ in hypothesis)]
        if not wanted:
            continue
        lost = [i for i in wanted if i not in told]
        ratios.append(1 - len(lost) / len(wanted))
        kept, missed, said = kept + len(wanted), missed + len(lost), said + len(told)
        added += len([i for i in told if i not in wanted])
        for i in told:
            now, then = (len([a for a, _ in each if a == i]) for each in (hypothesis, reference))
            repeated += now > then and now > 1
    alignments = [[links(*each) for each in side] for side in zip(*pairs, strict=True)]
    if not ratios:
        with pytest.raises(UntoldError):
            cdr_of_links(*alignments)
        return
    found = cdr_of_links(*alignments)
    assert found.macro == pytest.approx(sum(ratios) / len(ratios))
    assert found.micro == pytest.approx(1 - missed / kept)
    assert found.under == pytest.approx(missed / kept)
    assert found.over == pytest.approx(added / said if said else 0)
    assert found.repeated == pytest.approx(repeated / said if said else 0)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8).map(" ".join))
def test_the_reference_itself_covers_all_and_silence_nothing(text: str) -> None:
    aligner = Aligner(AlignerConfig(), SameWord())
    assert sentence_cdr(aligner, [text, text], [text, text], [text, ""]) == [1, 0]
    found = measure_cdr(aligner, [text], [text], [text])
    assert (found.macro, found.micro, found.over, found.repeated) == (1, 1, 0, 0)
    silent = measure_cdr(aligner, [text], [text], [""])
    assert (silent.macro, silent.under, silent.over, silent.repeated) == (0, 1, 0, 0)


def test_rewards_of_sentences(aligner: Aligner) -> None:
    sources = ["a b c d", "a b c d", "a b c d", "x y", "q"]
    references = ["d b a", "d b a", "d b a", "y", "nothing"]
    hypotheses = ["a", "c b a", "a b d", "x", "q"]
    assert sentence_cdr(aligner, sources, references, hypotheses) == pytest.approx(
        [1 / 3, 2 / 3, 1, 0, 1]  # the last: the reference covers nothing, so nothing is missed
    )


def test_a_pair_that_comes_again_is_aligned_once(aligner: Aligner) -> None:
    sentence_cdr(aligner, ["a b"] * 5, ["b a"] * 5, ["a", "a", "b", "b", "b a"])
    assert isinstance(aligner.backend, SameWord)
    assert aligner.backend.asked == 1 + 3


def test_kept_coverage_gives_the_same_rewards(aligner: Aligner) -> None:
    sources, references, hypotheses = ["a b c", "d e"], ["c a", "e"], ["c", "d e"]
    kept = covered_words(aligner, sources, references)
    assert kept == [frozenset({0, 2}), frozenset({1})]
    now = covered_words(aligner, sources, hypotheses)
    assert list(map(cdr, kept, now)) == sentence_cdr(aligner, sources, references, hypotheses)


class Anywhere(SameWord):
    """Links words of the same place, and knows how probable some translations are."""

    def links(
        self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
    ) -> list[frozenset[tuple[int, int]]]:
        return [frozenset((i, i) for i in range(min(map(len, pair)))) for pair in pairs]

    def translates(self, source: str, target: str) -> float:
        return {"ab": 0.02, "cd": 0.009}.get(source + target, 0.0)


def test_a_link_covers_only_with_evidence_or_between_equal_words() -> None:
    aligner = Aligner(AlignerConfig(evidence=0.01), Anywhere())
    texts = ["a c x Tom a"], ["b d y tom junk"]
    assert covered_words(aligner, *texts) == [frozenset({0, 3})]
    (all_links,) = aligner.align(aligner.split(*texts))
    assert all_links.sure == {(i, i) for i in range(5)}, "alignment itself keeps all links"


def test_texts_that_do_not_belong_together_are_refused(aligner: Aligner) -> None:
    with pytest.raises(ValueError, match="shorter"):
        sentence_cdr(aligner, ["a", "b"], ["a", "b"], ["a"])
