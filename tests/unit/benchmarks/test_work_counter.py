"""The counter of work knows the limits of operations, and which part they belong to."""

import math

import pytest
import torch
import torch.nn.functional as F

from work_counter import ELSE, Machine, WorkCounter, part_of

# Speeds that make limits easy to tell: one operation a second, or one byte in 1000 seconds.
MACHINE = Machine(flops=1.0, bandwidths={math.inf: 1e9}, dispatch=0.5)
SLOW_MEMORY = Machine(flops=1e12, bandwidths={100.0: 2.0, math.inf: 1.0}, dispatch=0.0)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("aten.addmm.default", "linear layers"),
        ("aten.mm.default", "linear layers"),
        ("aten.linear.default", "linear layers"),
        ("mkldnn._linear_pointwise.default", "linear layers"),
        ("aten.bmm.default", "attention and batched products"),
        (
            "aten._scaled_dot_product_flash_attention_for_cpu.default",
            "attention and batched products",
        ),
        ("aten._log_softmax.default", "softmax and norms"),
        ("aten._fused_adam_.default", "optimizer and clipping"),
        ("aten.embedding_dense_backward.default", "look-ups"),
        ("aten.random_.from", "random numbers"),
        ("aten.add.Tensor", ELSE),
    ],
)
def test_every_operation_belongs_to_a_part(name, part):
    assert part_of(name) == part


@pytest.mark.parametrize("inference", [False, True])
def test_a_linear_layer_is_limited_by_its_products(inference):
    x, weight, counter = torch.ones(3, 5), torch.ones(7, 5), WorkCounter(MACHINE)
    with torch.inference_mode(inference), counter:
        F.linear(x, weight)
    part = counter.parts["linear layers"]
    assert part.calls == 1
    assert part.limit == pytest.approx(2 * 3 * 5 * 7 + MACHINE.dispatch)


def test_backward_passes_are_counted():
    x, weight = torch.ones(3, 5, requires_grad=True), torch.ones(7, 5, requires_grad=True)
    with WorkCounter(MACHINE) as counter:
        F.linear(x, weight).sum().backward()
    assert counter.parts["linear layers"].limit == pytest.approx(3 * (2 * 3 * 5 * 7 + 0.5))


def test_attention_is_limited_by_two_products():
    q, k = torch.ones(2, 3, 5, 11), torch.ones(2, 3, 7, 11)
    with torch.inference_mode(), WorkCounter(MACHINE) as counter:
        F.scaled_dot_product_attention(q, k, k)
    total = sum(part.limit - part.calls * 0.5 for part in counter.parts.values())
    assert total == pytest.approx(4 * 2 * 3 * 5 * 7 * 11, rel=0.01)


def test_small_operands_move_at_the_speed_of_their_cache():
    small, large = torch.ones(10), torch.ones(1000)
    for tensor, seconds in ((small, 40 / 2.0), (large, 4000 / 1.0)):
        with WorkCounter(SLOW_MEMORY) as counter:
            tensor.add_(1.0)
        assert counter.parts[ELSE].limit == pytest.approx(seconds)


def test_a_look_up_moves_what_it_returns_and_not_the_whole_table():
    table, ids = torch.ones(1000, 4), torch.tensor([7, 8, 9])
    with WorkCounter(SLOW_MEMORY) as counter:
        F.embedding(ids, table)
    assert counter.parts["look-ups"].limit == pytest.approx(2 * 3 * 4 * 4 / 2.0)


def test_views_cost_nothing():
    x = torch.ones(6, 5)
    with WorkCounter(MACHINE) as counter:
        x.view(5, 6).transpose(0, 1)[1:]
    assert counter.parts == {}


def test_a_counter_knows_its_own_cost():
    fast = Machine(flops=1.0, bandwidths={math.inf: 1e9}, dispatch=0.0)
    assert WorkCounter.calibrated(fast).overhead > 0.0
    assert WorkCounter.calibrated(MACHINE).overhead == 0.0, "a dispatch of half a second hides it"
