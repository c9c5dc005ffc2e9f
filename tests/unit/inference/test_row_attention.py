"""The compiled forms of attention against those of torch."""

import pytest
import torch

from untold.inference.kernels import load
from untold.inference.kv_cache import (
    AttentionShape,
    HypothesisMemory,
    RaggedRows,
    RaggedSource,
    RowAttention,
)

needs_kernels = pytest.mark.skipif(load() is None, reason="the kernels were not compiled here")
SHAPES = [AttentionShape(6, 2, 2), AttentionShape(64, 2, 3), AttentionShape(128, 2, 1)]


def sides(shape):
    return RowAttention(shape, load()), RowAttention(shape, None)


def mask(*lengths):
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@needs_kernels
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_hypothesis_attends_to_its_own_past(shape):
    torch.manual_seed(1)
    memories = [HypothesisMemory.empty(70, shape.layers, 2 * shape.width) for _ in range(2)]
    for step in range(40):
        order = torch.randint(70, (70,))
        memories = [memory.select(order) for memory in memories]
        qkv = [torch.randn(70, 3 * shape.width) * 2 for _ in range(shape.layers)]
        grown = [memory.grown() for memory in memories]
        for layer in range(shape.layers):
            found = [
                side.past(layer, qkv[layer], memory, place)
                for side, (memory, place) in zip(sides(shape), grown, strict=True)
            ]
            torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
        memories = [memory for memory, _ in grown]
        assert torch.equal(memories[0].path[:, : step + 1], memories[1].path[:, : step + 1])


@needs_kernels
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("lengths", [(5,), (3, 17, 1, 40)], ids=str)
def test_each_hypothesis_attends_to_its_own_source(shape, lengths):
    torch.manual_seed(2)
    real = mask(*lengths)
    source = RaggedSource(
        torch.randn(*real.shape, shape.width),
        real,
        rows=RaggedRows.of(real),
        attended=RaggedRows.of(real),
        keys_values=torch.randn(sum(lengths), 2 * shape.layers * shape.width),
        sentences=torch.arange(len(lengths)),
    )
    for chosen in (source, source.select(torch.tensor([len(lengths) - 1]))):
        queries = torch.randn(3 * len(chosen.sentences), shape.width) * 3
        for layer in range(shape.layers):
            native, plain = (
                side.source(layer, queries, chosen, explain=True) for side in sides(shape)
            )
            for one, other in zip(native, plain, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
            assert sides(shape)[0].source(layer, queries, chosen, explain=False)[1] is None


@needs_kernels
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("lengths", [(5,), (3, 17, 1, 40)], ids=str)
def test_positions_attend_to_their_own_sentence(shape, lengths):
    torch.manual_seed(3)
    qkv = torch.randn(sum(lengths), 3 * shape.width) * 2
    found = [side.own(qkv, RaggedRows.of(mask(*lengths))) for side in sides(shape)]
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
