"""Links by a lexicon and by the routing, against loops over the formulas."""

import itertools
import math

import pytest
import torch

from toys import collate
from untold.models.translation_table import Links, TranslationTable, find_links
from untold.training.losses.links import links_loss
from untold.training.losses.loss import delete_spans

PAIRS = [([5, 6, 7], [8, 9, 5]), ([9, 5], [6]), ([7], [])]  # ids without EOS


@pytest.fixture
def lexicon():
    torch.manual_seed(2)
    return TranslationTable((10, 10), 4).double()


def batch_of(pairs):
    return collate(pairs, range(len(pairs)))


def shares_of(batch, seed=3):
    shape = (*batch.labels.shape, batch.source.shape[1], 3)
    values = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (2 * values).softmax(-1)


def losses(lexicon, shares, batch):
    links, unexplained = find_links(lexicon, shares, batch)
    return unexplained, links_loss(links, shares, batch.target_mask)


def by_loops(lexicon, shares, source, target):
    """Of one sentence without padding: both losses, by the formulas and no tensor's."""
    u, v = (p.detach() for p in lexicon.parameters())
    places = [(t, i) for t in range(len(target)) for i in range(len(source))]
    prior = {}
    for i in range(len(source)):
        past = [float(shares[t, i, 0]) for t in range(len(target) + 1)]
        rises = [max(0.0, after - before) for before, after in itertools.pairwise(past)]
        here = (i + 0.5) / len(source)
        near = [math.exp(-2 * abs(here - (t + 0.5) / len(target))) for t in range(len(target))]
        for t, (rise, n) in enumerate(zip(rises, near, strict=True)):
            prior[t, i] = 5 / 9 * rise / max(sum(rises), 0.1) + 4 / 9 * n / sum(near)
    over_t = {i: sum(prior[t, i] for t in range(len(target))) for i in range(len(source))}
    over_i = {t: sum(prior[t, i] for i in range(len(source))) for t in range(len(target))}

    def theta_x(i, row):
        return float((u @ v[row]).softmax(0)[source[i]])

    def theta_y(t, row):
        return float((v @ u[row]).softmax(0)[target[t]])

    a = {(t, i): 0.9 * prior[t, i] / over_t[i] * theta_x(i, target[t]) for t, i in places}
    b = {(t, i): 0.9 * prior[t, i] / over_i[t] * theta_y(t, source[i]) for t, i in places}
    explained_x = {
        i: sum(a[t, i] for t in range(len(target))) + 0.1 * theta_x(i, -1)
        for i in range(len(source))
    }
    explained_y = {
        t: sum(b[t, i] for i in range(len(source))) + 0.1 * theta_y(t, -1)
        for t in range(len(target))
    }
    unexplained = -sum(map(math.log, [*explained_x.values(), *explained_y.values()]))
    wrong = 0.0
    for i in range(len(source)):
        column = [a[t, i] / explained_x[i] for t in range(len(target))]
        agreed = sum(p * b[t, i] / explained_y[t] for t, p in enumerate(column))
        by_nothing = 0.1 * theta_x(i, -1) / explained_x[i]
        doubt = (by_nothing + 0.1) / 2
        nothing = (by_nothing + doubt / (doubt + agreed)) / 2
        links = [(1 - nothing) * p / sum(column) for p in column]
        for t in range(len(target) + 1):
            truth = sum(links[:t]), sum(links[t:]), nothing
            logs = [math.log(float(share)) for share in shares[t, i]]
            wrong -= sum(p * q for p, q in zip(truth, logs, strict=True)) / (len(target) + 1)
    return unexplained, wrong


def test_both_losses_are_those_of_the_formulas(lexicon):
    batch = batch_of(PAIRS)
    shares = shares_of(batch)
    wanted = [by_loops(lexicon, shares[b], *pair) for b, pair in enumerate(PAIRS)]
    found = losses(lexicon, shares, batch)
    for value, parts in zip(found, zip(*wanted, strict=True), strict=True):
        assert value.item() == pytest.approx(sum(parts), rel=1e-7)


def test_padding_and_neighbours_change_nothing(lexicon):
    batch = batch_of(PAIRS)
    shares = shares_of(batch)
    together = losses(lexicon, shares, batch)
    alone = [0.0, 0.0]
    for b, pair in enumerate(PAIRS):
        single = batch_of([pair])
        t, i = single.labels.shape[1], single.source.shape[1]
        values = losses(lexicon, shares[b : b + 1, :t, :i], single)
        alone = [before + value.item() for before, value in zip(alone, values, strict=True)]
    assert [value.item() for value in together] == pytest.approx(alone, rel=1e-12)


