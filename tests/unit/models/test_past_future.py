"""What the decoder and the heads make of the capsules, and what becomes of a plain model."""

import pytest
import torch
import torch.nn.functional as F

from toys import SEPARATORS, SHAPES, separator, toy_batch, toy_model, words
from untold.config import BACKBONES, DecodeConfig, ModelConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.errors import UntoldError
from untold.models.backbone import Source, Widths
from untold.models.build import build_model
from untold.models.past_future import PastFuture
from untold.models.routing import Reading
from untold.training.warm_start import warm_start

D, C, FFN, J, FED = 44, 17, 19, 11, 5  # of toy models: width, of a capsule, capsules, those fed
BATCH = toy_batch([(4, 6), (1, 2), (3, 5)])


def forward(model):
    return model(BATCH.source, BATCH.source_mask, BATCH.prefix)


def count(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", SEPARATORS)
def test_nothing_reads_the_redundant_capsules(name):
    model = toy_model(separator=separator(name))
    outputs = forward(model)
    capsules = outputs.separated.routed.capsules
    logits = model.logits(outputs.holistic)
    (gradient,) = torch.autograd.grad((logits * logits.detach().cos()).sum(), capsules)
    assert bool((gradient[:, :, FED:] == 0).all())
    assert bool((gradient[:, :, :FED].abs().amax((0, 1, 3)) > 0).all()), "of each of the others"
    assert capsules.shape[2] == (J if name in ("gdr-mlp", "clf") else FED)


@pytest.mark.parametrize("name", ["gdr-dot", "gdr-mlp", "clf"])
def test_redundant_capsules_compete_for_words(name):
    """They are not read, but without them the others would get more."""
    shares = forward(toy_model(separator=separator(name))).assignments
    assert bool((shares[..., 2][:, :, 0].amax(1) > 0.01).all())
    torch.testing.assert_close(shares.sum(-1)[:, :, 0], torch.ones(shares.shape[:2]))


@pytest.mark.parametrize(("name", "scaled"), [("gdr-dot", True), ("gdr-mlp", False)])
def test_capsules_are_laid_side_by_side_and_scaled_each_by_its_own(name, scaled):
    model = toy_model(separator=separator(name))
    separated = forward(model).separated
    scale = model.past_future.scale if scaled else torch.ones(FED)
    expected = separated.routed.capsules[:, :, :FED] * scale[:, None]
    assert torch.equal(separated.past, expected[:, :, :2].flatten(2))
    assert torch.equal(separated.future, expected[:, :, 2:].flatten(2))


def test_scales_begin_at_the_square_root_of_the_width():
    shape = {"d_model": 8, "d_ffn": 6, "heads": 2, "separator": separator("gdr-dot")}
    module = PastFuture(ModelConfig.model_validate(shape), Widths(8, 8, 8), (9, 9))
    torch.testing.assert_close(module.scale.detach(), torch.full((FED,), 17**0.5))


@pytest.mark.parametrize("name", SEPARATORS)
def test_shares_are_sums_over_the_capsules_of_a_category(name):
    separated = forward(toy_model(separator=separator(name))).separated
    assignments = separated.routed.assignments
    for group, part in enumerate((slice(0, 2), slice(2, 5), slice(5, None))):
        torch.testing.assert_close(separated.shares[..., group], assignments[..., part].sum(-1))
    if name == "attn":
        assert bool((separated.shares[..., 2] == 0).all())


@torch.no_grad()
def test_the_fusions_are_their_formulas():
    for preset in ("paper", "default"):
        model = toy_model(separator=separator("gdr-dot", preset=preset))
        outputs, part = forward(model), model.past_future.fusion
        capsules = torch.cat([outputs.separated.past, outputs.separated.future], -1)
        if preset == "default":
            expected = outputs.states + capsules @ part.transform.weight.T
        else:
            joined = part.norm(torch.cat([outputs.states, capsules], -1))
            expected = outputs.states + part.transform.outer(F.relu(part.transform.inner(joined)))
        torch.testing.assert_close(outputs.holistic, expected)
        assert (outputs.holistic - outputs.states).abs().max() > 1e-2


@pytest.mark.parametrize("preset", ["paper", "default"])
@pytest.mark.parametrize("name", SEPARATORS)
@torch.no_grad()
def test_source_state_and_output_may_differ_in_width(name, preset):
    settings = {"separator": separator(name, preset=preset, coverage=True, d_capsule=None)}
    module = PastFuture(ModelConfig.model_validate(settings), Widths(13, 11, 7), (9, 9))
    source = module.cast(Source(torch.ones(2, 5, 13), torch.ones(2, 5, dtype=torch.bool)))
    states = torch.ones(2, 3, 11)
    separated = module.separate(source, Reading(states, states, torch.ones(2, 3, 7), begins=True))
    assert separated.past.shape == (2, 3, 2 * 3), "two capsules, half as wide as the output each"
    assert separated.fused.shape == (2, 3, 7)
    assert module.heads.bow_past(separated.past).shape == (2, 3, 7), "words are what is put out"
    assert module.heads.bca_past(states).shape == separated.past.shape


@pytest.mark.parametrize("preset", ["paper", "default"])
@pytest.mark.parametrize("name", SEPARATORS)
@pytest.mark.parametrize("backbone", BACKBONES.names)
@torch.no_grad()
def test_a_model_built_on_a_plain_one_begins_as_it_to_the_last_bit(backbone, name, preset):
    plain = toy_model(backbone=backbone)
    settings = {**SHAPES[backbone], "backbone": backbone}
    settings |= {"separator": separator(name, preset=preset)}
    model = build_model(ModelConfig.model_validate(settings), (13, 13), shared=True).eval()
    report = warm_start(model, plain)
    own = {key for key, _ in model.named_parameters() if key.startswith("past_future.")}
    assert set(report.new) == own and not report.ignored
    assert set(report.matched) == {key for key, _ in plain.named_parameters()}
    assert f"{len(own)} new (past_future {len(own)})" in str(report)
    logits = [m.logits(forward(m).holistic) for m in (model, plain)]
    assert torch.equal(logits[0], logits[1])
    assert bool((forward(model).separated.past != 0).any()), "its capsules are at work already"


@pytest.mark.parametrize("name", SEPARATORS)
def test_the_heads_have_no_part_in_translating(name):
    ids = words(3, 5)
    sentences = Sentences(ids, torch.arange(5) < torch.tensor([[5], [2], [4]]), SENTENCEPIECE_IDS)
    config = DecodeConfig(beam=3, nbest=2, max_length=7)

    def found(model):
        return search(model, sentences, config, {"assignments"})

    model = toy_model(separator=separator(name))
    whole = found(model)
    for parameter in model.past_future.heads.parameters():
        parameter.data.fill_(torch.nan)
    poisoned = found(model)
    model.past_future.heads = None
    for one, others in zip(whole, zip(poisoned, found(model), strict=True), strict=True):
        for other in others:
            assert one == other
            for left, right in zip(one, other, strict=True):
                assert torch.equal(left.assignments, right.assignments)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_damping_changes_no_value_and_scales_the_gradient(share):
    model = toy_model(separator=separator("gdr-dot"))
    model.past_future.backbone_gradient = share
    x = torch.linspace(-3, 3, 7).requires_grad_()
    damped = model.past_future.damp(x)
    assert torch.equal(damped, x)
    if share:
        damped.sum().backward()
        torch.testing.assert_close(x.grad, torch.full((7,), share))
    else:
        assert not damped.requires_grad


def test_freezing_leaves_the_separator_and_its_heads():
    model = toy_model(separator=separator("gdr-dot"))
    with pytest.raises(UntoldError, match="reads its capsules"):
        model.freeze_backbone()
    for parameter in model.past_future.fusion.parameters():
        torch.nn.init.zeros_(parameter)  # as a model begins
    model.freeze_backbone()
    free = {name for name, p in model.named_parameters() if p.requires_grad}
    inside = tuple(f"past_future.{name}" for name in ("separator", "coverage", "heads", "scale"))
    assert free == {name for name, _ in model.named_parameters() if name.startswith(inside)}
    with pytest.raises(UntoldError, match=r"set model\.separator\.kind to gdr, clf or attn"):
        toy_model().freeze_backbone()


# Written out from the formulas of the paper, for our layout.
VOTES = J * D * C
MLP = (D + 2 * C) * C + C + C  # W_b, its bias, w
DOT = J * D * C + C * C  # a W_z for each capsule, W_o
COVERAGE = 2 * D * C + J * D + J  # keys and queries, what a word is by itself, strengths
JOINED = D + FED * C
FEED_FORWARD = 2 * JOINED + (JOINED * FFN + FFN) + (FFN * D + D)  # norm, in, out
LINEAR = FED * C * D
LEXICON = 5 * (13 + 1 + 13 + 1)  # vectors of both vocabularies, each with one of nothing
HEADS = 2 * FED * C * D + LEXICON  # bags and content agreement, both sides
SCALES = FED


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, VOTES + DOT + COVERAGE + LINEAR + HEADS + SCALES),
        ({"preset": "paper"}, VOTES + MLP + FEED_FORWARD + HEADS),
        ({"num_iterations": 1}, VOTES + LINEAR + HEADS + SCALES),
        (
            {
                "coverage": False,
                "redundant": 0,
            },
            2 * FED * D * C + C * C + LINEAR + HEADS + SCALES,
        ),
    ],
)
def test_the_parameters_are_as_many_as_the_formula_says(settings, expected):
    model = toy_model(separator=separator("gdr-dot") | settings)
    assert count(model.past_future) == expected
    assert count(model) - count(toy_model()) == expected


def test_a_plain_model_has_no_shares_to_show():
    outputs = forward(toy_model())
    assert outputs.separated is None and outputs.assignments is None
    assert outputs.holistic is outputs.states
    assert outputs.source.votes == ()
