from toys import SENTENCEPIECE_IDS
from untold.corpus.batching import PairsInMemory, PairStore, make_batch, plan_epoch


def test_pairs_in_memory_are_read_in_batches_like_a_store():
    store = PairsInMemory([([4, 5, 6], [7]), ([], [8, 9]), ([4], [5])])
    assert isinstance(store, PairStore)
    assert [side.lengths.tolist() for side in store.sides] == [[3, 0, 1], [1, 2, 1]]
    plan = plan_epoch(store, 100, seed=1, epoch=0, shuffle=False)
    batch = make_batch(store, plan.indices(0), (SENTENCEPIECE_IDS, SENTENCEPIECE_IDS))
    assert len(plan) == 1
    rows = dict(zip(batch.indices.tolist(), batch.source.tolist(), strict=True))
    assert rows == {0: [4, 5, 6, 3], 1: [3, 0, 0, 0], 2: [4, 3, 0, 0]}
    assert store.where(2) == "pair 3"
