"""For any shape: routing is what its plain forms say, shares words out, and stays finite."""

import math
from dataclasses import dataclass
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from toys import fill
from untold.config import SEPARATORS, SeparatorConfig
from untold.models import layers
from untold.models.backbone import Widths
from untold.models.routing import literal_routing, split_routing, uniform_routing
from untold.models.routing_kernels import squash

KINDS = {
    "gdr-dot": {"kind": "gdr"},
    "gdr-mlp": {"kind": "gdr", "preset": "paper"},
    "clf": {"kind": "clf"},
    "attn": {"kind": "attn"},
}
QUICK = settings(deadline=None, max_examples=20)


@dataclass(frozen=True)
class Shape:
    lengths: tuple[int, ...]  # of the sources of a batch
    positions: int
    d_model: int
    d_capsule: int
    counts: tuple[int, int, int]
    iterations: int
    scale: float  # of weights: small ones share evenly, large ones decide


SHAPES = st.builds(
    Shape,
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple),
    positions=st.integers(1, 4),
    d_model=st.integers(1, 5),
    d_capsule=st.integers(1, 5),
    counts=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 3)),
    iterations=st.integers(1, 5),
    scale=st.sampled_from([0.3, 1.0, 3.0]),
)


def waves(*shape, start=0.0):
    """Numbers by formula, in double precision."""
    numbers = torch.arange(math.prod(shape), dtype=torch.float64)
    return (numbers * math.sqrt(3) + start).sin().view(shape)


def make(name, shape, dtype=torch.float64):
    past, future, redundant = shape.counts
    sizes = {"past": past, "future": future, "redundant": redundant}
    config = SeparatorConfig.model_validate(
        KINDS[name] | sizes | {"num_iterations": shape.iterations}
    )
    widths = Widths(shape.d_model, shape.d_model, shape.d_model)
    separator = SEPARATORS[config.kind](config, widths, shape.d_capsule)
    return fill(separator.double(), shape.scale).to(dtype)


def problem(shape, dtype=torch.float64):
    """States, mask and guide."""
    longest = max(shape.lengths)
    mask = torch.arange(longest) < torch.tensor(shape.lengths)[:, None]
    states = 2 * waves(len(shape.lengths), longest, shape.d_model, start=0.4)
    guide = 2 * waves(len(shape.lengths), shape.positions, shape.d_model, start=1.1)
    return states.to(dtype), mask, guide.to(dtype)


def fast(separator, states, mask, guide):
    return separator(separator.cast(states, mask), mask, guide)


def values_and_gradients(route, separator, states, mask, guide):
    """Capsules, assignments, and the gradients of a mixture that weighs all sentences alike.

    The redundant capsules do not count, since nothing reads them.
    """
    separator.zero_grad()
    states, guide = (x.detach().clone().requires_grad_() for x in (states, guide))
    routed = route(separator, states, mask, guide)
    read = routed.capsules[:, :, : sum(separator.counts[:2])]
    capsules = read * waves(*read.shape[1:], start=0.2)
    shares = routed.assignments.square() * waves(1, guide.shape[1], 1, sum(separator.counts))
    (capsules.sum() + shares.sum()).backward()
    inputs = {"states": states, "guide": guide} | dict(separator.named_parameters())
    gradients = {
        name: torch.zeros_like(x) if x.grad is None else x.grad.clone()
        for name, x in inputs.items()
    }
    values = {"capsules": read, "assignments": routed.assignments}
    return {name: value.detach() for name, value in values.items()} | gradients


