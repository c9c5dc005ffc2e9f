"""Past and future as a model of transformers: its losses, generate(), folders, trainer and peft."""

import copy
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest
import torch

from huggingface_toys import FAMILIES, languages, make_model, make_tokenizer, wrapped
from untold.errors import UntoldError
from untold.huggingface.conditional_generation import PastFutureForConditionalGeneration
from untold.huggingface.coverage_cache import CoverageLayer
from untold.huggingface.transformers_extra import import_transformers, quiet
from untold.models.past_future import PastFuture
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import TrainedModel, load_model
from untold.training.losses.objective import Objective
from untold.translator import load

TEXTS = ["the naïve cat sees 日本 🙂 .", "a dog reads"]
TARGETS = ["die Katze sieht 日本 .", "ein Hund liest das alte Buch"]
SMALL = {"d_capsule": 7, "lexicon": 5}
UNDRAWN = {"bow_share": 1.0, "vocabulary_share": 1.0, "counterfactual": 0.0}


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def build(family, **settings):
    """A model on a copy of the backbone; its fusion is not zero, so that capsules change logits."""
    found = wrapped(family)
    found = replace(found, model=copy.deepcopy(found.model))
    torch.manual_seed(3)
    return PastFutureForConditionalGeneration.from_wrapped(found, SMALL | settings)


def talkative(model):
    torch.nn.init.normal_(model.past_future.fusion.transform.weight, std=0.5)
    return model


@cache
def talking(family):
    """A model that the tests share, and leave as it is."""
    torch.manual_seed(5)
    return talkative(build(family))


def inputs(model, *, with_labels=True):
    tokenizer = model.tokenizer
    read = tokenizer(TEXTS, text_target=TARGETS, padding=True, return_tensors="pt")
    labels = read["labels"].masked_fill(read["labels"] == tokenizer.pad_token_id, -100)
    found = {"input_ids": read["input_ids"], "attention_mask": read["attention_mask"]}
    return found | ({"labels": labels} if with_labels else {})


@torch.no_grad()
def logits(model):
    given = inputs(model)
    prefix = model.prepare_decoder_input_ids_from_labels(given.pop("labels"))
    return model(**given, decoder_input_ids=prefix).logits


def test_loss_and_every_gradient_are_those_of_our_objective(family):
    """Random draws, too: spans, steps and words that the losses choose are the same."""
    native = talkative(build(family, bca_weight=0.1, counterfactual=1.0))
    found = wrapped(family)
    config = native.config.untold
    backbone = copy.deepcopy(found.model.backbone)
    own = Seq2Seq(backbone, PastFuture(config.model, backbone.widths, found.tokenizers.sizes))
    own.past_future.load_state_dict(native.past_future.state_dict())
    codec = TrainedModel(own, config, found.tokenizers).codec
    batch = codec.batch(codec.encode_pairs(list(zip(TEXTS, TARGETS, strict=True))), [0, 1])
    given, theirs, ours = inputs(native), native, own
    for model in (theirs, ours):
        model.train()
        for module in model.modules():  # masks of dropout have the shape of the frame
            if isinstance(getattr(module, "p", None), float):
                module.p = 0.0
            for name in ("dropout", "attention_dropout", "activation_dropout"):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)
    count = int((given["labels"] != -100).sum())
    torch.manual_seed(11)
    losses = Objective(own, config.train)(batch, 1)
    (losses.total / count).backward()
    torch.manual_seed(11)
    loss = native(**given).loss
    loss.backward()
    torch.testing.assert_close(loss, losses.total / count, rtol=1e-5, atol=0)
    assert {"nll", "bow", "ends", "lexicon", "links", "bca", "counterfactual", "cut_links"} <= (
        losses.parts.keys()
    )
    gradients = {name: p.grad for name, p in own.named_parameters()}
    assert {name for name, _ in native.named_parameters()} == gradients.keys()
    for name, parameter in native.named_parameters():
        expected = gradients[name]
        assert (parameter.grad is None) == (expected is None), name
        if expected is not None:
            size = float(expected.abs().max())
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-5 * size)


