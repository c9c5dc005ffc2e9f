import pytest
import torch

from untold.decoding import beam_search
from untold.decoding.beam_search import best_tokens
from untold.inference.kernels import load


def plain(log_probs, count):
    """By value and then by id."""

    def best(row):
        ranked = sorted(range(len(row)), key=lambda token: (-row[token], token))
        return ranked[:count]

    return [[best(row) for row in rows] for rows in log_probs.tolist()]


@pytest.fixture(params=["kernels", "torch alone"], autouse=True)
def kernels(request, monkeypatch):
    """Runs every test with the compiled kernels, and as if there were none."""
    if request.param == "torch alone":
        monkeypatch.setattr(beam_search, "load", lambda: None)
    elif load() is None:
        pytest.skip("the kernels were not compiled here")


@pytest.mark.parametrize("count", [1, 2, 5, 70])
@pytest.mark.parametrize("size", [5, 13, 1543])
@pytest.mark.parametrize("steps", [3, 50, 10**6])  # values in all: few make ties
def test_best_tokens_are_the_plain_ones_whatever_ties(count, size, steps):
    places = torch.arange(2 * 3 * size).view(2, 3, size)
    log_probs = -((places * 7919) % steps).float() - 1.0
    values, tokens = best_tokens(log_probs, count)
    chosen = [[sorted(row) for row in rows] for rows in tokens.tolist()]
    assert chosen == [[sorted(row) for row in rows] for rows in plain(log_probs, count)]
    assert values.tolist() == values.sort(-1, descending=True).values.tolist()
    assert torch.equal(values, log_probs.gather(-1, tokens))


def test_what_is_forbidden_is_no_tie():
    log_probs = torch.full((1, 1, 9), -torch.inf)
    log_probs[..., 4] = -1.0
    values, tokens = best_tokens(log_probs, 3)
    assert values[0, 0].sort(descending=True).values.tolist() == [-1.0, -torch.inf, -torch.inf]
    assert 4 in tokens
