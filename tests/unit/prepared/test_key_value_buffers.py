import random

import torch

from untold.prepared.key_value_buffers import BufferShape, KeyValueBuffers

SHAPE = BufferShape(layers=3, heads=2, width=5)


def test_buffers_remember_what_each_hypothesis_has_read():
    """Against plain lists: hypotheses are copied, dropped and reordered while the buffers grow."""
    dice = random.Random(1)
    buffers, expected = KeyValueBuffers(SHAPE, 2), [[], []]
    for length in range(90):
        written = torch.randn(3, len(expected), 20)
        views = buffers.at(length)
        for layer in range(3):
            views.layers[layer][length].copy_(written[layer])
        for row, own in enumerate(expected):
            own.append(written[:, row])
        views = buffers.at(length)
        for layer in range(3):
            keys = views.keys[layer].narrow(2, 0, length + 1)
            values = views.values[layer].narrow(2, 0, length + 1)
            for row, own in enumerate(expected):
                seen = torch.stack([each[layer] for each in own]).view(length + 1, 2, 2, 5)
                assert torch.equal(keys[row].transpose(0, 1), seen[:, 0])
                assert torch.equal(values[row].transpose(0, 1), seen[:, 1])
        if length % 3:
            count = dice.choice([1, 2, 5, 8])
            rows = [dice.randrange(len(expected)) for _ in range(count)]
            buffers.reorder(torch.tensor(rows), length + 1)
            expected = [list(expected[row]) for row in rows]


def test_two_searches_share_nothing():
    first, second = KeyValueBuffers(SHAPE, 1), KeyValueBuffers(SHAPE, 1)
    first.at(0).layers[0][0].fill_(1.0)
    second.at(0).layers[0][0].fill_(2.0)
    assert first.at(0).keys[0][0, 0, 0].tolist() == [1.0] * 5