def test_before_training_its_logits_are_exactly_those_of_the_backbone(family, tmp_path):
    model = build(family)
    given = inputs(model)
    prefix = model.prepare_decoder_input_ids_from_labels(given["labels"])
    found = logits(model)
    with torch.no_grad():
        del given["labels"]
        inside = model.backbone.model(**given, decoder_input_ids=prefix).logits
        stock = make_model(family, make_tokenizer(family, tmp_path))
        assert torch.equal(inside, found)
        expected = stock(**given, labels=inputs(model)["labels"]).logits
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * float(found.abs().max()))
        assert torch.equal(model(**inputs(model)).logits, found)


def test_generate_follows_its_beams(family):
    """What a beam that was reordered says is what one pass over the chosen sequence says."""
    model = talking(family)
    given = inputs(model, with_labels=False)
    options = {"max_new_tokens": 8, "return_dict_in_generate": True, "output_scores": True}
    made = model.generate(**given, num_beams=3, num_return_sequences=2, **options)
    through = model.compute_transition_scores(made.sequences, made.scores, made.beam_indices)
    rows = {name: value.repeat_interleave(2, 0) for name, value in given.items()}
    with torch.no_grad():
        read = model(**rows, decoder_input_ids=made.sequences[:, :-1])
    expected = read.logits.log_softmax(-1).gather(2, made.sequences[:, 1:, None])[..., 0]
    said = made.sequences[:, 1:] != model.frame.target.pad
    forced = model.frame.hidden, made.sequences.shape[1] - 2  # the first and the last position
    kept = slice(forced[0], forced[1])
    assert bool(said[:, kept].any())
    difference = (through - expected)[:, kept][said[:, kept]].abs()
    assert float(difference.max()) < 1e-4 * float(read.logits.abs().max())
    torch.testing.assert_close(made.assignments, read.assignments * said[:, :, None, None])
    own = made.assignments.sum(-1)[:, model.frame.hidden :][said[:, model.frame.hidden :]]
    visible = own > 0.5
    torch.testing.assert_close(own[visible], torch.ones_like(own[visible]))
    static = model.generate(
        **given, num_beams=3, num_return_sequences=2, cache_implementation="static", **options
    )
    assert torch.equal(static.sequences, made.sequences)


@pytest.mark.parametrize("family", ["marian", "nllb", "t5 v1.1"], indirect=True)
def test_all_ways_to_generate_agree(family):
    model = talking(family)
    given = inputs(model, with_labels=False)
    for options in ({}, {"num_beams": 2}, {"do_sample": True, "num_return_sequences": 2}):
        found = []
        for cache in ({}, {"use_cache": False}, {"cache_implementation": "static"}):
            torch.manual_seed(1)
            found.append(model.generate(**given, max_new_tokens=6, **options, **cache))
        assert all(torch.equal(each, found[0]) for each in found), options
    started = model.generate(**given, max_new_tokens=6, decoder_input_ids=found[0][::2, :3])
    assert torch.equal(started[:, :3], found[0][::2, :3])


def test_coverage_that_is_not_reordered_would_be_noticed(monkeypatch):
    monkeypatch.setattr(CoverageLayer, "reorder_cache", lambda self, rows: None)
    with pytest.raises(AssertionError):
        test_generate_follows_its_beams("marian")


@torch.no_grad()
def test_one_folder_serves_transformers_and_our_commands(family, tmp_path):
    transformers, model = import_transformers(), talking(family)
    with quiet():
        model.save_pretrained(tmp_path / "saved")
        (tmp_path / "saved" / "README.md").write_text("a card of the hub")
        again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved")
        transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert type(again) is PastFutureForConditionalGeneration
    expected = logits(model)
    assert torch.equal(logits(again), expected)
    assert shared(again) == shared(model)
    assert again.generation_config.to_dict() == model.generation_config.to_dict()
    trained = load_model(tmp_path / "saved")
    batch = trained.codec.batch(trained.codec.encode_pairs([(TEXTS[0], TARGETS[0])]), [0])
    outputs = trained.model(batch.source, batch.source_mask, batch.prefix)
    hidden, length = model.frame.hidden, batch.labels.shape[1]
    torch.testing.assert_close(
        trained.model.logits(outputs.holistic)[0], expected[0, hidden : hidden + length]
    )


def shared(model):
    """The names of the weights that are one tensor."""
    groups = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(parameter.data_ptr(), []).append(name)
    return sorted(names for names in groups.values() if len(names) > 1)
