"""Past and future as a model of transformers: its losses, generate(), folders, trainer and peft."""

import copy
import importlib
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from huggingface_toys import FAMILIES, make_model, make_tokenizer, save_folder, wrapped
from pretrained_toys import (
    TARGETS,
    TEXTS,
    build,
    inputs,
    logits,
    make_trainer,
    shared,
    talkative,
    talking,
    without_dropout,
)
from untold.errors import UntoldError
from untold.huggingface.generation_past_future import (
    CoverageLayer,
    PastFutureForConditionalGeneration,
)
from untold.huggingface.optional import import_transformers, quiet
from untold.models.past_future import PastFuture
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import TrainedModel, load_model
from untold.training.losses.objective import Objective
from untold.translator import load

ROOT = Path(__file__).parents[3]
UNDRAWN = {"bow_share": 1.0, "vocabulary_share": 1.0, "counterfactual": 0.0}


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


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
    given = inputs(native)
    for model in (native, own):
        without_dropout(model).train()
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
            room = 1e-5 * float(expected.abs().max()) + 1e-7  # a bias of keys has noise alone
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=room)


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


@torch.no_grad()
def test_neither_padding_nor_the_future_leaks(family):
    model = talking(family)
    given = inputs(model)
    prefix = model.prepare_decoder_input_ids_from_labels(given.pop("labels"))
    whole = model(**given, decoder_input_ids=prefix)
    length, half = int(given["attention_mask"][1].sum()), prefix.shape[1] // 2
    row = {name: value[1:, :length] for name, value in given.items()}
    alone = model(**row, decoder_input_ids=prefix[1:, :half])
    room = 1e-5 * float(whole.logits.abs().max())
    torch.testing.assert_close(alone.logits[0], whole.logits[1, :half], rtol=0, atol=room)
    torch.testing.assert_close(alone.assignments[0], whole.assignments[1, :half, :length])
    assert not whole.assignments[1, :, length:].any()


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
        for kept in ({}, {"use_cache": False}, {"cache_implementation": "static"}):
            torch.manual_seed(1)
            found.append(model.generate(**given, max_new_tokens=6, **options, **kept))
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
    found, spoken = trained.model.logits(outputs.holistic)[0], expected[0, hidden : hidden + length]
    torch.testing.assert_close(found, spoken, rtol=1e-4, atol=1e-4)


def test_a_folder_that_was_damaged_is_refused(tmp_path):
    with quiet():
        talking("marian").save_pretrained(tmp_path)
    assert load(tmp_path).translate(TEXTS[0], assignments=True).assignments is not None
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(UntoldError, match="has changed since it was written"):
        load_model(tmp_path)


def test_a_frozen_model_trains_new_parameters_alone(tmp_path):
    with quiet():
        build("marian", freeze_backbone=True).save_pretrained(tmp_path)
        model = PastFutureForConditionalGeneration.from_pretrained(tmp_path)
    before = logits(model)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(**inputs(model)).loss.backward()
    got = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert got
    assert all(name.startswith("past_future.") and "fusion" not in name for name in got)
    optimizer.step()
    assert torch.equal(logits(model.eval()), before)


@pytest.mark.parametrize("generates", [False, True])
def test_the_trainer_evaluates_and_gets_no_outputs_that_it_did_not_ask_for(tmp_path, generates):
    model, seen = build("marian"), []

    def count(predicted):
        seen.append(predicted.predictions.shape)
        return {}

    trainer = make_trainer(
        model, tmp_path, {"predict_with_generate": generates}, compute_metrics=count
    )
    losses = [trainer.evaluate()["eval_loss"] for _ in range(2)]
    assert losses[0] == losses[1]  # evaluation draws the same numbers every time
    if generates:
        assert len(seen[0]) == 2  # ids, which the trainer pads
    else:
        assert seen[0] == (2, inputs(model)["labels"].shape[1], model.config.sizes[1])


