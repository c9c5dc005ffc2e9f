"""The copy layer against its formula, word by word; what it promises at first and at the edges."""

import math

import pytest
import torch

from toys import (
    BOS,
    EOS,
    PAD,
    UNK,
    all_scores,
    collate,
    counterparts,
    separator,
    toy_batch,
    toy_model,
)
from untold.config import ModelConfig
from untold.decoding.scoring import score_pairs
from untold.errors import UntoldError
from untold.models.backbone import Source, Widths
from untold.models.build import build_model
from untold.models.copy_mechanism import GATE_BIAS, Copied, CopyLayer
from untold.training.warm_start import warm_start

BATCH = toy_batch([(4, 6), (1, 2), (3, 5)])
SMALL = {"d_model": 44, "d_ffn": 19, "heads": 11, "encoder_layers": 2, "decoder_layers": 3}


def forward(model, batch=BATCH):
    return model(batch.source, batch.source_mask, batch.prefix)


@torch.no_grad()
def by_hand(model, outputs, ids, row, step):
    """The probabilities of one position, from the formula; all in loops."""
    layer, o = model.copy_layer, outputs.holistic[row, step]
    table = layer.counterparts.tolist()
    words = [table[token] for token in ids]
    places = [i for i, word in enumerate(words) if word != PAD]
    states = outputs.source.states[row]
    probabilities = (model.output_embedding() @ o).softmax(0)
    if not places:
        return probabilities
    width = math.sqrt(len(o))
    scores = [layer.query.weight @ o @ (layer.key.weight @ states[i]) / width for i in places]
    attention = torch.stack(scores).softmax(0)
    context = sum(a * states[i] for a, i in zip(attention, places, strict=True))
    both = torch.cat([layer.gate.weight[0], layer.cue.weight[0]])
    gate = (both @ torch.cat([o, context]) + layer.gate.bias[0]).sigmoid()
    probabilities = (1 - gate) * probabilities
    for a, i in zip(attention, places, strict=True):
        probabilities[words[i]] += gate * a
    return probabilities


@pytest.mark.parametrize("sizes", [(13, 13), (17, 13)])
@torch.no_grad()
def test_the_mixture_is_its_formula(sizes):
    """The first source says a word twice, and has one that the second vocabulary has not."""
    model = toy_model(sizes, shared=sizes[0] == sizes[1], copying=True)
    batch = collate([([4, 5, 8, 4, 6], [7, 9]), ([10], [5, 5, 6])], range(2))
    outputs = forward(model, batch)
    found = all_scores(model, outputs).exp()
    for row, length in enumerate(batch.source_mask.sum(1).tolist()):
        for step in range(int(batch.target_mask[row].sum())):
            ids = batch.source[row, :length].tolist()
            expected = by_hand(model, outputs, ids, row, step)
            torch.testing.assert_close(found[row, step], expected, rtol=1e-4, atol=1e-6)
            generated = model.logits(outputs.holistic[row, step]).softmax(0)
            assert (found[row, step] - generated).abs().max() > 1e-2, "copying matters"


@torch.no_grad()
def test_with_nothing_to_copy_all_is_generated():
    """Whatever stands beside it in the batch, control tokens and words unknown to the target."""
    model = toy_model((17, 13), shared=False, copying=True)
    assert counterparts(17, 13)[6] == counterparts(17, 13)[9] == PAD
    batch = collate([([6, UNK, 9], [7, 9]), ([4, 5, 8, 7, 10], [5, 5, 6])], range(2))
    outputs = forward(model, batch)
    assert bool((outputs.copying[0] == 0).all()) and bool((outputs.copied.generating[0] == 0).all())
    expected = model.logits(outputs.holistic).log_softmax(-1)
    torch.testing.assert_close(all_scores(model, outputs)[0], expected[0])
    assert bool((outputs.copied.generating[1] < 0).all())


