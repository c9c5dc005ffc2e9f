"""Alignments in Pharaoh format are read and scored, and malformed links are refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.corpus.alignments import (
    Alignment,
    alignment_error_rate,
    check_alignments,
    read_alignments,
    write_alignments,
)
from untold.errors import UntoldError

LINKS = st.sets(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8)


def write(folder: Path, text: str) -> Path:
    path = folder / "links"
    path.write_bytes(text.encode())
    return path


def test_sure_and_possible_links_by_hand(tmp_path: Path) -> None:
    first, second = read_alignments(write(tmp_path, "0-1 2p0 12-30\n1-1 1p1\n"))
    assert first.sure == {(0, 1), (12, 30)}
    assert first.possible == {(0, 1), (2, 0), (12, 30)}, "a sure link is possible, too"
    assert second == Alignment(frozenset({(1, 1)}), frozenset({(1, 1)}))


def test_an_empty_line_is_a_pair_without_links(tmp_path: Path) -> None:
    found = read_alignments(write(tmp_path, "\n0-0\n \n"))
    assert [sorted(each.possible) for each in found] == [[], [(0, 0)], []]
    assert read_alignments(write(tmp_path, "")) == []


def test_targets_are_the_sure_ones_in_order() -> None:
    sure = frozenset({(1, 7), (1, 2), (3, 0), (1, 11)})
    alignment = Alignment(sure, sure | {(1, 5), (2, 2)})
    assert [alignment.targets(word) for word in range(4)] == [[], [2, 7, 11], [], [0]]


@given(st.lists(st.tuples(LINKS, LINKS), max_size=5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, pairs: list) -> None:
    lines = [
        " ".join([f"{i}-{j}" for i, j in sure] + [f"{i}p{j}" for i, j in possible])
        for sure, possible in pairs
    ]
    path = write(tmp_path_factory.mktemp("links"), "".join(f"{line}\n" for line in lines))
    expected = [Alignment(frozenset(sure), frozenset(sure | maybe)) for sure, maybe in pairs]
    assert read_alignments(path) == expected


@pytest.mark.parametrize(
    "bad", ["0", "0:1", "0-1-2", "-1-0", "a-b", "0-", "0P1", "0-1,1-2", "1-٣x"]
)
def test_what_is_no_link_is_named_with_its_place(tmp_path: Path, bad: str) -> None:
    path = write(tmp_path, f"0-0\n1-0 {bad} 2-2\n")
    with pytest.raises(UntoldError) as refusal:
        read_alignments(path)
    assert str(refusal.value).startswith(f"{path}:2: {bad!r} is no link: write i-j")


def both(sure: set, possible: set) -> Alignment:
    return Alignment(frozenset(sure), frozenset(sure | possible))


@given(st.lists(st.builds(both, LINKS, LINKS), max_size=5))
def test_what_we_write_is_what_we_read(
    tmp_path_factory: pytest.TempPathFactory, alignments: list[Alignment]
) -> None:
    path = tmp_path_factory.mktemp("links") / "links"
    write_alignments(path, alignments)
    assert read_alignments(path) == alignments


def test_links_are_written_in_order(tmp_path: Path) -> None:
    write_alignments(tmp_path / "links", [both({(10, 0), (2, 3)}, {(2, 1)}), both(set(), set())])
    assert (tmp_path / "links").read_text() == "2p1 2-3 10-0\n\n"


def test_the_error_rate_by_hand() -> None:
    gold = [both({(0, 0), (1, 1)}, {(1, 2)}), both({(0, 1)}, set())]
    found = [both({(0, 0), (1, 2), (2, 2)}, set()), both(set(), set())]
    # A 3, S 3; of A one is sure, two are possible: 1 - (1 + 2) / (3 + 3)
    assert alignment_error_rate(found, gold) == pytest.approx(0.5)
    assert alignment_error_rate([both(set(), set())], [both(set(), {(0, 0)})]) is None


@given(st.lists(st.builds(both, LINKS, LINKS), max_size=5))
def test_finding_the_sure_links_is_no_error(gold: list[Alignment]) -> None:
    found = [both(set(each.sure), set()) for each in gold]
    assert alignment_error_rate(found, gold) in (0, None)


def test_links_must_belong_to_their_pairs(tmp_path: Path) -> None:
    pairs = [(["a", "b"], ["c"])]
    check_alignments(tmp_path, [both({(1, 0)}, set())], pairs)
    with pytest.raises(UntoldError, match="has 2 lines for 1 sentence pairs"):
        check_alignments(tmp_path, [both(set(), set())] * 2, pairs)
    for link in ((2, 0), (0, 1)):
        with pytest.raises(UntoldError, match=f"link {link[0]}-{link[1]} leads out of a pair of 2"):
            check_alignments(tmp_path, [both(set(), {link})], pairs)