def test_accumulation_changes_neither_the_loss_nor_the_update(tmp_path):
    models = [without_dropout(build("nllb", **UNDRAWN)) for _ in range(2)]
    sizes = [
        {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulate}
        for batch, accumulate in ((4, 1), (1, 4))
    ]
    one, four = (
        make_trainer(model, tmp_path, chosen).train().training_loss
        for model, chosen in zip(models, sizes, strict=True)
    )
    assert one == pytest.approx(four, rel=1e-4)
    for (name, ours), theirs in zip(
        models[0].named_parameters(), models[1].parameters(), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.filterwarnings("ignore:.*pin_memory")  # which it wants where no GPU is
def test_the_example_trains_and_untold_reads_what_comes_of_it(tmp_path, monkeypatch):
    save_folder("marian", tmp_path / "marian")
    for side, lines in (("source", TEXTS), ("target", TARGETS)):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    example = str(ROOT / "examples" / "finetune_with_trainer.py")
    files = ("--source", "source", "--target", "target", "--out", "tuned")
    monkeypatch.setattr(sys, "argv", [example, "marian", *files, "--steps", "2", "--batch", "2"])
    with quiet():
        runpy.run_path(example)
    translation = load("tuned").translate(TEXTS[0], assignments=True)
    assert translation.assignments.shape[2] == 3
    tuned, stock = load_model("tuned").model, load_model("hf:marian").model
    assert not torch.equal(tuned.output_embedding(), stock.output_embedding())
    assert not tuned.past_future.fusion.is_silent


def test_lora_trains_the_backbone_while_the_capsules_train_fully(tmp_path):
    peft = importlib.import_module("peft")
    lora = peft.LoraConfig(
        r=2, target_modules=["q_proj", "v_proj"], modules_to_save=["past_future"]
    )
    model = peft.get_peft_model(build("marian"), lora)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert all("lora_" in name or "past_future.modules_to_save" in name for name in trained)
    before = logits(model.base_model.model)
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=0.1)
    for _ in range(2):  # the first update leaves half of every adapter without a gradient
        optimizer.zero_grad()
        model.train()(**inputs(model.base_model.model)).loss.backward()
        optimizer.step()
    found = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert {name for name in trained if "lora_" in name} <= found
    assert any("past_future" in name and "fusion" in name for name in found)
    model.eval()
    after = logits(model.base_model.model)
    assert not torch.equal(before, after)
    merged = model.merge_and_unload()
    torch.testing.assert_close(logits(merged), after, rtol=1e-4, atol=1e-4)
    with quiet():
        merged.save_pretrained(tmp_path)
    again = PastFutureForConditionalGeneration.from_pretrained(tmp_path)
    assert torch.equal(logits(again), logits(merged))


def changed(family, change):
    def act():
        model = talking(family)
        return model(**change(model, inputs(model)))

    return act


def left_padded(model, given):
    return given | {"labels": given["labels"].flip(1)}


def without_frame(model, given):
    return given | {"labels": given["labels"][:, 1:]}


def without_target(model, given):
    return {name: value for name, value in given.items() if name != "labels"}


def foreign(model, given):
    encoded = model.backbone.model.get_encoder()(given["input_ids"])
    return {"encoder_outputs": encoded, "decoder_input_ids": given["input_ids"][:, :1]}


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (changed("marian", left_padded), "padded on the left"),
        (changed("nllb", without_frame), "not with what the decoder reads first"),
        (changed("marian", without_target), "neither labels nor decoder_input_ids"),
        (changed("marian", foreign), "have no votes"),
        (lambda: build("marian", bow_wieght=1.0), "did you mean bow_weight"),
        (lambda: build("marian", kind="none"), "separates nothing"),
        (lambda: build("marian", bow_weight=-1.0), "bow_weight"),
        (lambda: build("marian").train()(**without_target(None, given_to_train())), "label_smoo"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(act, words):
    with pytest.raises(UntoldError, match=words) as error:
        act()
    assert "\n" not in str(error.value)


def given_to_train():
    model = talking("marian")
    given = inputs(model)
    return given | {
        "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(given["labels"])
    }


def test_importing_untold_imports_neither_transformers_nor_torch():
    code = (
        "import sys, untold.huggingface\n"
        "print({'transformers', 'torch', 'pydantic'} & sys.modules.keys())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
