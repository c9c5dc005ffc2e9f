"""Sentences without a span: what was deleted, which states know of it, and what is left to say."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toys import BOS, EOS, PAD, collate
from untold.training.losses.bag_of_words import sentence_bags
from untold.training.losses.loss import delete_spans

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=5)
SEEDS = st.integers(0, 2**32)
FIRST = 4  # the sentence of length n is the words FIRST, FIRST + 1, ...: no word twice
V = 14


def batch_of(lengths):
    return collate([([5], range(FIRST, FIRST + length)) for length in lengths], range(len(lengths)))


def cut_of(lengths, seed, share=1.0):
    torch.manual_seed(seed)
    return delete_spans(batch_of(lengths), share)


def rows_of(cut, lengths):
    """For each row: words of the sentence, those left, and the place of the gap among these."""
    for k, row in enumerate(cut.rows.tolist()):
        whole = list(range(FIRST, FIRST + lengths[row]))
        real = cut.words.mask[k]
        assert bool((real[1:] <= real[:-1]).all()), "real tokens first"
        *left, end = cut.words.labels[k, real].tolist()
        assert end == EOS
        gap = next((p for p, (w, y) in enumerate(zip(left, whole, strict=False)) if w != y), None)
        yield k, whole, left, gap


@given(lengths=LENGTHS, seed=SEEDS)
def test_exactly_one_span_is_deleted_and_never_at_the_end(lengths, seed):
    cut = cut_of(lengths, seed)
    if cut is None:
        assert max(lengths) < 2
        return
    assert cut.rows.tolist() == [k for k, length in enumerate(lengths) if length >= 2]
    for k, whole, left, gap in rows_of(cut, lengths):
        span = len(whole) - len(left)
        assert 1 <= span <= len(whole) // 2
        assert gap is not None, "the last word is still there"
        assert left == whole[:gap] + whole[gap + span :]
        real = cut.words.mask[k]
        assert cut.prefix[k, real].tolist() == [BOS, *left]
        assert bool((cut.prefix[k, ~real] == PAD).all())
        assert bool((cut.words.labels[k, ~real] == PAD).all())


@given(lengths=LENGTHS, seed=SEEDS)
def test_a_state_is_after_the_gap_when_it_has_read_a_word_beyond_it(lengths, seed):
    cut = cut_of(lengths, seed)
    for k, whole, left, gap in rows_of(cut, lengths) if cut else ():
        beyond = set(whole[gap + len(whole) - len(left) :])
        for t, is_after in enumerate(cut.after[k].tolist()):
            read = cut.prefix[k, : t + 1].tolist()
            assert is_after == (bool(cut.words.mask[k, t]) and bool(beyond & set(read)))
        assert bool(cut.after[k].any())


@pytest.mark.parametrize("window", ["causal", "paper", "strict"])
@given(lengths=LENGTHS, seed=SEEDS)
def test_the_past_is_what_was_read_and_the_future_all_the_rest(window, lengths, seed):
    cut = cut_of(lengths, seed)
    if cut is None:
        return
    past, future = sentence_bags(cut.words, torch.eye(V, dtype=torch.float64), window)
    for k, whole, left, _ in rows_of(cut, lengths):
        everything, labels = [*whole, EOS], [*left, EOS]
        for t, label in enumerate(labels):
            read = cut.prefix[k, 1 : t + 1].tolist()
            said = [*read, label] if window == "paper" else read
            gone = [*read, label] if window == "strict" else read
            to_come = [word for word in everything if word not in gone]
            assert torch.equal(past.sums[k, t], contents(said))
            assert torch.equal(future.sums[k, t], contents(to_come))
            assert (past.counts[k, t], future.counts[k, t]) == (len(said), len(to_come))


def contents(words):
    return torch.bincount(torch.tensor(words, dtype=torch.long), minlength=V).double()


def test_at_the_end_the_future_is_the_span_and_eos():
    """What no true prefix can teach."""
    cut = cut_of([6], seed=1)
    ((_, whole, left, _),) = rows_of(cut, [6])
    _, future = sentence_bags(cut.words, torch.eye(V), "causal")
    found = future.sums[0, len(left)].nonzero().flatten().tolist()
    assert found == sorted({*whole, EOS} - set(left))
    assert len(found) > 1


def test_every_span_that_may_be_drawn_is():
    seen = set()
    for seed in range(200):
        ((_, whole, left, gap),) = rows_of(cut_of([5], seed), [5])
        seen.add((gap, len(whole) - len(left)))
    assert seen == {(0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (1, 2), (2, 2)}


def test_about_a_share_of_the_sentences_is_drawn():
    n, share = 1000, 0.3
    cut = cut_of([4] * n, seed=3, share=share)
    deviation = (n * share * (1 - share)) ** 0.5
    assert abs(len(cut.rows) - n * share) < 4 * deviation
    assert cut_of([4] * n, seed=3, share=0.0) is None
    assert cut_of([1, 0, 1], seed=3) is None


@pytest.mark.parametrize("short", [0.5, 0.99])
def test_a_share_of_the_spans_is_short(short):
    """Lengths are drawn evenly from 1 to 3 for that share, and to half of the sentence else."""
    torch.manual_seed(4)
    batch = batch_of([40] * 2000)
    found = delete_spans(batch, 1.0, short)
    lengths = 40 - (found.words.mask.sum(1) - 1)
    assert int(lengths.min()) >= 1 and int(lengths.max()) <= 20
    expected = short + (1 - short) * 3 / 20
    assert abs(float((lengths <= 3).float().mean()) - expected) < 0.04
    ones = float((lengths == 1).float().mean())
    assert abs(ones - (short / 3 + (1 - short) / 20)) < 0.04


def test_short_spans_of_short_sentences_are_at_most_half():
    found = delete_spans(batch_of([2, 3, 4, 5] * 50), 1.0, 0.9)
    lengths = torch.tensor([2, 3, 4, 5] * 50) - (found.words.mask.sum(1) - 1)
    assert bool((lengths <= torch.tensor([1, 1, 2, 2] * 50)).all())
    assert bool((lengths >= 1).all())
