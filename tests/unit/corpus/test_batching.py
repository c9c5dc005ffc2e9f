"""Checks by hand the tensors that collate makes, and the batches that plans cut."""

import numpy as np
import torch

from toys import BOS, EOS, PAD, SENTENCEPIECE_IDS, collate, pad_rows
from untold.corpus.batching import (
    PairsInMemory,
    Sentences,
    make_batch,
    plan_by_length,
    plan_epoch,
)


class Lengths(PairsInMemory):
    """Pair k repeats the number k + 4 as often as each of its lengths says."""

    def __init__(self, *lengths):
        super().__init__([tuple([k + 4] * n for n in pair) for k, pair in enumerate(lengths)])


def cuts(store, batch_tokens, **options):
    plan = plan_epoch(store, batch_tokens, seed=1, epoch=0, **options)
    return [plan.indices(number).tolist() for number in range(len(plan))]


def test_collate_places_control_tokens_and_masks():
    batch = collate([([5, 6], [7, 8, 9]), ([4], []), ([10, 11, 12, 13], [14])], [7, 2, 5])
    assert batch.source.tolist() == [
        [5, 6, EOS, PAD, PAD],
        [4, EOS, PAD, PAD, PAD],
        [10, 11, 12, 13, EOS],
    ]
    assert batch.prefix.tolist() == [[BOS, 7, 8, 9], [BOS, PAD, PAD, PAD], [BOS, 14, PAD, PAD]]
    assert batch.labels.tolist() == [[7, 8, 9, EOS], [EOS, PAD, PAD, PAD], [14, EOS, PAD, PAD]]
    assert batch.source_mask.sum(1).tolist() == [3, 2, 5]
    assert torch.equal(batch.source_mask, batch.source != PAD)
    assert torch.equal(batch.target_mask, batch.labels != PAD)
    assert batch.indices.tolist() == [7, 2, 5]
    assert batch.target_tokens == 4 + 1 + 2


def test_padding_of_the_prefix_is_no_end_of_sentence():
    """Shifting labels right would leave an EOS in the prefix of every shorter sentence."""
    batch = collate([([4], [5]), ([4], [5, 6, 7])], range(2))
    assert EOS not in batch.prefix


def test_pad_rows_of_nothing_and_of_empty_rows():
    ids, mask = pad_rows([[], [4, 5]])
    assert (ids.tolist(), mask.tolist()) == ([[PAD, PAD], [4, 5]], [[False, False], [True, True]])
    ids, mask = pad_rows([[]])
    assert (ids.shape, mask.any().item()) == ((1, 1), False)


def test_a_cut_comes_before_the_pair_that_would_not_fit():
    # With EOS the sides are 3 and 4 long: three pairs of 4 fill 12 tokens, a fourth would not fit.
    store = Lengths(*[(2, 3)] * 7)
    assert sorted(len(cut) for cut in cuts(store, 12)) == [1, 3, 3]
    assert sorted(len(cut) for cut in cuts(store, 11)) == [1, 2, 2, 2]


def test_the_longer_side_counts_wherever_it_is():
    assert len(cuts(Lengths((9, 1), (1, 1)), 20)) == 1
    assert len(cuts(Lengths((9, 1), (1, 1)), 19)) == 2
    assert len(cuts(Lengths((1, 9), (1, 1)), 19)) == 2


def test_a_pair_longer_than_a_batch_is_a_batch_of_its_own():
    store = Lengths((2, 2), (50, 50), (2, 2), (60, 3))
    assert {frozenset(cut) for cut in cuts(store, 10)} == {
        frozenset({0, 2}),
        frozenset({1}),
        frozenset({3}),
    }


def test_similar_lengths_come_together():
    store = Lengths(*[(length, length) for length in range(1, 60)])
    lengths = [[len(store.pairs[k][1]) for k in cut] for cut in cuts(store, 120, shuffle=False)]
    assert lengths == sorted(lengths)
    padded = sum(len(cut) * (max(cut) + 1) for cut in lengths)
    assert padded < 1.15 * sum(length + 1 for length in range(1, 60))


def fill(store, batches):
    """The shares of real tokens in the padded batches: of sources, and of both sides."""
    sides = [side.lengths + 1 for side in store.sides]
    padded = [sum(len(batch) * side[batch].max() for batch in batches) for side in sides]
    real = [side.sum() for side in sides]
    return real[0] / padded[0], sum(real) / sum(padded)


def test_sorting_by_the_longer_side_pads_less_than_by_the_target():
    draw = np.random.default_rng(1)
    lengths = draw.integers(5, 30, 4000)
    sources = np.maximum(1, lengths + draw.integers(-5, 6, 4000))
    store = Lengths(*zip(sources.tolist(), lengths.tolist(), strict=True))
    plan = plan_epoch(store, 1000, 1, 0)
    batches = [plan.indices(number) for number in range(len(plan))]
    by_target = np.array_split(np.argsort(lengths, kind="stable"), len(batches))
    longer, target = fill(store, batches), fill(store, by_target)
    assert longer[0] > target[0] + 0.03
    assert longer[1] > target[1]


def test_pairs_of_one_length_meet_others_in_the_next_epoch():
    store = Lengths(*[(3, 3)] * 40)
    epochs = [plan_epoch(store, 40, seed=1, epoch=epoch) for epoch in (0, 1)]
    first, second = ({frozenset(p.indices(k).tolist()) for k in range(len(p))} for p in epochs)
    assert first != second


def test_batches_hold_the_pairs_that_the_plan_names():
    store = Lengths((1, 2), (5, 4), (2, 2), (4, 4))
    plan = plan_epoch(store, 12, seed=3, epoch=2)
    batches = [
        make_batch(store, plan.indices(k), (SENTENCEPIECE_IDS, SENTENCEPIECE_IDS))
        for k in range(len(plan))
    ]
    assert len(batches) == len(plan)
    for number, batch in enumerate(batches):
        assert batch.indices.tolist() == plan.indices(number).tolist()
        for row, index in enumerate(batch.indices.tolist()):
            assert set(batch.source[row, batch.source_mask[row]].tolist()) == {index + 4, EOS}
            assert batch.target_mask[row].sum() == len(store.pairs[index][1]) + 1


def test_plan_by_length_begins_with_the_longest():
    assert plan_by_length([3, 9, 1, 9, 2], 18) == [[1, 3], [0, 4, 2]]
    assert plan_by_length([], 10) == []
    assert plan_by_length([30, 30], 10) == [[0], [1]]


def test_a_batch_of_a_store_is_that_of_its_pairs():
    pairs = [([4, 5, 6], [7]), ([], [8, 9]), ([4], [5])]
    chosen = np.array([2, 0])
    found = make_batch(PairsInMemory(pairs), chosen, (SENTENCEPIECE_IDS, SENTENCEPIECE_IDS))
    expected = collate([pairs[2], pairs[0]], chosen)
    assert vars(found).keys() == vars(expected).keys()
    for name in ("source", "source_mask", "prefix", "labels", "target_mask", "indices"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
    assert torch.equal(found.source_words, expected.source_words)


def test_sentences_are_read_as_they_were_joined():
    rows = [[4, 5], [], [6]]
    sentences = Sentences.of(rows)
    assert [sentences[k].tolist() for k in range(len(sentences))] == rows
    assert sentences.lengths.tolist() == [2, 0, 1]