def test_with_nothing_to_copy_gradients_are_finite():
    model = toy_model((17, 13), shared=False, copying=True)
    batch = collate([([6, UNK, 9], [7, 9])], range(1))
    all_scores(model, forward(model, batch)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert bool(torch.isfinite(parameter.grad).all()), name


def test_control_tokens_are_never_copied():
    model = toy_model(copying=True)
    table = model.copy_layer.counterparts.tolist()
    assert [table[token] for token in (PAD, UNK, BOS, EOS)] == [PAD] * 4
    assert table[4:] == list(range(4, 13)), "all else is its own counterpart"
    at_the_ends = forward(model).copying.gather(2, BATCH.source_mask.sum(1).sub(1)[:, None, None])
    assert bool((at_the_ends == 0).all()), "of each source the EOS"


def test_two_vocabularies_need_their_counterparts():
    with pytest.raises(UntoldError, match="needs the counterparts"):
        build_model(ModelConfig.model_validate({**SMALL, "copying": True}), (17, 13), shared=False)


@pytest.mark.parametrize("kind", ["none", "gdr-dot"])
@torch.no_grad()
def test_a_model_built_on_a_plain_one_begins_nearly_as_it(kind):
    """Nothing is less likely by more than the gate's opening, which is the same everywhere."""
    plain = toy_model(separator=separator(kind))
    config = ModelConfig.model_validate(SMALL | {"separator": separator(kind), "copying": True})
    model = build_model(config, (13, 13), shared=True).eval()
    report = warm_start(model, plain)
    own = {name for name, _ in model.named_parameters() if name.startswith("copy_layer.")}
    assert set(report.new) == own and len(own) == 5 and not report.ignored
    outputs = forward(model)
    opening = 1 / (1 + math.exp(-GATE_BIAS))
    assert opening < 0.02
    real = BATCH.target_mask
    opened = outputs.copying.sum(2)[real]
    torch.testing.assert_close(opened, torch.full_like(opened, opening))
    before = plain.logits(forward(plain).holistic).softmax(-1)
    after = all_scores(model, outputs).exp()
    assert bool((after[real] > (1 - opening) * before[real] * (1 - 1e-5)).all())
    assert (after - before)[real].abs().sum(-1).max() < 2 * opening + 1e-5
    assert (after - before)[real].abs().max() > 1e-3, "but it is not shut"


def test_positions_are_taken_as_they_are_asked_for():
    model = toy_model(copying=True)
    outputs = forward(model)
    everything = all_scores(model, outputs)
    rows, steps = torch.tensor([2, 0, 2]), torch.tensor([3, 0, 1])
    torch.testing.assert_close(model.scores(outputs, rows, steps), everything[rows, steps])


@torch.no_grad()
def test_the_probability_of_a_label_counts_all_its_places():
    copied = Copied(
        ids=torch.tensor([[7, 5, 7, PAD]]),
        first=torch.tensor([[0, 1, 0, 3]]),
        weights=torch.tensor([[[0.25, 0.125, 0.0625, 0.0]] * 3]),
        generating=torch.full((1, 3), 0.5625).log(),
    )
    labels = torch.tensor([[7, 5, 6]])
    assert copied.probability(labels).tolist() == [[0.3125, 0.125, 0.0]]
    mixed = copied.mix(torch.zeros(1, 3, 9)).exp()[0, 0]
    expected = torch.full((9,), 0.5625 / 9)
    expected[7] += 0.3125
    expected[5] += 0.125
    torch.testing.assert_close(mixed, expected)


def test_the_gradient_of_the_mixture_is_that_of_finite_differences():
    """With a word that stands twice, and one that is far likelier copied than generated."""
    ids, first = torch.tensor([[7, 5, 7, PAD]]), torch.tensor([[0, 1, 0, 3]])
    weights = torch.tensor([[[0.25, 0.125, 0.0625, 0.0]]], dtype=torch.float64)
    logits = torch.linspace(-30, 3, 9, dtype=torch.float64).flip(0)[None, None]

    def mixed(logits, weights, generating):
        copyable = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
        return Copied(ids, first, weights * copyable, generating).mix(logits)

    inputs = [logits, weights, torch.full((1, 1), 0.5, dtype=torch.float64).log()]
    assert torch.autograd.gradcheck(mixed, [each.requires_grad_() for each in inputs])


@pytest.mark.parametrize("score", [-200.0, 200.0])
def test_probabilities_that_vanish_stay_finite(score):
    """A word whose weight is no longer a number of its own, generated or copied."""
    layer = CopyLayer(Widths(5, 3, 2), range(9), PAD)
    with torch.no_grad():
        layer.key.weight.zero_()[:, 0] = 1
        layer.query.weight.copy_(torch.eye(2))
    states = torch.zeros(1, 2, 5)
    states[0, 0, 0] = score
    source = layer.cast(Source(states, torch.ones(1, 2, dtype=torch.bool)), torch.tensor([[6, 7]]))
    holistic = torch.ones(1, 1, 2, requires_grad=True)
    copied = layer(source, holistic)
    mixed = copied.mix(torch.tensor([[[0.0] * 6 + [-300.0, -300.0, 0.0]]]))
    assert copied.weights.min() == 0.0
    mixed.sum().backward()
    assert bool(torch.isfinite(mixed).all()) and bool(torch.isfinite(holistic.grad).all())


def test_source_and_output_may_differ_in_width():
    layer = CopyLayer(Widths(13, 11, 7), [PAD] * 4 + list(range(4, 9)), PAD)
    source = Source(torch.ones(2, 5, 13), torch.ones(2, 5, dtype=torch.bool))
    cast = layer.cast(source, torch.full((2, 5), 6))
    assert layer(cast, torch.ones(2, 3, 7)).weights.shape == (2, 3, 5)
    assert sum(p.numel() for p in layer.parameters()) == 7 * (13 + 7) + 13 + 7 + 1


def test_scoring_says_what_was_copied():
    model = toy_model(copying=True)
    (scored, *_) = score_pairs(model, BATCH, 0.0)
    outputs = forward(model)
    torch.testing.assert_close(scored.copying, outputs.copying[0, :7, :5].detach())
    log_p = all_scores(model, outputs)[0].detach()
    expected = sum(float(log_p[t, label]) for t, label in enumerate(BATCH.labels[0, :7].tolist()))
    assert scored.log_probability == pytest.approx(expected, rel=1e-5)


def test_freezing_keeps_what_is_copied():
    model = toy_model(separator=separator("gdr-dot"), copying=True)
    for parameter in model.past_future.fusion.parameters():
        torch.nn.init.zeros_(parameter)
    model.freeze_backbone()
    assert not any(p.requires_grad for p in model.copy_layer.parameters())