def test_each_learns_while_the_other_is_held_fixed(lexicon):
    batch = batch_of(PAIRS)
    shares = shares_of(batch).requires_grad_()
    unexplained, wrong = losses(lexicon, shares, batch)
    of_lexicon = torch.autograd.grad(unexplained, lexicon.parameters(), retain_graph=True)
    assert all(bool(grad.any()) for grad in of_lexicon)
    assert torch.autograd.grad(unexplained, shares, allow_unused=True, retain_graph=True) == (None,)
    assert bool(torch.autograd.grad(wrong, shares, retain_graph=True)[0].any())
    assert not any(torch.autograd.grad(wrong, lexicon.parameters(), allow_unused=True))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_it_is_finite_where_shares_are_hard(lexicon, value):
    batch = batch_of(PAIRS)
    shares = torch.full_like(shares_of(batch), value).requires_grad_()
    total = sum(losses(lexicon, shares, batch))
    total.backward()
    assert bool(torch.isfinite(total)) and bool(torch.isfinite(shares.grad).all())


def test_categories_by_hand():
    words, nothing = torch.tensor([[[0.7, 0.0], [0.2, 0.5]]]), torch.tensor([[0.1, 0.5]])
    origins = words.new_zeros(*words.shape[:2], 3)
    links = Links(words, nothing, torch.ones(1, 2, dtype=torch.bool), origins, nothing)
    wanted = torch.tensor(
        [
            [[0.0, 0.9, 0.1], [0.0, 0.5, 0.5]],
            [[0.7, 0.2, 0.1], [0.0, 0.5, 0.5]],
            [[0.9, 0.0, 0.1], [0.5, 0.0, 0.5]],
        ]
    )
    torch.testing.assert_close(links.categories()[0], wanted)


def test_after_a_cut_the_words_of_the_span_stay_untold():
    """Against a loop over what is left of each target."""
    pairs = [(list(range(5, 5 + n)), list(range(5, 5 + m))) for n, m in ((4, 6), (3, 9), (5, 2))]
    batch = batch_of(pairs)
    b, t, i = *batch.labels.shape, batch.source.shape[1]
    torch.manual_seed(7)
    cut = delete_spans(batch, 1.0)
    assert cut is not None and len(cut.rows) == b
    words = torch.rand(b, t - 1, i) * batch.target_mask[:, 1:, None]
    nothing = torch.rand(b, i)
    total = words.sum(1) + nothing
    origins = torch.rand(*words.shape[:2], words.shape[2] + 1)
    links = Links(words / total[:, None], nothing / total, batch.source_mask, origins, nothing)
    found = links.keep(cut.rows, cut.origin[:, :-1]).categories()
    for row, (_, target) in enumerate(pairs):
        kept = cut.words.labels[row].tolist()  # targets have no word twice
        for step in range(int(cut.words.mask[row].sum())):
            places = [target.index(word) for word in kept[:step]]
            past = links.words[row, places].sum(0)
            torch.testing.assert_close(found[row, step, :, 0], past)
            torch.testing.assert_close(found[row, step, :, 1], 1 - past - links.nothing[row])
    assert bool((found[:, :, :, 1][cut.after].amax(-1) > 0.05).all()), "something is untold"


def test_a_lexicon_learns_which_words_belong_together_and_which_to_nothing():
    """Target words are the source's plus ten, in the reverse order; word 5 is never translated.

    The shares let every word turn a little at each step, so what is learnt is learnt from words.
    """
    draw = torch.Generator().manual_seed(4)
    pairs = []
    for k in range(100):
        words = (6 + torch.randperm(9, generator=draw)[:4]).tolist()
        pairs.append(([*words[: k % 5], 5, *words[k % 5 :]], [word + 10 for word in words[::-1]]))
    links = learn_links(pairs)
    for (source, target), words, nothing in zip(pairs, links.words, links.nothing, strict=True):
        for i, x in enumerate(source):
            if x == 5:
                assert nothing[i] > 0.5
            else:
                assert target[words[:, i].argmax()] == x + 10
                assert nothing[i] < 0.5


def test_what_stands_beside_a_word_is_not_explained_by_its_translation():
    """Word 5 stands before every word from 10 on, as a measure word before its noun: each of their
    translations could explain it, but each is explained by its noun already."""
    draw = torch.Generator().manual_seed(6)
    pairs = []
    for _ in range(100):
        words = (6 + torch.randperm(9, generator=draw)[:4]).tolist()
        source = [x for word in words for x in ([5, word] if word >= 10 else [word])]
        pairs.append((source, [word + 10 for word in words]))
    links = learn_links(pairs)
    beside = torch.tensor([x == 5 for source, _ in pairs for x in source])
    nothing = torch.cat(
        [row[: len(source)] for row, (source, _) in zip(links.nothing, pairs, strict=True)]
    )
    assert nothing[beside].mean() > 0.5 > 2 * nothing[~beside].mean()


def learn_links(pairs):
    """Of what nothing is known but the words: the shares let each turn a little at every step."""
    batch = batch_of(pairs)
    steps, size = batch.labels.shape[1], batch.source.shape[1]
    past = torch.arange(steps)[None, :, None].expand(len(pairs), steps, size) / (steps - 1)
    shares = torch.stack([past, 1 - past, torch.zeros_like(past)], dim=-1)
    torch.manual_seed(5)
    lexicon = TranslationTable((26, 26), 16)
    optimizer = torch.optim.Adam(lexicon.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        find_links(lexicon, shares, batch)[1].backward()
        optimizer.step()
    return find_links(lexicon, shares, batch)[0]
