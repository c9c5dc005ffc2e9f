"""Dropout's law, the sinusoids' formula, and attention against torch's own."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from untold.models import layers
from untold.models.layers import (
    Dropout,
    FeedForward,
    PositionalEmbedding,
    attend,
    fused_attention,
    sigmoid_scores,
)

MANY = (101, 103, 107)  # values that a frequency is taken over


def wave(*shape):
    """Values between -1 and 1, all different."""
    return torch.sin(torch.arange(math.prod(shape)) * 1.3 + 0.2).view(shape)


def dropped(p, shape, seed=1):
    torch.manual_seed(seed)
    return Dropout(p)(torch.ones(shape))


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_dropout_zeroes_the_share_p_and_scales_the_rest(p):
    values = dropped(p, MANY)
    share = float((values == 0).double().mean())
    deviation = math.sqrt(p * (1 - p) / values.numel())
    assert abs(share - p) < 5 * deviation + 1 / 65536  # p is rounded
    kept = values[values != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)), rtol=1e-3, atol=0)
    assert abs(float(values.double().mean()) - 1) < 5 * deviation / (1 - p)  # unbiased


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 107])
def test_what_dropout_zeroes_says_nothing_of_its_neighbours(lag):
    zero = (dropped(0.5, MANY) == 0).double().flatten()
    both = float((zero[:-lag] * zero[lag:]).mean())  # values that share a random word are no pairs
    assert abs(both - 0.25) < 5 * math.sqrt(0.25 * 0.75 / len(zero))


@pytest.mark.parametrize("shape", [(1,), (2, 3), (5, 7, 11)])
def test_the_seed_determines_what_is_dropped(shape):
    assert torch.equal(dropped(0.3, shape, seed=7), dropped(0.3, shape, seed=7))
    assert not torch.equal(dropped(0.3, MANY, seed=7), dropped(0.3, MANY, seed=8))


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.3, False)])
def test_dropout_is_the_identity_without_p_and_in_evaluation(p, training):
    x = wave(3, 5)
    dropout = Dropout(p).train(training)
    assert dropout(x) is x
    assert torch.equal(dropout.add(x, x), x + x)


def test_adding_with_dropout_is_dropout_then_addition():
    x, update, dropout = wave(5, 7), wave(7, 5).T, Dropout(0.3)
    torch.manual_seed(1)
    together = dropout.add(x, update)
    torch.manual_seed(1)
    torch.testing.assert_close(together, x + dropout(update))


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_the_gradient_passes_where_values_were_kept(p):
    x, update = wave(5, 7).requires_grad_(), wave(5, 7).requires_grad_()
    torch.manual_seed(1)
    Dropout(p).add(x, update).sum().backward()
    torch.manual_seed(1)
    assert torch.equal(x.grad, torch.ones(5, 7))
    torch.testing.assert_close(update.grad, Dropout(p)(torch.ones(5, 7)))


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("known", [2, 16])  # positions beyond the table are computed
def test_positions_are_sinusoids_added_to_scaled_embeddings(first, known):
    d, ids = 6, torch.tensor([[2, 0, 1], [1, 1, 2]])
    embedding = nn.Embedding.from_pretrained(wave(3, d))
    found = PositionalEmbedding(embedding, 0.0, known)(ids, first)
    for row, words in enumerate(ids.tolist()):
        for t, word in enumerate(words):
            for k in range(d):
                angle = (first + t) / 10000 ** (k // 2 * 2 / d)
                position = math.cos(angle) if k % 2 else math.sin(angle)
                expected = math.sqrt(d) * float(embedding.weight[word, k]) + position
                assert float(found[row, t, k]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_written_out_is_torch_s(masked):
    queries, keys, values = wave(2, 3, 5, 7), wave(2, 3, 11, 7) * 3, wave(2, 3, 11, 7)
    mask = (torch.arange(11) < torch.tensor([[11], [4]]))[:, None, None] if masked else None
    context, weights = attend(queries, keys, values, mask)
    expected = F.scaled_dot_product_attention(queries, keys, values, mask)
    torch.testing.assert_close(context, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5))
    if masked:
        assert torch.equal(weights[1, :, 4:], torch.zeros(5, 7))


def test_feed_forward_is_two_products_and_a_relu():
    layer, x = FeedForward(5, 11, 0.0), wave(2, 3, 5)
    inner = (x @ layer.inner.weight.T + layer.inner.bias).clamp(min=0)
    expected = inner @ layer.outer.weight.T + layer.outer.bias
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("tile", [1, 30, 200, 65_536])  # less than a row, some rows, all of them
def test_additive_scores_are_their_formula_however_they_are_tiled(tile, monkeypatch):
    monkeypatch.setattr(layers, "_TILE", tile)
    keys, query, weight = wave(3, 5, 7).double(), wave(3, 2, 7).double() * 2, wave(7).double()
    inputs = [part.requires_grad_() for part in (keys, query, weight)]
    expected = (keys[:, None] + query[:, :, None]).sigmoid() @ weight
    found = sigmoid_scores(*inputs)
    torch.testing.assert_close(found, expected)
    grad = wave(3, 2, 5).double()
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs, grad),
        torch.autograd.grad(expected, inputs, grad),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_in_bf16_is_that_in_32_bits_but_for_rounding(causal):
    generator = torch.Generator().manual_seed(1)
    shapes = ((2, 3, 7, 5), (2, 3, 7 if causal else 11, 5), (2, 3, 7 if causal else 11, 5))
    wide = [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]
    narrow = [tensor.detach().bfloat16().requires_grad_() for tensor in wide]
    mask = None if causal else (torch.arange(11) < torch.tensor([[11], [4]]))[:, None, None, :]
    contexts = [fused_attention(tuple(heads), mask, 0.0, causal=causal) for heads in (wide, narrow)]
    assert contexts[1].dtype is torch.bfloat16
    torch.testing.assert_close(contexts[1].float(), contexts[0], rtol=0.02, atol=0.02)
    for context in contexts:
        context.float().square().sum().backward()
    for one, other in zip(wide, narrow, strict=True):
        torch.testing.assert_close(other.grad.float(), one.grad, rtol=0.1, atol=0.1)


def test_attention_in_bf16_drops_weights():
    ones = torch.ones(1, 1, 1000, 2, dtype=torch.bfloat16)
    heads = (ones[:, :, :500], ones, ones)
    assert bool((fused_attention(heads, None, 0.0) == 1).all())
    context = fused_attention(heads, None, 0.5).float()
    assert 0.9 < float(context.mean()) < 1.1
    assert float(context.std()) > 0.01
