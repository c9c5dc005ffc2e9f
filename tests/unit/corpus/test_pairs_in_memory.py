from toys import collate
from untold.corpus.batching import PairsInMemory, PairStore, plan_epoch


def test_pairs_in_memory_are_read_in_batches_like_a_store():
    store = PairsInMemory([([4, 5, 6], [7]), ([], [8, 9]), ([4], [5])])
    assert isinstance(store, PairStore)
    assert store.source_lengths.tolist() == [3, 0, 1] and store.target_lengths.tolist() == [1, 2, 1]
    (batch,) = plan_epoch(store, 100, seed=1, epoch=0, shuffle=False).batches(store, collate)
    rows = dict(zip(batch.indices.tolist(), batch.source.tolist(), strict=True))
    assert rows == {0: [4, 5, 6, 3], 1: [3, 0, 0, 0], 2: [4, 3, 0, 0]}
    assert store.where(2) == "pair 3"
