"""Joined sentences stay pairs, and each number of them has its part of a development set."""

from hypothesis import given
from hypothesis import strategies as st

from untold.lab.long_and_noisy import join_lines, join_parts


def pairs(count):
    return [f"s{place}" for place in range(count)], [f"t{place}" for place in range(count)]


@given(st.integers(0, 30), st.integers(1, 5))
def test_joined_lines_are_translations_of_each_other(count, joined):
    """None is there twice, and fewer are left over than one more line would need."""
    sources, targets = join_lines(*pairs(count), joined, seed=1)
    assert [line.replace("s", "t") for line in sources] == targets
    words = " ".join(sources).split()
    assert len(words) == len(set(words)) == count - count % joined
    assert all(len(line.split()) == joined for line in sources)


def test_single_lines_keep_their_order():
    assert join_lines(*pairs(3), 1, seed=1) == pairs(3)


def test_parts_of_a_text_are_joined_by_their_own_numbers():
    sources, targets = join_parts(*pairs(24), (1, 2, 3, 4))
    assert [len(line.split()) for line in sources] == [1] * 6 + [2] * 3 + [3] * 2 + [4]
    assert [line.replace("s", "t") for line in sources] == targets
    assert set(" ".join(sources[:6]).split()) == {f"s{place}" for place in range(6)}
    assert join_parts(*pairs(5), (1,)) == pairs(5)
