"""What is known of both ends of a target, against a loop over words."""

import math

import torch

from untold.training.losses.links import ends_loss

SHARES = torch.tensor(
    [
        # two steps, three words: past, future, redundant
        [[[0.2, 0.7, 0.1], [0.0, 0.4, 0.6], [0.5, 0.5, 0.0]],
         [[0.9, 0.1, 0.0], [0.1, 0.3, 0.6], [0.0, 0.8, 0.2]]],
        # the second sentence is one step long, and has two words
        [[[0.3, 0.6, 0.1], [0.1, 0.2, 0.7], [0.0, 0.0, 0.0]],
         [[0.9, 0.9, 0.9], [0.9, 0.9, 0.9], [0.0, 0.0, 0.0]]],
    ],
    dtype=torch.float64,
)  # fmt: skip
MASK = torch.tensor([[True, True], [True, False]])


def test_past_is_priced_at_the_first_step_and_future_at_the_last_real_one():
    right = [0.8, 1.0, 0.5, 0.9, 0.7, 0.2, 0.7, 0.9, 0.4, 0.8]
    wanted = -sum(math.log(share) for share in right)
    torch.testing.assert_close(float(ends_loss(SHARES, MASK)), wanted)


def test_it_is_finite_with_its_gradient_where_every_word_is_wrong():
    shares = torch.ones(2, 3, 5, 3, requires_grad=True)
    loss = ends_loss(shares, torch.ones(2, 3, dtype=torch.bool))
    loss.backward()
    assert bool(torch.isfinite(loss)) and bool(torch.isfinite(shares.grad).all())


def test_redundant_words_and_the_steps_between_are_free():
    shares = torch.zeros(1, 3, 4, 3)
    shares[:, 0, :, 1] = 1.0
    shares[:, 1] = 1.0
    shares[:, 2, :2, 0] = 1.0
    shares[:, :, 2:, 2] = 1.0
    assert float(ends_loss(shares, torch.ones(1, 3, dtype=torch.bool))) == 0.0