def agree(found, expected):
    assert found.keys() == expected.keys()
    for name in found:
        torch.testing.assert_close(
            found[name], expected[name], rtol=1e-8, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("name", ["gdr-dot", "gdr-mlp"])
@QUICK
@given(shape=SHAPES, tile=st.sampled_from([1, 7, 60, 65_536]))
def test_routing_is_the_paper_s_written_out(name, shape, tile):
    """Also where the hidden values are computed in many tiles."""
    separator, inputs = make(name, shape), problem(shape)
    with patch.object(layers, "_TILE", tile):
        found = values_and_gradients(fast, separator, *inputs)
    agree(found, values_and_gradients(literal_routing, separator, *inputs))


@QUICK
@given(shape=SHAPES.filter(lambda shape: shape.iterations > 1), with_prior=st.booleans())
def test_fused_routing_is_routing_operation_by_operation(shape, with_prior):
    """In all values and gradients, those of the prior among them."""
    separator, inputs = make("gdr-dot", shape), problem(shape)
    size = (len(shape.lengths), sum(shape.counts), shape.positions, max(shape.lengths))
    prior = (3 * waves(*size, start=0.9)).requires_grad_() if with_prior else None

    def fused(separator, states, mask, guide):
        return separator(separator.cast(states, mask), mask, guide, prior)

    def by_operations(separator, states, mask, guide):
        guided = separator.agreement.guided(guide)
        return separator.route(separator.cast(states, mask), mask, guided, prior)

    found = []
    for route in (fused, by_operations):
        values = values_and_gradients(route, separator, *inputs)
        if prior is not None:
            values["prior"], prior.grad = prior.grad, None
        found.append(values)
    agree(*found)


@QUICK
@given(
    shape=SHAPES.filter(lambda shape: shape.iterations > 1), tile=st.sampled_from([1, 7, 65_536])
)
def test_routing_is_its_split_form(shape, tile):
    separator, inputs = make("gdr-mlp", shape), problem(shape)
    with patch.object(layers, "_TILE", tile):
        found = values_and_gradients(fast, separator, *inputs)
    agree(found, values_and_gradients(split_routing, separator, *inputs))


@pytest.mark.parametrize("name", ["gdr-dot", "gdr-mlp"])
def test_a_problem_larger_than_one_tile_is_the_paper_s_too(name):
    shape = Shape((11, 7, 13), 17, 5, 37, (2, 3, 2), 3, 0.5)
    separator, inputs = make(name, shape), problem(shape)
    assert 17 * 13 * 37 * len(inputs[0]) * 7 > 2 * layers._TILE
    agree(
        values_and_gradients(fast, separator, *inputs),
        values_and_gradients(literal_routing, separator, *inputs),
    )


@given(
    rows=st.integers(1, 9),
    steps=st.integers(1, 9),
    length=st.integers(1, 9),
    width=st.integers(1, 9),
    tile=st.integers(1, 900),
)
def test_tiles_cover_every_pair_once_and_fit(rows, steps, length, width, tile):
    covered = torch.zeros(rows, steps)
    with patch.object(layers, "_TILE", tile):
        tiles = layers._tiles(torch.empty(rows, length, width), torch.empty(rows, steps, width))
    for n, t in tiles:
        covered[n, t] += 1
        size = covered[n, t].numel()
        assert size == 1 or size * length * width <= tile
    assert bool((covered == 1).all())


@pytest.mark.parametrize("name", ["gdr-dot", "gdr-mlp", "clf"])
@QUICK
@given(shape=SHAPES)
@torch.no_grad()
def test_each_word_is_shared_out_among_the_capsules(name, shape):
    states, mask, guide = problem(shape)
    assignments = fast(make(name, shape), states, mask, guide).assignments
    real = mask[:, None].expand(-1, shape.positions, -1)
    assert bool((assignments >= 0).all())
    assert bool((assignments[~real] == 0).all())
    sums = assignments.sum(-1)[real]
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-12)


