"""Past, future and redundant against alignments: every figure by hand, or by a plain count."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.corpus.alignments import Alignment
from untold.errors import UntoldError
from untold.metrics.separation import (
    PairTrace,
    Separation,
    auc,
    measure_separation,
    omission_auc,
    position_rule,
)

P, F, R = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
CATEGORY = {"P": P, "F": F, "R": R, "-": (0.5, 0.5, 0.0)}
CATEGORY |= {"p": (0.4, 0.0, 0.6), "f": (0.0, 0.4, 0.6)}  # but mostly redundant


def alignment(sure: str, possible: str = "") -> Alignment:
    """alignment("0-1 2-0")."""
    links = [
        frozenset((int(i), int(j)) for i, _, j in (link.partition("-") for link in text.split()))
        for text in (sure, f"{sure} {possible}")
    ]
    return Alignment(*links)


def trace(rows: list[str] | np.ndarray, links: Alignment, source: str = "") -> PairTrace:
    """Rows of letters, before each target word and before the end; or shares."""
    if isinstance(rows, list):
        rows = np.array([[CATEGORY[cell] for cell in row] for row in rows], dtype=np.float32)
    words = tuple(source.split()) or tuple(f"w{i}" for i in range(rows.shape[1]))
    return PairTrace(words, tuple(f"v{j}" for j in range(len(rows) - 1)), rows, links)


def perfect(size: int, length: int, links: Alignment) -> PairTrace:
    """What a model that knows all would say; a word that is said in part is half past."""
    rows = []
    for t in range(length + 1):
        row = ""
        for i in range(size):
            said = [j < t for j in links.targets(i)]
            row += "R" if not said else "P" if all(said) else "-" if any(said) else "F"
        rows.append(row)
    return trace(rows, links)


# Two words that change places and one that is not translated: the position rule is wrong on it.
SWAPPED = alignment("0-1 1-0")


def test_perfect_shares_have_perfect_figures() -> None:
    traces = [perfect(3, 2, SWAPPED), perfect(4, 4, alignment("0-3 1-1 3-0"))]
    found = measure_separation(traces)
    assert found == Separation(
        auc=1.0,
        accuracy=1.0,
        accuracy_off_rule=1.0,
        category_accuracy=1.0,
        category_accuracy_off_rule=1.0,
        flips=1.0,
        redundant_auc=1.0,
        past_course=found.past_course,
        future_start=1.0,
        future_end=0.0,
        aer=0.0,
    )
    # t/T = 0, 1/4 .. 1 are steps 0 0 1 2 2 of two words (halves to the even step), and 0 .. 4 of
    # four: (0, 0, 1/2, 1, 1) and (0, 1/3, 2/3, 2/3, 1).
    assert found.past_course == pytest.approx((0, 1 / 6, 7 / 12, 5 / 6, 1))


def test_shares_that_are_all_wrong_have_the_opposite_ones() -> None:
    turned = perfect(2, 2, alignment("0-1 1-0")).shares[..., [1, 0, 2]]
    found = measure_separation([trace(turned, alignment("0-1 1-0"))])
    assert (found.auc, found.accuracy, found.accuracy_off_rule) == (0.0, 0.0, 0.0)
    assert (found.category_accuracy, found.category_accuracy_off_rule) == (0.0, 0.0)
    assert (found.future_start, found.future_end) == (0.0, 1.0)
    assert found.past_course == (1.0, 1.0, 0.5, 0.0, 0.0)
    assert found.aer == 1.0


@given(st.data())
def test_perfect_shares_of_any_alignment(data: st.DataObject) -> None:
    size, length = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    cells = [(i, j) for i in range(size) for j in range(length)]
    sure = frozenset(data.draw(st.sets(st.sampled_from(cells))))
    found = measure_separation([perfect(size, length, Alignment(sure, sure))])
    linked = {i for i, _ in sure}
    for value in (found.category_accuracy, found.category_accuracy_off_rule, found.redundant_auc):
        assert value in (1.0, None)
    assert (found.redundant_auc is None) == (len(linked) in (0, size))
    assert (found.auc, found.accuracy) == ((1.0, 1.0) if linked else (None, None))
    assert (found.future_start, found.future_end) == ((1.0, 0.0) if linked else (None, None))
    assert found.past_course[::4] == ((0.0, 1.0) if linked else ())


def test_a_word_with_several_links_is_not_counted_between_them() -> None:
    """v0 v1 v2 v3, the word is said by v1 and v3: future at 0 1, neither at 2 3, past at 4."""
    links = alignment("0-3 0-1")
    for between in ("P", "F", "R", "-"):
        found = measure_separation([trace(["F", "F", between, between, "P"], links)])
        assert (found.accuracy, found.category_accuracy, found.auc) == (1.0, 1.0, 1.0), between
    # Each of the three cells that count is a third; past at the first step is wrong.
    found = measure_separation([trace(["P", "F", "R", "R", "P"], links)])
    assert found.accuracy == found.category_accuracy == pytest.approx(2 / 3)
    assert found.auc == pytest.approx(0.75)  # of two pairs one is even


def test_possible_links_make_no_category() -> None:
    links = alignment("0-0", possible="1-1")
    found = measure_separation([trace(["FR", "PR", "PR"], links)])
    assert found.category_accuracy == found.redundant_auc == 1.0
    found = measure_separation([trace(["FF", "PF", "PP"], links)])
    assert found.category_accuracy == 0.5 and found.accuracy == 1.0


def test_past_against_future_by_hand() -> None:
    """P/(P+F), whatever the redundant share; a word of which nothing is either is even."""
    shares = np.array(
        [
            [[0.1, 0.3, 0.6], [0.4, 0.1, 0.5]],  # .25 future, .8 future: wrong
            [[0.3, 0.1, 0.6], [0.0, 0.0, 1.0]],  # .75 past, .5 future
            [[0.1, 0.1, 0.8], [0.9, 0.1, 0.0]],  # .5 past, not above a half: wrong; .9 past
        ],
        dtype=np.float64,
    )
    found = measure_separation([trace(shares, alignment("0-0 1-1"))])
    # past .75 .5 .9 against future .25 .8 .5: 1 0 1, 1 0 half, 1 1 1.
    assert found.auc == pytest.approx(6.5 / 9)
    assert found.accuracy == pytest.approx(4 / 6)
    # Of all three the largest: R P / R R / R P against F F / P F / P P.
    assert found.category_accuracy == pytest.approx(1 / 6)
    assert found.future_start == pytest.approx((0.3 + 0.1) / 2)
    assert found.future_end == pytest.approx(0.1)
    assert found.redundant_auc is None
    assert found.past_course == pytest.approx((0.25, 0.25, 0.15, 0.5, 0.5))


def test_the_position_rule_by_hand() -> None:
    """Word i of 3 is past at step t of 4 when i/3 < t/4."""
    found = position_rule(trace(["FFF"] * 5, alignment("0-0")))
    expected = trace(["FFF", "PFF", "PPF", "PPP", "PPP"], alignment("0-0"))
    np.testing.assert_array_equal(found.shares, expected.shares)
    assert (found.source, found.target) == (expected.source, expected.target)
    assert found.alignment == expected.alignment


def test_on_a_monotone_pair_the_rule_is_always_right() -> None:
    found = perfect(4, 4, alignment("0-0 1-1 2-2 3-3"))
    for each in (found, position_rule(found)):
        figures = measure_separation([each])
        assert (figures.accuracy, figures.flips, figures.aer) == (1.0, 1.0, 0.0)
        assert figures.accuracy_off_rule is figures.category_accuracy_off_rule is None


def test_cells_off_the_rule() -> None:
    """v0 says w1 and v1 says w0: the rule is wrong at step 1 alone, on both words."""
    links = alignment("0-1 1-0")
    on_rule = trace(["FF", "PF", "PP"], links)
    assert measure_separation([on_rule]) == measure_separation([position_rule(on_rule)])
    figures = measure_separation([on_rule])
    assert figures.accuracy == pytest.approx(4 / 6) and figures.accuracy_off_rule == 0.0
    for row, past_or_future, of_three in (("FP", 1, 1), ("PP", 0.5, 0.5), ("FR", 0.5, 0.5)):
        figures = measure_separation([trace(["FF", row, "PP"], links)])
        assert figures.accuracy_off_rule == past_or_future
        assert figures.category_accuracy_off_rule == of_three
    # A redundant word is never off the rule, which does not know of it.
    wrong = measure_separation([trace(["FFP", "FPF", "PPF"], links)])
    assert wrong.category_accuracy_off_rule == 1.0 and wrong.category_accuracy == 6 / 9


def test_flips_are_within_one_step_of_the_last_target_word() -> None:
    """A word whose last target word is v2 should be past from step 3 on; 2 and 4 will do."""
    columns = {"FPPPPP": 0, "FFPPPP": 1, "FFFPPP": 1, "FFFFPP": 1, "FFFFFP": 0}
    for column, expected in columns.items():
        found = measure_separation([trace(list(column), alignment("0-0 0-2"))])
        assert found.flips == expected, column
    rows = ["FFF", "FPF", "FPF", "PPF", "PPF", "PPP"]
    assert measure_separation([trace(rows, alignment("0-2 1-4 2-4"))]).flips == pytest.approx(2 / 3)
    # Words without a link do not turn.
    assert measure_separation([trace(rows, alignment("0-2"))]).flips == 1.0


def test_redundant_words_by_their_mean_share() -> None:
    shares = np.zeros((3, 4, 3))
    shares[..., 2] = [[0.9, 0.1, 0.4, 0.2], [0.0, 0.2, 0.4, 0.2], [0.0, 0.6, 0.4, 0.5]]
    shares[..., 1] = 1 - shares[..., 2]
    # Means .3 .3 .4 .3; words 0 and 2 have no link: 0 is even with both others, 2 above both.
    found = measure_separation([trace(shares, alignment("1-0 3-1"))])
    assert found.redundant_auc == pytest.approx((0.5 + 0.5 + 1 + 1) / 4)


def test_only_content_words_are_still_untold() -> None:
    """A word with a letter or a digit, and a link."""
    shares = np.zeros((2, 5, 3))
    shares[0, :, 1] = [0.9, 0.1, 0.5, 0.3, 0.7]
    shares[1, :, 1] = [0.2, 0.8, 0.4, 0.6, 1.0]
    links = alignment("0-0 1-0 2-0 3-0")
    found = measure_separation([trace(shares, links, source="Haus , 天 3. nichts")])
    assert found.future_start == pytest.approx((0.9 + 0.5 + 0.3) / 3)
    assert found.future_end == pytest.approx((0.2 + 0.4 + 0.6) / 3)


def test_the_course_of_the_past() -> None:
    """Of linked words: the mean of a pair, then over pairs; a pair without links has none."""
    shares = np.zeros((5, 3, 3))
    shares[..., 0] = [[0, 0.2, 1], [0.1, 0.3, 1], [0.4, 0.6, 1], [0.5, 0.9, 1], [0.8, 1, 1]]
    one = trace(shares, alignment("0-0 1-3"))
    assert measure_separation([one]).past_course == pytest.approx((0.1, 0.2, 0.5, 0.7, 0.9))
    short = trace(["F", "P"], alignment("0-0"))  # steps 0 0 0 1 1
    unlinked = trace(["P", "P"], alignment(""))
    expected = (0.05, 0.1, 0.25, 0.85, 0.95)
    assert measure_separation([one, short, unlinked]).past_course == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "sure", "possible", "expected"),
    [
        # The links of these rows are 0-0 and 1-1.
        (["FF", "PF", "PP"], "0-0 1-1", "", 0.0),
        (["FF", "PF", "PP"], "0-1 1-0", "", 1.0),
        (["FF", "PF", "PP"], "0-0 1-0", "", 1 - 2 / 4),
        (["FF", "PF", "PP"], "0-0", "1-1", 1 - (1 + 2) / (2 + 1)),
        (["FF", "PF", "PP"], "0-0 0-1", "1-1", 1 - (1 + 2) / (2 + 2)),
        # Words that are always past, never past, or mostly redundant make no link.
        (["FP", "PP", "PP"], "0-0 1-1", "", 1 - 2 / 3),
        (["FF", "PF", "PF"], "0-0 1-1", "", 1 - 2 / 3),
        (["Ff", "Pf", "Pp"], "0-0 1-1", "", 1 - 2 / 3),
        (["RR", "RR", "RR"], "0-0", "", 1.0),
    ],
)
def test_alignment_error_by_hand(
    rows: list[str], sure: str, possible: str, expected: float
) -> None:
    found = measure_separation([trace(rows, alignment(sure, possible))])
    assert found.aer == pytest.approx(expected)


def test_alignment_error_is_of_all_links_together() -> None:
    """One of three links and one of one, not the mean of 2/3 and 0."""
    one = trace(["FFF", "PPP", "PPP", "PPP"], alignment("0-0 1-1 2-2"))
    other = trace(["F", "P"], alignment("0-0"))
    assert measure_separation([one]).aer == pytest.approx(2 / 3)
    assert measure_separation([one, other]).aer == pytest.approx(1 - 4 / 8)


@pytest.mark.parametrize(
    "traces",
    [
        [],
        [trace(np.zeros((1, 0, 3)), alignment(""))],  # both sides blank
        [trace(["RR", "RR"], alignment(""))],
    ],
)
def test_nothing_to_measure_is_none(traces: list[PairTrace]) -> None:
    found = {f.name: getattr(measure_separation(traces), f.name) for f in fields(Separation)}
    assert found.pop("past_course") == ()
    # Redundant words, if there are any, are called so; all else needs links.
    words = any(each.source for each in traces)
    assert found.pop("category_accuracy") == (1.0 if words else None)
    assert set(found.values()) == {None}


def test_figures_are_of_all_cells_not_of_pairs() -> None:
    """Two cells that are right and six that are wrong."""
    small = trace(["F", "P"], alignment("0-0"))
    large = trace(["PP", "FF", "FF"], alignment("0-0 1-0"))
    assert measure_separation([small]).accuracy == 1.0
    assert measure_separation([large]).accuracy == 0.0
    assert measure_separation([small, large]).accuracy == pytest.approx(2 / 8)


NUMBERS = st.lists(st.integers(-3, 3).map(float), max_size=12).map(np.array)


@given(NUMBERS, NUMBERS)
def test_auc_is_a_count_of_pairs(positive: np.ndarray, negative: np.ndarray) -> None:
    """Few distinct values: most examples have ties."""
    positive, negative = positive.astype(np.float64), negative.astype(np.float64)
    pairs = [(a > b) + (a == b) / 2 for a in positive for b in negative]
    found = auc(positive, negative)
    assert found is None if not pairs else found == pytest.approx(sum(pairs) / len(pairs))


def test_omitted_words_against_the_others_at_the_end() -> None:
    """Words without a link are not counted; an omitted one has lost its own and is."""
    shares = np.zeros((2, 4, 3))
    shares[0, :, 1] = 0.5
    shares[1, :, 1] = [0.3, 0.6, 0.4, 1.0]
    one = trace(shares, alignment("0-0 2-0"))
    missing = np.array([False, True, False, False])
    assert omission_auc([one], [missing]) == 1.0
    shares = shares.copy()
    shares[1, :, 1] = [0.3, 0.3, 0.4, 0.0]
    other = trace(shares, alignment("0-0 2-0"))
    assert omission_auc([other], [missing]) == pytest.approx(0.25)
    # Together: .6 and .3 against .3 .4 .3 .4.
    assert omission_auc([one, other], [missing, missing]) == pytest.approx((4 + 1) / 8)
    assert omission_auc([], []) is None
    assert omission_auc([one], [np.zeros(4, bool)]) is None


@pytest.mark.parametrize(("sure", "possible", "named"), [("2-0", "", "2-0"), ("0-0", "1-1", "1-1")])
def test_a_link_that_leads_out_of_its_pair_is_named(sure: str, possible: str, named: str) -> None:
    with pytest.raises(
        UntoldError, match=rf"the link {named} leads out of a pair of 2 and 1 words"
    ):
        trace(["FF", "PP"], alignment(sure, possible))
