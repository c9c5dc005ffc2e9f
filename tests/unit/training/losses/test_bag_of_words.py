"""Bags of words against lists of words, and their loss against -log softmax(E W Omega)."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from toys import EOS, PAD, collate
from untold.models.translation_table import draw_words
from untold.training.losses import cross_entropy as losses
from untold.training.losses.bag_of_words import BagVocabulary, bag_loss, sentence_bags
from untold.training.losses.cross_entropy import weighted_log_partition
from untold.training.losses.loss import TargetWords

V = 13
# What is in the bags of step t of the words y, EOS among them.
WINDOWS = {
    "causal": (lambda y, t: y[:t], lambda y, t: y[t:]),
    "paper": (lambda y, t: y[: t + 1], lambda y, t: y[t:]),
    "strict": (lambda y, t: y[:t], lambda y, t: y[t + 1 :]),
}


def whole_sentences(*sentences):
    batch = collate([([5], list(words)) for words in sentences], range(len(sentences)))
    return TargetWords(batch.labels, batch.target_mask, batch.labels, batch.target_mask)


def whole(embedding):
    """The vocabulary of all rows."""
    return BagVocabulary(draw_words(torch.tensor([0]), len(embedding), 1.0), embedding)


def contents(words):
    """A vector of how often each word of the vocabulary occurs."""
    return torch.bincount(torch.tensor(words, dtype=torch.long), minlength=V).double()


@pytest.mark.parametrize("window", WINDOWS)
@given(
    sentences=st.lists(st.lists(st.integers(4, V - 1), max_size=7), min_size=1, max_size=4),
)
def test_bags_hold_the_words_of_the_window(window, sentences):
    """With unit vectors for embeddings, the sum of a bag is its contents."""
    words = whole_sentences(*sentences)
    found = sentence_bags(words, torch.eye(V, dtype=torch.float64), window)
    for k, sentence in enumerate(sentences):
        y = [*sentence, EOS]
        for bags, members in zip(found, WINDOWS[window], strict=True):
            for t in range(len(y)):
                expected = contents(members(y, t))
                assert torch.equal(bags.sums[k, t], expected)
                assert bags.counts[k, t] == expected.sum()
                assert bags.sums[k, t, PAD] == 0


@pytest.mark.parametrize("window", WINDOWS)
def test_what_stands_in_padding_does_not_matter(window):
    words = whole_sentences([5, 6, 7, 6], [8])
    dirty = words.labels.masked_fill(~words.mask, 9)
    others = TargetWords(dirty, words.mask, dirty, words.mask)
    embedding = torch.eye(V)
    pairs = zip(
        sentence_bags(words, embedding, window),
        sentence_bags(others, embedding, window),
        strict=True,
    )
    for one, other in pairs:
        assert torch.equal(one.counts, other.counts)
        assert torch.equal(one.sums, other.sums)


# E = log of these, u = 1: p(EOS) = 1/9, p(4) = 2/9, p(5) = 3/9.
ODDS = torch.tensor([1.0, 1, 1, 1, 2, 3])
P4, P5, END = math.log(9 / 2), math.log(9 / 3), math.log(9)


@pytest.mark.parametrize(
    ("window", "past", "future"),
    [
        ("causal", P4 + (P4 + P5), (P4 + P5 + END) + (P5 + END) + END),
        ("paper", P4 + (P4 + P5) + (P4 + P5 + END), (P4 + P5 + END) + (P5 + END) + END),
        ("strict", P4 + (P4 + P5), (P5 + END) + END),
    ],
)
def test_a_sentence_of_two_words_by_hand(window, past, future):
    words, embedding = whole_sentences([4, 5]), ODDS.log()[:, None]
    head = nn.Linear(1, 1, bias=False)
    nn.init.ones_(head.weight)
    for bags, expected in zip(sentence_bags(words, embedding, window), (past, future), strict=True):
        bag = bags.counts[0], bags.sums[0]
        loss = bag_loss(torch.ones(3, 1), head, whole(embedding), bag, torch.ones(3))
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("width", [3, 7, 11], ids=["narrower", "as wide", "wider"])
@pytest.mark.parametrize("rows_at_once", [1, 4, 512])
def test_the_loss_is_log_softmax_word_by_word_in_value_and_gradient(
    width, rows_at_once, monkeypatch
):
    """Capsules that are narrower and wider than the embedding take different ways."""
    monkeypatch.setattr(losses, "_ROWS_AT_ONCE", rows_at_once)
    n, d = 5, 7
    head = nn.Linear(width, d, bias=False).double()
    with torch.no_grad():
        head.weight.copy_((torch.arange(width * d) * 1.3).sin().view(d, width))
    capsules = (torch.arange(n * width) * 0.7).cos().view(n, width).double().requires_grad_()
    embedding = (torch.arange(V * d) * 2.1).sin().view(V, d).double().requires_grad_()
    bags = [[], [4], [5, 5, 9], [3], [12, 4, 6, 3]]
    weights = torch.tensor([0.5, 0.25, 2.0, 0.0, 1.0], dtype=torch.float64)
    inputs = (capsules, embedding, head.weight)

    sums = torch.stack([embedding[bag].sum(0) for bag in bags])
    counts = torch.tensor([len(bag) for bag in bags], dtype=torch.float64)
    ours = bag_loss(capsules, head, whole(embedding), (counts, sums), weights)
    log_p = (embedding @ head.weight @ capsules.T).T.log_softmax(-1)
    plain = torch.zeros((), dtype=torch.float64)
    for k, bag in enumerate(bags):
        for word in bag:
            plain = plain - weights[k] * log_p[k, word]
    torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-10)
    found = torch.autograd.grad(3 * ours, inputs)
    torch.testing.assert_close(found, torch.autograd.grad(3 * plain, inputs))


@pytest.mark.parametrize("rows_at_once", [1, 3, 512])
@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("biased", [False, True])
def test_the_log_partition_is_logsumexp_over_any_chunks(rows_at_once, wanted, biased, monkeypatch):
    monkeypatch.setattr(losses, "_ROWS_AT_ONCE", rows_at_once)
    states = (3 * torch.arange(11 * 7).sin()).view(11, 7).double().requires_grad_(wanted[0])
    embedding = (2 * torch.arange(V * 7).cos()).view(V, 7).double().requires_grad_(wanted[1])
    weights = torch.arange(11).double() - 2.5  # also zero, also negative
    inputs = [x for x in (states, embedding) if x.requires_grad]
    bias = torch.arange(V).sin().double() if biased else None
    ours = weighted_log_partition(states, embedding, weights, bias)
    plain = torch.logsumexp(states @ embedding.T + (bias if biased else 0), -1) @ weights
    torch.testing.assert_close(ours, plain)
    found = torch.autograd.grad(ours * 0.25, inputs)
    torch.testing.assert_close(found, torch.autograd.grad(plain * 0.25, inputs))


def test_the_log_partition_is_finite_at_logits_of_any_size():
    states = (1e4 * torch.arange(14).sin()).view(2, 7).requires_grad_()
    embedding = torch.arange(V * 7).cos().view(V, 7)
    value = weighted_log_partition(states, embedding, torch.ones(2))
    value.backward()
    assert bool(value.isfinite()) and bool(states.grad.isfinite().all())


@pytest.mark.parametrize("window", WINDOWS)
def test_bags_of_a_sample_of_the_vocabulary_are_those_of_all_of_it(window):
    """The words of a bag are certain; only its normaliser is estimated."""
    torch.manual_seed(1)
    words, embedding = whole_sentences([5, 6, 7, 6], [8]), torch.randn(V, 3)
    sample = draw_words(words.labels, V, 0.2)
    assert len(sample.ids) < V
    sampled = BagVocabulary(sample, embedding[sample.ids]).bags(words, window)
    for one, other in zip(sampled, sentence_bags(words, embedding, window), strict=True):
        assert torch.equal(one.counts, other.counts)
        torch.testing.assert_close(one.sums, other.sums)
