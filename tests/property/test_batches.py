"""A plan partitions the corpus, keeps to its limit, and is determined by (seed, epoch)."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from toys import BOS, EOS, PAD, collate
from untold.corpus.batching import PairsInMemory, plan_by_length, plan_epoch

LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60)


def lengths_only(pairs):
    """A store whose pair k repeats the number k + 4."""
    return PairsInMemory([tuple([4 + k] * n for n in pair) for k, pair in enumerate(pairs)])


def batches_of(plan):
    return [plan.indices(number).tolist() for number in range(len(plan))]


@given(LENGTHS, st.integers(1, 200), st.integers(0, 2**40), st.integers(0, 99), st.booleans())
def test_each_pair_exactly_once_and_within_the_limit(pairs, limit, seed, epoch, shuffle):
    store = lengths_only(pairs)
    batches = batches_of(plan_epoch(store, limit, seed, epoch, shuffle=shuffle))
    assert sorted(index for batch in batches for index in batch) == list(range(len(pairs)))
    for batch in batches:
        for side in (0, 1):
            longest = max(pairs[index][side] + 1 for index in batch)
            assert len(batch) == 1 or len(batch) * longest <= limit


@given(LENGTHS, st.integers(1, 200), st.integers(0, 2**40), st.integers(0, 99))
def test_seed_and_epoch_determine_the_order(pairs, limit, seed, epoch):
    once, again = (
        batches_of(plan_epoch(lengths_only(pairs), limit, seed, epoch)) for _ in range(2)
    )
    assert once == again


@settings(deadline=None, max_examples=30)
@given(st.integers(20, 60), st.integers(0, 2**40), st.integers(0, 99))
def test_epochs_and_seeds_differ(count, seed, epoch):
    store = lengths_only([(3, 3)] * count)
    plans = [(seed, epoch), (seed, epoch + 1), (seed + 1, epoch)]
    orders = [batches_of(plan_epoch(store, 8, *plan)) for plan in plans]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]


@given(
    st.lists(
        st.tuples(*[st.lists(st.integers(4, 99), max_size=9)] * 2),
        min_size=1,
        max_size=6,
    )
)
def test_collate_can_be_undone(pairs):
    batch = collate(pairs, range(len(pairs)))
    for row, (source, target) in enumerate(pairs):
        assert batch.source[row, batch.source_mask[row]].tolist() == [*source, EOS]
        assert batch.prefix[row, batch.target_mask[row]].tolist() == [BOS, *target]
        assert batch.labels[row, batch.target_mask[row]].tolist() == [*target, EOS]
    for ids, mask in ((batch.source, batch.source_mask), (batch.prefix, batch.target_mask)):
        assert bool((ids[~mask] == PAD).all())
        assert bool(mask.any(0).all()), "no column is all padding"
        assert torch.equal(mask, mask.cummin(1).values), "padding is on the right"
    assert bool((batch.labels[~batch.target_mask] == PAD).all())
    assert batch.target_tokens == sum(len(target) + 1 for _, target in pairs)


@given(st.lists(st.integers(1, 50), max_size=50), st.integers(1, 150))
def test_plan_by_length_partitions_within_its_limit(lengths, limit):
    batches = plan_by_length(lengths, limit)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= limit
    order = [lengths[index] for batch in batches for index in batch]
    assert order == sorted(order, reverse=True)
