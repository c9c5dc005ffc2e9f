"""Training a model of transformers with past and future: checkpoints of layers, 16-bit weights."""

import pytest
import torch

from huggingface_toys import FAMILIES, save_folder
from pretrained_toys import build, inputs, logits, make_trainer, talkative
from untold.errors import UntoldError
from untold.huggingface.generation_past_future import PastFutureForConditionalGeneration
from untold.huggingface.optional import quiet
from untold.storage.model_directory import load_model
from untold.training.losses.links import ends_loss


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def gradients(model, given):
    """The loss in training mode and all gradients, by name; dropout draws the same every time."""
    model.train().zero_grad()
    torch.manual_seed(11)
    loss = model(**given).loss
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}


def count_calls(layer):
    calls = []
    layer.register_forward_pre_hook(lambda *_: calls.append(1))
    return calls


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_changes_neither_the_loss_nor_any_gradient(family, reentrant):
    """Frames, spans that are cut out, dropout and padding included."""
    model = talkative(build(family, counterfactual=1.0, bca_weight=0.1))
    given = inputs(model)
    loss, expected = gradients(model, given)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    decoder = model.stock.get_decoder()
    calls = count_calls((decoder.block if family.startswith("t5") else decoder.layers)[-1])
    again, found = gradients(model, given)
    assert len(calls) == 4  # for the whole targets and for the cut ones, forwards and backwards
    torch.testing.assert_close(again, loss, rtol=1e-6, atol=0)
    for name, gradient in found.items():
        assert (gradient is None) == (expected[name] is None), name
        if gradient is not None:
            room = 1e-5 * float(expected[name].abs().max()) + 1e-6
            torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=room, msg=name)
    model.gradient_checkpointing_disable()
    assert not model.is_gradient_checkpointing
    assert torch.equal(gradients(model, given)[0], loss)


def test_some_layers_may_be_checkpointed_and_others_not():
    model = build("nllb")
    loss, expected = gradients(model, inputs(model))
    model.gradient_checkpointing_enable(every_n_layers=2)
    again, found = gradients(model, inputs(model))
    torch.testing.assert_close(again, loss, rtol=1e-6, atol=0)
    name = "backbone.model.model.decoder.layers.1.encoder_attn.k_proj.weight"
    torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_checkpointed_layers_and_a_cache_do_not_mix():
    """transformers drops the cache of layers in training mode; every step would forget the last."""
    model = talkative(build("marian"))
    given = inputs(model, with_labels=False)
    expected = model.generate(**given, max_new_tokens=5)
    model.gradient_checkpointing_enable()
    with pytest.raises(
        UntoldError, match=r"drop the cache of generate\(\): call model.eval\(\) first"
    ):
        model.train().generate(**given, max_new_tokens=5)
    assert torch.equal(model.eval().generate(**given, max_new_tokens=5), expected)


def test_the_trainer_checkpoints(tmp_path):
    losses, models = [], [build("mbart") for _ in range(2)]
    for model, checkpoints in zip(models, (False, True), strict=True):
        trainer = make_trainer(model, tmp_path, {"gradient_checkpointing": checkpoints})
        losses.append(trainer.train().training_loss)
        assert model.is_gradient_checkpointing is checkpoints
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    for (name, one), other in zip(
        models[0].named_parameters(), models[1].parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6, msg=name)


NARROW = (torch.bfloat16, torch.float16)


def narrowed(family, kind, **settings):
    """Two models with the same weights; the second one's backbone has 16 bits."""
    wide = talkative(build(family, **settings))
    narrow = build(family, **settings)
    narrow.load_state_dict(wide.state_dict())
    return wide, narrow.to(kind)


@torch.no_grad()
def assignments(model):
    given = inputs(model)
    prefix = model.prepare_decoder_input_ids_from_labels(given.pop("labels"))
    return model(**given, decoder_input_ids=prefix).assignments


