import random

import torch

from untold.inference.kv_cache import HypothesisMemory


def write(memory, place, values):
    """Does what a step does: writes tokens, and their places into the paths."""
    memory.store.numbers[:, place : place + values.shape[1]] = values
    memory.path[:, memory.length - 1] = torch.arange(place, place + values.shape[1])


def test_hypotheses_remember_what_each_has_read():
    """Against plain lists: hypotheses are copied, dropped and reordered while the store grows."""
    dice = random.Random(1)
    memory, expected = HypothesisMemory.empty(2, 3, 4), [[], []]
    for length in range(1, 90):
        memory, place = memory.grown()
        written = torch.randn(3, len(expected), 4)
        write(memory, place, written)
        for row, own in enumerate(expected):
            own.append(written[:, row])
        for row, own in enumerate(expected):
            seen = memory.store.numbers[:, memory.path[row, :length].long()]
            assert torch.equal(seen, torch.stack(own, dim=1))
        if length % 3:
            rows = [dice.randrange(len(expected)) for _ in range(dice.choice([1, 2, 5, 8]))]
            memory = memory.select(torch.tensor(rows))
            expected = [list(expected[row]) for row in rows]


def test_two_searches_share_nothing():
    sides = [HypothesisMemory.empty(1, 1, 2).grown() for _ in range(2)]
    for number, (memory, place) in enumerate(sides):
        write(memory, place, torch.full((1, 1, 2), float(number)))
    assert [memory.store.numbers[0, 0].tolist() for memory, _ in sides] == [[0, 0], [1, 1]]


def test_a_choice_of_hypotheses_leaves_the_others_as_they_were():
    memory, place = HypothesisMemory.empty(2, 1, 1).grown()
    write(memory, place, torch.tensor([[[1.0], [2.0]]]))
    left, right = memory.select(torch.tensor([0])), memory.select(torch.tensor([1, 1]))
    for each in (left, right):
        grown, place = each.grown()
        write(grown, place, torch.zeros(1, len(each.path), 1))
    assert left.path[:, 0].tolist() == [0] and right.path[:, 0].tolist() == [1, 1]
    assert memory.path[:, 0].tolist() == [0, 1]