@QUICK
@given(shape=SHAPES)
@torch.no_grad()
def test_attention_shares_each_category_out_among_the_words(shape):
    states, mask, guide = problem(shape)
    separator = make("attn", shape)
    assignments = fast(separator, states, mask, guide).assignments
    past, future, _ = shape.counts
    assert separator.counts == (past, future, 0)
    assert assignments.shape[-1] == past + future, "nothing is redundant"
    assert bool((assignments.transpose(1, 2)[~mask] == 0).all())
    for part in assignments.split([past, future], dim=-1):
        sums = part.sum((2, 3))
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", KINDS)
@QUICK
@given(shape=SHAPES)
@torch.no_grad()
def test_capsules_are_squashed_sums_of_the_votes(name, shape):
    states, mask, guide = problem(shape)
    separator = make(name, shape)
    routed = fast(separator, states, mask, guide)
    assert bool((routed.capsules.norm(dim=-1) < 1).all())
    sums = torch.einsum("btij,bjic->btjc", routed.assignments, separator.votes(states))
    size = sums.norm(dim=-1, keepdim=True)
    expected = sums * size / (1 + size.square())
    torch.testing.assert_close(routed.capsules, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
@QUICK
@given(shape=SHAPES, other=st.integers(1, 4))
def test_neither_padding_nor_neighbours_change_a_sentence(name, shape, other):
    """Its capsules, its assignments, and all gradients; padding itself gets none."""
    separator, (states, mask, guide) = make(name, shape), problem(shape)
    wider = torch.nn.functional.pad(mask, (0, other))
    garbage = 9 * waves(len(mask), wider.shape[1], shape.d_model, start=5.0)
    dirty = garbage.clone()
    dirty[wider] = states[mask]
    found = values_and_gradients(fast, separator, dirty, wider, guide)
    expected = [
        values_and_gradients(fast, separator, h[:, :length], real[:, :length], z)
        for h, real, z, length in zip(
            states.split(1), mask.split(1), guide.split(1), shape.lengths, strict=True
        )
    ]
    assert bool((found["states"][~wider] == 0).all())
    for name, value in found.items():
        if name in ("capsules", "guide"):
            theirs = torch.cat([each[name] for each in expected])
        elif name in ("assignments", "states"):
            at = wider[:, None].expand(value.shape[:3]) if name == "assignments" else wider
            value, theirs = value[at], torch.cat([e[name].flatten(0, -2) for e in expected])
        else:
            theirs = torch.stack([each[name] for each in expected]).sum(0)
        torch.testing.assert_close(value, theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", KINDS)
@QUICK
@given(shape=SHAPES)
@torch.no_grad()
def test_positions_do_not_see_each_other(name, shape):
    separator, (states, mask, guide) = make(name, shape), problem(shape)
    votes = separator.cast(states, mask)
    together = separator(votes, mask, guide)
    for t in range(shape.positions):
        alone = separator(votes, mask, guide[:, t : t + 1])
        torch.testing.assert_close(together.capsules[:, t], alone.capsules[:, 0])
        torch.testing.assert_close(together.assignments[:, t], alone.assignments[:, 0])


@pytest.mark.parametrize("name", ["gdr-dot", "gdr-mlp"])
@QUICK
@given(shape=SHAPES)
@torch.no_grad()
def test_one_iteration_is_uniform_and_unguided(name, shape):
    shape = Shape(**vars(shape) | {"iterations": 1})
    separator, (states, mask, guide) = make(name, shape), problem(shape)
    assert separator.agreement is None
    routed = fast(separator, states, mask, guide)
    even = mask[:, None, :, None].double() / sum(shape.counts)
    torch.testing.assert_close(routed.assignments, even.expand_as(routed.assignments))
    sums = (separator.votes(states) * mask[:, None, :, None]).sum(2) / sum(shape.counts)
    expected = squash(sums)[:, None].expand_as(routed.capsules)
    torch.testing.assert_close(routed.capsules, expected)
    first = uniform_routing(separator.votes(states), mask, shape.positions)
    assert torch.equal(first.capsules, routed.capsules)


@given(exponent=st.integers(-30, 17), width=st.integers(1, 7))
def test_squash_keeps_the_direction_and_is_finite_at_any_length(exponent, width):
    s = (waves(3, width, start=0.7).float() * 10.0**exponent).requires_grad_()
    squashed = squash(s)
    squashed.sum().backward()
    length, norm = s.detach().double().norm(dim=-1), squashed.detach().double().norm(dim=-1)
    torch.testing.assert_close(norm, length**2 / (1 + length**2), rtol=1e-5, atol=1e-6)
    assert bool((squashed * s >= 0).all())
    assert bool(s.grad.isfinite().all())


def test_squash_is_flat_at_zero():
    s = torch.zeros(2, 3, requires_grad=True)
    squash(s).sum().backward()
    assert bool((squash(s) == 0).all())
    assert bool((s.grad.abs() < 1e-5).all())


@pytest.mark.parametrize("factor", [0.03, 1.0, 50.0])
def test_squash_s_gradient_is_that_of_finite_differences(factor):
    s = (factor * waves(2, 3, start=0.4)).requires_grad_()
    assert torch.autograd.gradcheck(squash, s)
    assert torch.autograd.gradcheck(lambda x: squash(x).square().sum(), s)
