"""Label-smoothed cross entropy against its plain form: value, both gradients, chunks."""

import pytest
import torch

from untold.training.losses import cross_entropy as losses
from untold.training.losses.cross_entropy import (
    label_smoothed_cross_entropy,
    plain_cross_entropy,
    token_log_probs,
)

D, V = 7, 13


def problem(rows, dtype=torch.float64):
    """States, embedding and labels by formula, the same numbers in every precision."""
    states = (3 * torch.sin(torch.arange(rows * D) * 1.7 + 0.3)).view(rows, D).to(dtype)
    embedding = (2 * torch.cos(torch.arange(V * D) * 2.9)).view(V, D).to(dtype)
    labels = (torch.arange(rows) * 5 + 2) % V
    return states.requires_grad_(), embedding.requires_grad_(), labels


def value_and_gradients(function, rows, smoothing, dtype=torch.float64):
    states, embedding, labels = problem(rows, dtype)
    loss, nll = function(states, embedding, labels, smoothing)
    (loss * 0.25).backward()  # a scale from outside must reach the gradients
    return [loss.detach(), nll, states.grad, embedding.grad]


@pytest.fixture(params=[1, 3, 512], ids=lambda rows: f"{rows} at once")
def rows_at_once(request, monkeypatch):
    monkeypatch.setattr(losses, "_ROWS_AT_ONCE", request.param)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 11])
@pytest.mark.usefixtures("rows_at_once")
def test_value_and_gradients_are_those_of_the_plain_form(rows, smoothing):
    ours = value_and_gradients(label_smoothed_cross_entropy, rows, smoothing)
    plain = value_and_gradients(plain_cross_entropy, rows, smoothing)
    torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-10)


def test_single_precision_comes_close_to_double():
    ours = value_and_gradients(label_smoothed_cross_entropy, 11, 0.1, torch.float32)
    exact = value_and_gradients(plain_cross_entropy, 11, 0.1)
    torch.testing.assert_close([part.double() for part in ours], exact, rtol=1e-5, atol=1e-5)


def test_under_autocast_products_round_and_sums_do_not():
    exact = value_and_gradients(plain_cross_entropy, 500, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        ours = value_and_gradients(label_smoothed_cross_entropy, 500, 0.1, torch.float32)
    for rounded, value in zip(ours, exact, strict=True):
        assert rounded.dtype is torch.float32
        assert 0 < float((rounded.double() - value).norm() / value.norm()) < 0.02
    torch.testing.assert_close([part.double() for part in ours[:2]], exact[:2], rtol=1e-3, atol=0)


def test_a_vocabulary_larger_than_the_limit_is_taken_row_by_row(monkeypatch):
    monkeypatch.setattr(losses, "_LOGITS_AT_ONCE", V - 1)
    ours = value_and_gradients(label_smoothed_cross_entropy, 5, 0.1)
    torch.testing.assert_close(ours, value_and_gradients(plain_cross_entropy, 5, 0.1))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.usefixtures("rows_at_once")
def test_gradients_are_those_of_finite_differences(smoothing):
    states, embedding, labels = problem(5)
    assert torch.autograd.gradcheck(
        lambda h, e: label_smoothed_cross_entropy(h, e, labels, smoothing)[0], (states, embedding)
    )


def test_logits_of_any_size_stay_finite():
    states, embedding, labels = problem(3, torch.float32)
    loss, nll = label_smoothed_cross_entropy(states.detach() * 1e4, embedding, labels, 0.1)
    loss.backward()
    assert loss.isfinite() and nll.isfinite() and embedding.grad.isfinite().all()


def test_the_negative_log_likelihood_has_no_gradient():
    _, nll = label_smoothed_cross_entropy(*problem(2), 0.1)
    assert not nll.requires_grad


@torch.no_grad()
def test_without_gradients_the_value_is_the_same():
    states, embedding, labels = problem(4)
    ours = label_smoothed_cross_entropy(states, embedding, labels, 0.1)
    torch.testing.assert_close(ours, plain_cross_entropy(states, embedding, labels, 0.1))


def test_the_states_alone_can_want_a_gradient():
    states, embedding, labels = problem(4)
    label_smoothed_cross_entropy(states, embedding.detach(), labels, 0.1)[0].backward()
    others, embedding, labels = problem(4)
    plain_cross_entropy(others, embedding.detach(), labels, 0.1)[0].backward()
    torch.testing.assert_close(states.grad, others.grad)


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_log_probabilities_of_tokens_do_not_hang_on_chunks(rows, monkeypatch):
    torch.manual_seed(1)
    states, embedding = (torch.randn(n, 5, dtype=torch.float64) for n in (7, 11))
    labels, weights = torch.arange(7), torch.randn(7, dtype=torch.float64)
    found = []
    monkeypatch.setattr(losses, "_LOGITS_AT_ONCE", 11 * rows)
    for function in (
        lambda h, e: token_log_probs(h, e, labels),
        lambda h, e: torch.log_softmax(h @ e.T, -1)[torch.arange(7), labels],
    ):
        inputs = states.clone().requires_grad_(), embedding.clone().requires_grad_()
        values = function(*inputs)
        found.append((values.detach(), *torch.autograd.grad(values @ weights, inputs)))
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain)
