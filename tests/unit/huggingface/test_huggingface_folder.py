"""Wrapped models of every family: they are the stock models, and what cannot be is refused."""

import copy
import json
import sys

import pytest
import torch

from huggingface_toys import (
    FAMILIES,
    languages,
    make_model,
    make_tokenizer,
    save_folder,
    with_past_future,
    wrapped,
)
from untold.config import DecodeConfig, TrainConfig
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.errors import UntoldError
from untold.huggingface.backbone import HuggingFaceBackbone
from untold.huggingface.folder import wrap_model
from untold.huggingface.optional import import_transformers
from untold.models.build import build_model_for
from untold.models.seq2seq import CoveringState
from untold.storage.model_directory import TrainedModel, load_model, save_model
from untold.training.losses.objective import Objective
from untold.translator import Translator, load

TEXTS = ["the naïve cat sees 日本 🙂 .", "a dog reads"]
TARGETS = ["die Katze sieht 日本 .", "ein Hund liest das alte Buch"]


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def stock_of(family, tmp_path):
    """The model that `wrapped` wraps, made again, with transformers' own attention."""
    tokenizer = make_tokenizer(family, tmp_path)
    return make_model(family, tokenizer), tokenizer


def batch_of(found):
    pairs = TrainedModel(found.model, found.config, found.tokenizers).codec
    return pairs.batch(pairs.encode_pairs(list(zip(TEXTS, TARGETS, strict=True))), [0, 1])


@torch.no_grad()
def test_before_training_its_logits_are_those_of_the_stock_model(family, tmp_path):
    """Stock inputs come from the stock tokenizer, with all that it puts around a text."""
    stock, tokenizer = stock_of(family, tmp_path)
    if chosen := languages(family):
        tokenizer.src_lang, tokenizer.tgt_lang = chosen.values()
    read = tokenizer(TEXTS, text_target=TARGETS, padding=True, return_tensors="pt")
    labels = read["labels"].masked_fill(read["labels"] == tokenizer.pad_token_id, -100)
    expected = stock(
        input_ids=read["input_ids"], attention_mask=read["attention_mask"], labels=labels
    ).logits
    batch, model = batch_of(wrapped(family)), with_past_future(family)
    logits = model.logits(model(batch.source, batch.source_mask, batch.prefix).holistic)
    for row, mask in enumerate(batch.target_mask):
        ids = batch.labels[row][mask]
        own = labels[row]
        first = next(k for k in range(len(own)) if own[k : k + len(ids)].equal(ids))
        there = expected[row, first : first + len(ids)]
        torch.testing.assert_close(logits[row][mask], there, rtol=1e-4, atol=1e-4)


# The stock generate() fails for a T5 whose decoder is deeper than its encoder, as v1.1's is here.
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "t5 v1.1"])
@torch.no_grad()
def test_greedy_search_is_that_of_generate(family, tmp_path):
    found, (stock, _) = wrapped(family), stock_of(family, tmp_path)
    special = found.tokenizers.target.special_ids
    framing, batch = found.tokenizers.framing, batch_of(found)
    config = DecodeConfig(beam=1, max_length=9, length_penalty=0.0)
    sentences = Sentences(batch.source[:1], batch.source_mask[:1], special)
    ((best,),) = search(found.model, sentences, config)
    source = batch.source[0][batch.source_mask[0]].tolist()
    ids = torch.tensor([[*framing.before, *source, *framing.after]])
    stock.generation_config = import_transformers().GenerationConfig(
        decoder_start_token_id=framing.beginning[0],
        pad_token_id=stock.config.pad_token_id,
        eos_token_id=special.eos,
    )
    generated = stock.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        decoder_input_ids=torch.tensor([framing.beginning]),
        do_sample=False,
        max_new_tokens=8,
        suppress_tokens=list(special.forbidden),
    )[0].tolist()[len(framing.beginning) :]
    if special.eos in generated:
        generated = generated[: generated.index(special.eos)]
    assert list(best.tokens) == generated


