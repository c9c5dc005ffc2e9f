"""copy_loss against its plain form, and the likelihood of models with and without copying."""

import pytest
import torch

from toys import all_scores, toy_batch, toy_model
from untold.training.losses import cross_entropy as losses
from untold.training.losses.cross_entropy import (
    Labels,
    copy_loss,
    label_smoothed_cross_entropy,
    plain_copy_loss,
    translation_loss,
)

D, V = 7, 13


def problem(rows, dtype=torch.float64):
    """States, embedding, mixture and labels by formula; every third label cannot be copied."""
    places = torch.arange(rows)
    states = (3 * torch.sin(torch.arange(rows * D) * 1.7 + 0.3)).view(rows, D).to(dtype)
    embedding = (2 * torch.cos(torch.arange(V * D) * 2.9)).view(V, D).to(dtype)
    gate = 0.5 + 0.45 * torch.sin(places * 1.3)
    copied = gate * (0.5 + 0.4 * torch.cos(places * 2.1)) * (places % 3 > 0)
    mixture = torch.stack([torch.log1p(-gate), copied], 1).to(dtype)
    inputs = [each.requires_grad_() for each in (states, embedding, mixture)]
    return *inputs, (places * 5 + 2) % V


def value_and_gradients(function, rows, smoothing, dtype=torch.float64):
    *inputs, labels = problem(rows, dtype)
    loss, nll = function(*inputs, Labels(labels, smoothing))
    (loss * 0.25).backward()  # a scale from outside must reach the gradients
    gradients = [each.grad.clone() for each in inputs]
    gradients[2][::3, 1] = 0  # of a label that is not there nothing can be said
    return [loss.detach(), nll, *gradients]


@pytest.fixture(params=[1, 3, 512], ids=lambda rows: f"{rows} at once")
def rows_at_once(request, monkeypatch):
    monkeypatch.setattr(losses, "_ROWS_AT_ONCE", request.param)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 11])
@pytest.mark.usefixtures("rows_at_once")
def test_value_and_gradients_are_those_of_the_plain_form(rows, smoothing):
    ours = value_and_gradients(copy_loss, rows, smoothing)
    plain = value_and_gradients(plain_copy_loss, rows, smoothing)
    torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-10)


def test_single_precision_comes_close_to_double():
    ours = value_and_gradients(copy_loss, 11, 0.1, torch.float32)
    exact = value_and_gradients(plain_copy_loss, 11, 0.1)
    torch.testing.assert_close([part.double() for part in ours], exact, rtol=1e-4, atol=1e-5)


def test_without_copying_it_is_the_word_loss():
    states, embedding, mixture, labels = problem(6)
    ours = copy_loss(states, embedding, torch.zeros_like(mixture), Labels(labels, 0.1))
    torch.testing.assert_close(ours, label_smoothed_cross_entropy(states, embedding, labels, 0.1))


def test_what_cannot_be_copied_gives_copying_no_gradient():
    states, embedding, mixture, labels = problem(6)
    copy_loss(states, embedding, mixture, Labels(labels, 0.1))[0].backward()
    assert bool((mixture.grad[::3, 1] == 0).all()) and bool((mixture.grad[1::3, 1] < 0).all())


@pytest.mark.parametrize("copied", [0.0, 1e-45, 1e-38, 0.5])
def test_labels_that_are_all_but_impossible_stay_finite(copied):
    states, embedding, mixture, labels = problem(3, torch.float32)
    mixture = mixture.detach().clone()
    mixture[:, 1] = copied
    mixture.requires_grad_()
    loss, nll = copy_loss(states.detach() * 1e3, embedding, mixture, Labels(labels, 0.1))
    loss.backward()
    for each in (loss, nll, embedding.grad, mixture.grad):
        assert bool(torch.isfinite(each).all())


@torch.no_grad()
def test_without_gradients_the_value_is_the_same():
    states, embedding, mixture, labels = problem(4)
    given = (states, embedding, mixture, Labels(labels, 0.1))
    torch.testing.assert_close(copy_loss(*given), plain_copy_loss(*given))


@pytest.mark.parametrize("copying", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_likelihood_of_a_batch_is_that_of_its_labels_one_by_one(copying, smoothing):
    """Some are in the source, some are not; smoothing is of what is generated."""
    model = toy_model(copying=copying)
    batch = toy_batch([(4, 6), (1, 2), (3, 5)])
    outputs = model(batch.source, batch.source_mask, batch.prefix)
    loss, nll = translation_loss(model, outputs, batch, smoothing)
    log_p = all_scores(model, outputs).log_softmax(-1).detach()
    uniform = model.logits(outputs.holistic).log_softmax(-1).mean(-1).detach()
    expected, plain, there = 0.0, 0.0, []
    for row, length in enumerate(batch.target_mask.sum(1).tolist()):
        for step in range(length):
            label = int(batch.labels[row, step])
            there.append(label in batch.source[row, batch.source_mask[row]].tolist()[:-1])
            plain -= float(log_p[row, step, label])
            expected -= (1 - smoothing) * float(log_p[row, step, label])
            expected -= smoothing * float(uniform[row, step])
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)
    assert float(nll) == pytest.approx(plain, rel=1e-5) and not nll.requires_grad
    assert any(there) and not all(there)


def test_the_gradient_of_the_likelihood_is_that_of_the_whole_distribution():
    """The fused loss and the mixture over the vocabulary teach every parameter the same."""
    gradients = []
    for whole in (False, True):
        model = toy_model((17, 13), shared=False, copying=True)
        batch = toy_batch([(5, 6), (1, 2), (3, 5)])
        outputs = model(batch.source, batch.source_mask, batch.prefix)
        if whole:
            scores = all_scores(model, outputs)[batch.target_mask]
            labels = batch.labels[batch.target_mask]
            torch.nn.functional.cross_entropy(scores, labels, reduction="sum").backward()
        else:
            translation_loss(model, outputs, batch, 0.0)[0].backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-3, atol=1e-4)