@pytest.mark.parametrize("kind", NARROW)
def test_a_backbone_of_16_bits_keeps_past_and_future_in_32(family, kind, tmp_path):
    wide, narrow = narrowed(family, kind)
    assert {p.dtype for p in narrow.backbone.parameters()} == {kind}
    assert {p.dtype for p in narrow.past_future.parameters()} == {torch.float32}
    for one, other in zip(
        narrow.past_future.parameters(), wide.past_future.parameters(), strict=True
    ):
        assert torch.equal(one, other)  # not even rounded on the way
    assert logits(narrow).dtype is kind
    found, expected = assignments(narrow), assignments(wide)
    assert found.dtype is torch.float32
    assert float((found - expected).abs().max()) < 0.15  # what rounded states alone change
    assert float((found - expected).abs().mean()) < 0.01
    given = inputs(narrow, with_labels=False)
    made = narrow.generate(**given, max_new_tokens=6, num_beams=2, return_dict_in_generate=True)
    sums = made.assignments.sum(-1)
    torch.testing.assert_close(sums[sums > 0.5], torch.ones_like(sums[sums > 0.5]))
    with quiet():
        narrow.save_pretrained(tmp_path)
        again = PastFutureForConditionalGeneration.from_pretrained(tmp_path)
        other = PastFutureForConditionalGeneration.from_pretrained(tmp_path, dtype=torch.float32)
    assert torch.equal(logits(again), logits(narrow))
    assert {p.dtype for p in again.past_future.parameters()} == {torch.float32}
    assert {p.dtype for p in other.parameters()} == {torch.float32}


def test_a_frozen_backbone_of_16_bits_carries_capsules_that_learn(family):
    settings = {"freeze_backbone": True, "counterfactual": 1.0, "bca_weight": 0.1}
    wide, narrow = narrowed(family, torch.bfloat16, **settings)
    loss, expected = gradients(wide, inputs(wide))
    again, found = gradients(narrow, inputs(narrow))
    assert again.dtype is torch.float32
    torch.testing.assert_close(again, loss, rtol=0.03, atol=0)
    learnt = {name for name, gradient in expected.items() if gradient is not None}
    assert learnt == {name for name, gradient in found.items() if gradient is not None}
    for name in learnt:
        likeness = torch.cosine_similarity(found[name].flatten(), expected[name].flatten(), dim=0)
        assert float(likeness) > 0.9, name


def test_a_frozen_backbone_works_as_in_translation(family):
    """Dropout in it would teach the capsules states that translations never have."""
    settled = {"bow_share": 1.0, "vocabulary_share": 1.0, "counterfactual": 0.0}
    model = talkative(build(family, freeze_backbone=True, **settled)).train()
    assert model.training and model.past_future.training
    losses = [model(**inputs(model)).loss for _ in range(2)]
    assert torch.equal(*losses)
    other = talkative(build(family, **settled)).train()
    assert not torch.equal(*(other(**inputs(other)).loss for _ in range(2)))


def test_all_of_a_model_of_16_bits_gets_gradients(family):
    model = talkative(build(family)).to(torch.bfloat16)
    loss, found = gradients(model, inputs(model))
    assert bool(loss.isfinite())
    for name, gradient in found.items():
        if name.startswith("backbone."):
            assert gradient is not None and gradient.dtype is torch.bfloat16, name
            assert bool(gradient.isfinite().all()), name


def test_the_trainer_computes_in_16_bits(tmp_path):
    """Weights stay in 32 bits; shares of exactly one must not make a loss infinite."""
    losses = [
        make_trainer(talkative(build("marian")), tmp_path, {"bf16": narrow}).train().training_loss
        for narrow in (False, True)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


@pytest.mark.parametrize("kind", [torch.float32, *NARROW])
def test_the_ends_of_a_target_cost_a_finite_loss_in_any_precision(kind):
    shares = torch.eye(3, dtype=kind).view(1, 3, 1, 3).requires_grad_()
    loss = ends_loss(shares, torch.ones(1, 3, dtype=torch.bool))
    loss.backward()
    assert bool(loss.isfinite()) and bool(shares.grad.isfinite().all())


@torch.no_grad()
def test_a_backbone_is_read_in_16_bits_and_our_commands_read_what_was_saved(tmp_path):
    save_folder("marian", tmp_path / "marian")
    make = PastFutureForConditionalGeneration.from_backbone
    model = make(str(tmp_path / "marian"), dtype=torch.bfloat16, d_capsule=7)
    assert model.dtype is torch.bfloat16 and model.capsule_dtype is torch.float32
    with quiet():
        model.save_pretrained(tmp_path / "saved")
    trained = load_model(tmp_path / "saved")
    assert {p.dtype for p in trained.model.parameters()} == {torch.float32}
    weight = trained.model.output_embedding()
    assert torch.equal(weight, model.get_output_embeddings().weight.float())