@torch.no_grad()
def test_what_a_beam_that_reorders_shows_is_what_one_parallel_pass_shows(family, monkeypatch):
    """In 64 bits, since routing magnifies how states of 32 are rounded."""
    found, model = wrapped(family), with_past_future(family, token_coverage=True)
    torch.nn.init.normal_(model.past_future.fusion.transform.weight, std=0.5)
    model, batch, chosen = model.double(), batch_of(found), []
    select = CoveringState.select
    monkeypatch.setattr(
        CoveringState,
        "select",
        lambda self, rows: (chosen.append(rows.tolist()), select(self, rows))[1],
    )
    special = found.tokenizers.target.special_ids
    config = DecodeConfig(beam=4, nbest=4, max_length=9, length_penalty=0.0)
    sentences = Sentences(batch.source, batch.source_mask, special)
    hypotheses = search(model, sentences, config, {"assignments", "attention"})
    assert any(rows != sorted(set(rows)) for rows in chosen)  # beams did change their rows
    for real, source, nbest in zip(batch.source_mask, batch.source, hypotheses, strict=True):
        for each in nbest:
            prefix = torch.tensor([[special.bos, *each.tokens]])
            encoded = model.encode(source[real][None], real[real][None])
            whole = model.decode(encoded, prefix, attention=True)
            close(each.assignments, whole.assignments[0])
            close(each.attention, whole.attention[0])
            ids = torch.tensor([*each.tokens, special.eos])
            scores = model.logits(whole.holistic)[0].log_softmax(-1).gather(1, ids[:, None])
            assert each.log_probability == pytest.approx(float(scores.sum()), abs=1e-4)


def close(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5, check_dtype=False)


def test_coverage_that_is_not_reordered_would_be_noticed(monkeypatch):
    def forget(self, rows):
        kept = torch.arange(len(rows)) if len(rows) == len(self.covered) else rows
        return CoveringState(self.backbone.select(rows), self.covered[kept], self.begins)

    monkeypatch.setattr(CoveringState, "select", forget)
    with pytest.raises(AssertionError, match="not close"):
        test_what_a_beam_that_reorders_shows_is_what_one_parallel_pass_shows("marian", monkeypatch)


@torch.no_grad()
def test_a_saved_model_has_the_same_logits_and_ties(family, tmp_path):
    found, model = wrapped(family), with_past_future(family)
    if found.config.model.output_bias:
        assert model.backbone.output_bias.abs().max() > 0
    settings = {"kind": "gdr", "d_capsule": 7, "lexicon": 5}
    separator = type(found.config.model.separator).model_validate(settings)
    shape = found.config.model.model_copy(update={"separator": separator})
    config = found.config.model_copy(update={"model": shape})
    save_model(tmp_path / "model", TrainedModel(model, config, found.tokenizers))
    loaded = load_model(tmp_path / "model")
    assert loaded.config == config
    batch = batch_of(found)
    logits = [
        each.logits(each(batch.source, batch.source_mask, batch.prefix).holistic)
        for each in (model, loaded.model)
    ]
    assert torch.equal(*logits)
    names = [dict(each.named_parameters()).keys() for each in (model, loaded.model)]
    assert names[0] == names[1]  # a parameter that came apart from its twin would be one more


def test_only_new_parameters_learn_when_the_backbone_is_frozen(family):
    model, batch = with_past_future(family), batch_of(wrapped(family))
    model.freeze_backbone()
    settings = TrainConfig(freeze_backbone=True, best_by="loss", bca_weight=0.5)
    Objective(model, settings)(batch, 1).total.backward()
    learnt = {name for name, p in model.named_parameters() if p.grad is not None}
    assert learnt and all(name.startswith("past_future.") for name in learnt)
    assert all(
        parameter.grad is not None and bool(parameter.grad.abs().max() > 0)
        for name, parameter in model.named_parameters()
        if name.startswith("past_future.") and ".fusion." not in name
    )


def test_every_parameter_learns_otherwise(family):
    model, batch = with_past_future(family), batch_of(wrapped(family))
    model.train()
    Objective(model, TrainConfig())(batch, 1).total.backward()
    assert [name for name, p in model.backbone.named_parameters() if p.grad is None] == []


def test_a_new_model_of_the_same_settings_has_the_same_parameters(family):
    found = wrapped(family)
    built = build_model_for(found.tokenizers, found.config.model)
    one, other = dict(found.model.named_parameters()), dict(built.named_parameters())
    assert {n: p.shape for n, p in one.items()} == {n: p.shape for n, p in other.items()}


