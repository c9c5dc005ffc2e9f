"""Evidence: finite whatever was read, and in the right direction."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from untold.checking.evidence import (
    lexicon_evidence,
    log_odds,
    segment_evidence,
    share_evidence,
    source_evidence,
    target_evidence,
)
from untold.decoding.scoring import ReadPair
from untold.storage.calibration import SEGMENT_EVIDENCE, SOURCE_EVIDENCE, TARGET_EVIDENCE

SHARES = st.floats(0, 1, width=32)
PIECES = st.lists(st.sampled_from(["▁", "▁a", "b", "<unk>", "<0xE6>", "字", "▁.", "ﬁ"]), max_size=6)


@st.composite
def fields(draw: st.DrawFn) -> tuple[Any, ...]:
    """The fields of a ReadPair, which must be made outside: beartype draws random numbers."""
    source, target = tuple(draw(PIECES)), tuple(draw(PIECES))
    i, t = len(source), len(target)

    def drawn(values: st.SearchStrategy[float], *shape: int) -> np.ndarray:
        return draw(arrays.arrays(np.float32, shape, elements=values))

    return (
        source,
        target,
        drawn(SHARES, t + 1, i, 3),
        drawn(SHARES, t, i),
        drawn(SHARES, t, i),
        drawn(SHARES, i),
        drawn(st.one_of(SHARES, st.just(float("nan"))), i),
        drawn(st.floats(-np.inf, 0, width=32), t + 1),
    )


@given(fields(), st.lists(st.floats(-1e9, 1e9), max_size=6))
def test_evidence_is_finite_for_any_pair(fields: tuple[Any, ...], odds: list[float]) -> None:
    pair = ReadPair(*fields)
    source = source_evidence(pair, pair.source_words)
    target = target_evidence(pair, pair.target_words)
    segment = segment_evidence(pair, np.array(odds, float))
    assert source.shape == (len(pair.source_words), len(SOURCE_EVIDENCE))
    assert target.shape == (len(pair.target_words), len(TARGET_EVIDENCE))
    assert segment.shape == (len(SEGMENT_EVIDENCE),)
    for each in (source, target, segment):
        assert np.isfinite(each).all()


def example() -> ReadPair:
    """Two source words, of which the second is untold, and a target word that repeats the first."""
    return ReadPair(
        source=("▁a", "▁b", "c"),
        target=("▁x", "▁y"),
        shares=np.array(
            [
                [[0.1, 0.8, 0.1], [0, 0.9, 0.1], [0, 0.9, 0.1]],
                [[0.9, 0.0, 0.1], [0, 0.9, 0.1], [0, 0.9, 0.1]],
                [[0.9, 0.0, 0.1], [0.1, 0.8, 0.1], [0, 0.9, 0.1]],
            ],
            np.float32,
        ),
        links=np.array([[0.9, 0.0, 0.2], [0.0, 0.0, 0.2]], np.float32),
        origins=np.array([[0.9, 0.0, 0.0], [0.5, 0.0, 0.0]], np.float32),
        alone=np.array([0.1, 0.9, 0.5], np.float32),
        covered=np.array([1.0, 0.1, 0.1], np.float32),
        log_probabilities=np.array([-0.1, -2.0, -3.0], np.float32),
    )


def test_source_evidence_by_hand() -> None:
    told, untold = source_evidence(example(), example().source_words)
    found = dict(zip(SOURCE_EVIDENCE, zip(told, untold, strict=True), strict=True))
    for name in ("untold", "uncovered"):
        assert found[name][1] > found[name][0], name
    # FUTURE and PAST of the two pieces are 1.7 and .1, and on average they are alone by .7.
    by_hand = 1 - (0.1 / 1.8) * (1 - 0.7)
    assert found["untold"][1] == pytest.approx(np.log(by_hand / (1 - by_hand)), rel=1e-4)
    assert found["uncovered"][1] == pytest.approx(-np.log(0.1), rel=1e-5)
    assert found["redundant"][0] == pytest.approx(np.log(0.1 / 0.9), rel=1e-5)
    assert found["content"] == (1.0, 1.0)


def test_evidence_of_shares_and_of_the_lexicon_by_hand() -> None:
    words = example().source_words
    shares, lexicon = share_evidence(example(), words), lexicon_evidence(example(), words)
    assert shares[1, 0] == pytest.approx(np.log(1.7 / 0.1), rel=1e-4)
    assert lexicon[1] == pytest.approx(np.log(0.8 / 0.2), rel=1e-5)  # mean of 1 and .6


def test_target_evidence_by_hand() -> None:
    good, strange = target_evidence(example(), example().target_words)
    found = dict(zip(TARGET_EVIDENCE, zip(good, strange, strict=True), strict=True))
    for name in ("unexplained", "unlinked", "rise", "repeated", "surprise"):
        assert found[name][1] > found[name][0], name
    assert found["unexplained"][1] == pytest.approx(0.0, abs=1e-5)
    assert found["rise"] == pytest.approx((-np.log(0.81), -np.log(0.11)), rel=1e-4)
    assert found["repeated"][1] == pytest.approx(log_odds(np.array([0.45]))[0], rel=1e-4)
    assert found["surprise"] == pytest.approx((0.1, 2.0))


def test_segment_evidence_by_hand() -> None:
    found = segment_evidence(example(), np.array([0.0, 1.0]))
    assert found == pytest.approx([1.0, np.log(1 + np.e), -3.0, 1.7])
    assert segment_evidence(example(), np.zeros(0))[:2].tolist() == [-10, -10]


@given(st.floats(0, 1))
def test_log_odds_are_odd_and_monotonous(share: float) -> None:
    one, other, more = log_odds(np.array([share, 1 - share, min(1.0, share + 0.01)]))
    assert one == pytest.approx(-other, abs=1e-6) and more >= one
