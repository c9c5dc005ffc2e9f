import pytest
import torch

from untold.decoding import length_penalty


def test_length_penalty_is_the_formula():
    assert length_penalty(1.0, 0.6) == 1.0
    assert length_penalty(7.0, 1.0) == 2.0
    assert length_penalty(40.0, 0.0) == 1.0
    assert length_penalty(13.0, 2.0) == pytest.approx(9.0)


def test_length_penalty_of_many_lengths_is_that_of_each():
    lengths = torch.tensor([1.0, 2.0, 50.0], dtype=torch.float64)
    expected = [length_penalty(length, 0.6) for length in lengths.tolist()]
    assert length_penalty(lengths, 0.6).tolist() == pytest.approx(expected)
