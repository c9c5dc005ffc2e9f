"""Links of a model: how they are joined and read from a pair, and which pairs have none."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.alignment.model_links import (
    WAYS,
    LinkReader,
    Unlinked,
    WordLink,
    align_pairs,
    flip_steps,
    grow_diag_final_and,
    link_displayed_words,
    turning_links,
)
from untold.corpus.words import Word, words_between_spaces
from untold.decoding.scoring import ReadPair
from untold.errors import UntoldError
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel

CATEGORY = {"P": (1.0, 0.0, 0.0), "F": (0.0, 1.0, 0.0), "R": (0.0, 0.0, 1.0), "-": (0.5, 0.5, 0.0)}


def links(text: str) -> frozenset[tuple[int, int]]:
    """Parses "0-1 1-0"."""
    pairs = (link.split("-") for link in text.split())
    return frozenset((int(i), int(j)) for i, j in pairs)


def swapped(found: frozenset[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    return frozenset((j, i) for i, j in found)


ANY_LINKS = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(ANY_LINKS, ANY_LINKS)
def test_joined_links_lie_between_the_intersection_and_the_union(forward, backward):
    found = grow_diag_final_and(forward, backward)
    assert forward & backward <= found <= forward | backward
    assert grow_diag_final_and(backward, forward) == found
    assert grow_diag_final_and(swapped(forward), swapped(backward)) == swapped(found)
    assert grow_diag_final_and(forward, forward) == forward
    left = (forward | backward) - found
    sources, targets = {i for i, _ in found}, {j for _, j in found}
    assert all(i in sources or j in targets for i, j in left), "a link of free words was left out"


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        ("", "", ""),
        ("0-0", "", "0-0"),  # final: both words are free
        ("0-0 1-1", "0-0 1-1", "0-0 1-1"),
        ("0-0 1-0", "0-0", "0-0 1-0"),  # grow: beside a link, and word 1 is free
        ("0-0 1-1", "0-0", "0-0 1-1"),  # diagonally, too
        ("0-0 2-2", "0-0", "0-0 2-2"),  # final: not beside it, but both words are free
        ("0-0 2-0", "0-0", "0-0"),  # not beside it, and the target word has a link already
        ("0-0 1-1 0-1", "0-0 1-1", "0-0 1-1"),  # beside it, but both words have links
        ("0-0 1-0 2-0", "0-0", "0-0 1-0 2-0"),  # round by round along a phrase
        ("0-0 3-3", "0-0 3-4", "0-0 3-3 3-4"),  # rivals of the last round are judged together
    ],
)
def test_joined_links_by_hand(forward: str, backward: str, expected: str) -> None:
    assert grow_diag_final_and(links(forward), links(backward)) == links(expected)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("FFFP", 3),
        ("FPPP", 1),
        ("PPPP", 0),  # always
        ("FFFF", 4),  # never
        ("FPFFP", 4),  # it goes back for longer than it was past
        ("FPFPP", 1),  # .. or not
        ("FF-PP", 2),  # either would do: the first
    ],
)
def test_a_word_turns_where_a_change_fits_best(column: str, expected: int) -> None:
    shares = np.array([[CATEGORY[cell]] for cell in column])
    assert flip_steps(shares).tolist() == [expected]


@given(st.lists(st.lists(st.integers(-4, 4), min_size=3, max_size=3), min_size=1, max_size=7))
def test_turns_are_those_of_trying_all(gains: list[list[int]]) -> None:
    gain = np.array(gains, dtype=np.float64) / 8
    shares = np.stack([0.5 + gain, 0.5 - gain, np.zeros_like(gain)], axis=-1)
    steps = len(gain)
    for word, found in enumerate(flip_steps(shares)):
        fits = [
            sum(gain[t, word] if t >= flip else -gain[t, word] for t in range(steps))
            for flip in range(steps + 1)
        ]
        assert found == fits.index(max(fits))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("FFP", "0-1"),
        ("FPP", "0-0"),
        ("PPP", ""),
        ("FFF", ""),
        ("RRR", ""),
        ("RRP", ""),
        ("RFP", "0-1"),
    ],
)
def test_a_word_is_linked_to_the_one_after_which_it_turns(column: str, expected: str) -> None:
    """Words that never turn, or are redundant at most steps, have no link."""
    assert turning_links(np.array([[CATEGORY[cell]] for cell in column])) == links(expected)


# Two source words of two pieces and of one; two target words of one piece and of two.
READ = ReadPair(
    source=("▁do", "gs", "▁bark"),
    target=("▁bellen", "▁Hun", "de"),
    shares=np.array([[CATEGORY[cell] for cell in row] for row in ("FFF", "FFP", "-PP", "PPP")]),
    links=np.array([[0.0, 0.1, 0.9], [0.5, 0.0, 0.0], [0.0, 0.2, 0.0]]),
    origins=np.array([[0.0, 0.0, 0.2], [0.2, 0.0, 0.0], [0.0, 0.8, 0.1]]),
    alone=np.zeros(3),
    covered=np.full(3, np.nan),
    log_probabilities=np.zeros(4),
)


def sides(pair: ReadPair) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    return words_between_spaces("", pair.source), words_between_spaces("", pair.target)


def test_links_of_displayed_words_have_the_likelier_of_two_probabilities() -> None:
    assert link_displayed_words(READ) == (WordLink(0, 1, 0.8), WordLink(1, 0, 0.9))
    unspaced = replace(READ, source=("▁犬", "が", "▁bark"))  # three words, not two
    assert link_displayed_words(unspaced) == (
        WordLink(0, 1, 0.5),
        WordLink(1, 1, 0.8),
        WordLink(2, 0, 0.9),
    )
    blank = replace(READ, target=(), links=np.zeros((0, 3)), origins=np.zeros((0, 3)))
    assert link_displayed_words(blank) == ()


@pytest.mark.parametrize("way", list(WAYS))
def test_pieces_become_words_in_every_way(way: str) -> None:
    found = WAYS[way](READ, *sides(READ))
    assert found == links("0-1 1-0")


def read(**changes: object) -> frozenset[tuple[int, int]]:
    pair = replace(READ, **changes)
    return WAYS["links"](pair, *sides(pair))


def test_weak_links_do_not_count() -> None:
    """A link or an origin must be above .3; either direction alone is enough for free words."""
    nothing = np.zeros((3, 3))
    weak = np.array([[0.0, 0.0, 0.3], [0.29, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert read(links=weak, origins=nothing) == frozenset()
    assert read(links=weak + 0.02, origins=nothing) == links("0-1 1-0")
    assert read(links=nothing, origins=weak + 0.02) == links("0-1 1-0")


def test_every_rise_of_past_is_a_link() -> None:
    rows = ("FF", "-F", "PF", "PR")
    shares = np.array([[CATEGORY[cell] for cell in row] for row in rows])
    texts = {"source": ("▁a", "▁b"), "target": ("▁x", "▁y", "▁z")}
    none = {"links": np.zeros((3, 2)), "origins": np.zeros((3, 2))}
    none |= {"alone": np.zeros(2), "covered": np.zeros(2)}
    pair = replace(READ, shares=shares, **texts, **none)
    found = WAYS["assignments"](pair, *sides(pair))
    assert found == links("0-0 0-1")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def make_model(corpus: Path, kind: str = "gdr") -> TrainedModel:
    shape = toy_config(corpus).model.model_dump() | {"separator": {"kind": kind}}
    config = toy_config(corpus, model=shape)
    tokenizers = toy_tokenizers(corpus, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    network = fill(build_model(config.model, sizes, shared=tokenizers.joint)).eval()
    return TrainedModel(network, config, tokenizers)


@pytest.fixture(scope="module")
def trained(corpus: Path) -> TrainedModel:
    return make_model(corpus)


PAIRS = [("abcd ef g", "g ef abcd"), ("hgfe", "hgfe hh"), ("a  bcda", "dcba bcd a ")]


@pytest.mark.parametrize("by", list(WAYS))
def test_links_depend_on_their_pair_alone_and_count_words_between_blanks(
    trained: TrainedModel, by: str
) -> None:
    together = align_pairs(trained, PAIRS, by)
    assert together == [align_pairs(trained, [pair], by)[0] for pair in PAIRS]
    for found, (source, target) in zip(together, PAIRS, strict=True):
        assert found.sure == found.possible
        found.check(source.split(), target.split(), "found")


def test_a_blank_side_has_no_links_and_progress_counts_all(trained: TrainedModel) -> None:
    heard: list[int] = []
    pairs = [*PAIRS, ("", "abc"), ("abc", " \t"), ("", "")]
    found = list(LinkReader(trained).align(pairs, heard.append))
    assert sum(heard) == len(pairs)
    assert found[:3] == align_pairs(trained, PAIRS)
    assert all(not isinstance(each, Unlinked) and not each.possible for each in found[3:])
    assert align_pairs(trained, []) == []


def test_pairs_that_have_no_links_are_told_and_named(trained: TrainedModel) -> None:
    reader = LinkReader(trained, batch_tokens=50)
    long = " ".join(["abcd"] * 400)
    good, bad, last = reader.align([PAIRS[0], ("a", long), PAIRS[1]])
    assert not isinstance(good, Unlinked) and not isinstance(last, Unlinked)
    assert isinstance(bad, Unlinked) and "are read: divide it" in bad.reason
    # An unusual blank is one for Python and none for the tokenizer, so words are counted otherwise.
    odd = ("a\x1cb", "a b")
    with pytest.raises(UntoldError, match=r"pair 2: 'a b' has 2 words, but 1 for the tokenizer"):
        align_pairs(trained, [PAIRS[0], odd])
    chinese = [("我们的新家有一台电梯。", "a b")]
    with pytest.raises(UntoldError, match="pair 1: the source side is written without blanks"):
        align_pairs(trained, chinese)
    with pytest.raises(UntoldError, match="the target side is written without blanks"):
        align_pairs(trained, [(target, source) for source, target in chinese])


def test_other_models_and_other_ways_are_refused(trained: TrainedModel, corpus: Path) -> None:
    with pytest.raises(
        UntoldError, match=re.escape("'turns' is no way to link words; known: links")
    ):
        align_pairs(trained, PAIRS, "turns")
    with pytest.raises(UntoldError, match="does not separate past and future"):
        align_pairs(make_model(corpus, "none"), PAIRS)