def test_lengths_end_at_the_positions(family):
    found = wrapped(family)
    most, translator = found.config.model.most_tokens, Translator([trained(found)])
    if family.startswith("t5"):
        assert most is None
        return
    assert found.config.data.max_tokens == found.config.decode.max_length == most < 40
    longer = translator.with_decoding(max_length=500, beam=1, max_ratio=900.0)
    assert longer.decode.max_length == most
    longer.translate(" ".join(["cat"] * 90))  # in segments that fit
    with pytest.raises(UntoldError, match=r"pair 1 has a side of \d+ pieces, .* no more positions"):
        translator.score([("cat " * 90, "Katze")])
    ids, mask = torch.full((1, 41), 5), torch.ones(1, 41, dtype=torch.bool)
    with pytest.raises(UntoldError, match="its positions end at 40: divide the text"):
        found.model.encode(ids, mask)


def trained(found):
    return TrainedModel(found.model, found.config, found.tokenizers)


def test_a_wrapping_that_changes_logits_is_refused(monkeypatch, tmp_path):
    stock, tokenizer = stock_of("marian", tmp_path)
    monkeypatch.setattr(HuggingFaceBackbone, "finish", lambda _, readout: readout * 1.01)
    with pytest.raises(UntoldError, match=r"x: wrapped, its logits differ by .* use another"):
        wrap_model(stock, tokenizer, {}, "x")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_folder("marian", tmp_path_factory.mktemp("hf") / "marian")


def test_a_folder_translates_with_its_own_tokenizer(folder):
    translator = load(f"hf:{folder}")
    found = translator.translate(TEXTS[0], attention=True)
    assert found.source_tokens[0] == "▁the"
    assert found.attention.shape == (len(found.tokens) + 1, len(found.source_tokens) + 1)
    assert load(str(f"hf:{folder}")).translate(TEXTS)[0].text == found.text


def test_the_source_prefix_is_read_but_not_shown(tmp_path):
    folder = save_folder("t5", tmp_path / "t5")
    plain, asked = (
        load(f"hf:{folder}", settings=each) for each in ({}, {"source_prefix": "a dog"})
    )
    ids = plain.models[0].tokenizers.source.encode(["a dog"])[0]
    assert asked.models[0].config.model.source_before == tuple(ids)
    one, other = (each.translate("the cat", attention=True) for each in (plain, asked))
    assert one.source_tokens == other.source_tokens
    scores = [each.score([("the cat", "die Katze")])[0].score for each in (plain, asked)]
    assert scores[0] != scores[1]
    assert scores[0] != pytest.approx(plain.score([("a dog the cat", "die Katze")])[0].score)
    assert scores[1] == pytest.approx(plain.score([("a dog the cat", "die Katze")])[0].score)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "fsmt"}, "fsmt is not supported: choose one of Marian, BART"),
        ({"model_type": "prophetnet"}, "prophetnet is not supported"),
        ({"model_type": "gpt2", "is_encoder_decoder": False}, "gpt2 is no encoder-decoder"),
        ({"model_type": None, "is_encoder_decoder": True}, "None is not supported"),
    ],
)
def test_other_architectures_are_refused_in_one_sentence(folder, tmp_path, changes, message):
    values = json.loads((folder / "config.json").read_text()) | {"is_encoder_decoder": True}
    (tmp_path / "config.json").write_text(json.dumps(values | changes))
    with pytest.raises(UntoldError, match=message) as caught:
        load(f"hf:{tmp_path}")
    assert "\n" not in str(caught.value)


def test_what_is_no_folder_is_refused(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UntoldError, match=r"holds no config\.json"):
        load(f"hf:{tmp_path}")
    with pytest.raises(UntoldError, match="neither a folder here nor a model of the hub"):
        load("hf:no/such-model")
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(UntoldError, match="transformers cannot read its weights"):
        load(f"hf:{tmp_path}")
    with pytest.raises(UntoldError, match=r"--set model\.d_model: only model\.source_language"):
        load(f"hf:{folder}", settings={"d_model": 3})
    with pytest.raises(UntoldError, match=r"model\.target_language = de: leave it out"):
        load(f"hf:{folder}", settings={"target_language": "de"})


def test_a_missing_extra_is_one_line(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UntoldError, match=r"^a Hugging Face model needs transformers: pip install"):
        load(f"hf:{folder}")


def test_wrapping_copies_can_be_copied():
    """A deep copy is as good as the original, and independent of it."""
    found = wrapped("bart")
    other = copy.deepcopy(found.model)
    with torch.no_grad():
        other.backbone.output_embedding().zero_()
    assert found.model.backbone.output_embedding().abs().max() > 0
