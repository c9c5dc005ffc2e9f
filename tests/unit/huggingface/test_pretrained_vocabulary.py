"""Tokens that are added to a model with past and future, and what else a vocabulary may lack."""

import copy

import pytest
import torch
from safetensors.torch import load_file, save_file

from huggingface_toys import FAMILIES, languages, make_model, make_tokenizer, save_folder
from pretrained_toys import TEXTS, build, inputs, logits, shared, talkative, talking
from untold.errors import UntoldError
from untold.huggingface.folder import read_folder, wrap_model
from untold.huggingface.generation_past_future import PastFutureForConditionalGeneration
from untold.huggingface.optional import quiet
from untold.storage.model_directory import load_model

CUTTING = ("marian", "marian, two vocabularies", "m2m100")  # their tokenizers cut what is added
NEW = "Xyzzy"


@pytest.fixture(params=[name for name in FAMILIES if name not in CUTTING])
def family(request):
    return request.param


def with_room(family, size=None, **options):
    """A model whose tokenizer was given a token, and rows for it; and the model before."""
    model = talkative(build(family))
    before = copy.deepcopy(model)
    model.tokenizer = copy.deepcopy(model.tokenizer)
    assert model.tokenizer.add_tokens([NEW]) == 1
    rows = size or len(before.get_output_embeddings().weight) + 3
    with quiet():
        model.resize_token_embeddings(rows, mean_resizing=False, **options)
    return model, before


@torch.no_grad()
def test_new_tokens_leave_old_logits_alone(family):
    model, before = with_room(family)
    rows = len(before.get_output_embeddings().weight)
    assert len(model.get_output_embeddings().weight) == model.config.vocab_size == rows + 3
    assert model.config.backbone.vocab_size == rows + 3
    assert torch.equal(logits(model)[..., :rows], logits(before))
    assert shared(model) == shared(before)  # what was one tensor still is


def test_new_tokens_are_text_that_is_learnt_and_said(family, tmp_path):
    model, _ = with_room(family)
    new = model.tokenizer.convert_tokens_to_ids(NEW)
    texts = {"text": [f"the {NEW} cat"], "text_target": [f"die {NEW} Katze"]}
    read = model.tokenizer(**texts, return_tensors="pt")
    assert new in read["input_ids"] and new in read["labels"]
    model.train()(**read).loss.backward()
    assert bool(model.get_output_embeddings().weight.grad[new].any())
    lexicon = model.past_future.heads.lexicon
    assert bool(lexicon.source.grad[new].any()) and bool(lexicon.target.grad[new].any())
    model.eval()
    with torch.no_grad():
        shares = model(**read).assignments[0, -1].sum(-1)[read["input_ids"][0] == new]
    torch.testing.assert_close(shares, torch.ones(1))
    with quiet():
        model.save_pretrained(tmp_path)
        again = PastFutureForConditionalGeneration.from_pretrained(tmp_path)
    assert torch.equal(logits(again), logits(model))
    assert shared(again) == shared(model)
    trained = load_model(tmp_path)
    assert new in trained.tokenizers.source.encode([f"the {NEW} cat"])[0]
    assert new not in trained.tokenizers.target.special_ids.forbidden
    assert NEW in trained.tokenizers.target.decode([new])


def test_rows_that_were_left_over_serve_new_tokens(family):
    """The embeddings of many models have more rows than their tokenizer has tokens."""
    model = talking(family)
    rows = len(model.get_output_embeddings().weight)
    grown, before = with_room(family, size=rows)
    new = grown.tokenizer.convert_tokens_to_ids(NEW)
    assert new in before.frame.target.control and new not in grown.frame.target.control
    fewer, _ = with_room(family, size=len(grown.tokenizer))
    assert len(fewer.get_output_embeddings().weight) == len(fewer.tokenizer) < rows
    rounded, _ = with_room(family, size=rows, pad_to_multiple_of=64)
    assert rounded.config.sizes[1] == rounded.config.sizes[0] == -(-rows // 64) * 64


def test_rows_of_a_frozen_backbone_stay_frozen(family):
    model = build(family, freeze_backbone=True)
    with quiet():
        model.resize_token_embeddings(len(model.get_output_embeddings().weight) + 3)
    assert not any(parameter.requires_grad for parameter in model.backbone.parameters())


def test_nothing_is_asked_for_and_nothing_changes(family):
    model = talking(family)
    assert model.resize_token_embeddings() is model.get_input_embeddings()


@pytest.mark.parametrize(
    ("family", "size", "tokens", "words"),
    [
        ("bart", 7, [], "the tokenizer has the id 293: give at least 294"),
        ("marian", 60, [NEW], f"the token {NEW}, which a MarianTokenizer cuts"),
        ("m2m100", 200, [NEW], f"the token {NEW}, which a M2M100Tokenizer cuts"),
        ("marian, two vocabularies", 60, [], "of two vocabularies cannot be given tokens"),
    ],
)
def test_tokens_that_cannot_be_added_are_refused_in_one_sentence(
    family, size, tokens, words, tmp_path
):
    model = build(family)
    model.tokenizer = make_tokenizer(family, tmp_path)
    model.tokenizer.add_tokens(tokens)
    before = len(model.get_output_embeddings().weight)
    with pytest.raises(UntoldError, match=words) as error:
        model.resize_token_embeddings(size)
    assert "\n" not in str(error.value)
    assert len(model.get_output_embeddings().weight) == before
    model.tokenizer = None
    with pytest.raises(UntoldError, match=r"Set model\.tokenizer first"):
        model.resize_token_embeddings(size)


@pytest.mark.parametrize("family", ["marian", "m2m100"])
def test_a_bare_model_whose_added_tokens_would_be_cut_is_refused(family, tmp_path):
    """transformers would read one id where untold reads several."""
    tokenizer = make_tokenizer(family, tmp_path)
    tokenizer.add_tokens([NEW])
    with pytest.raises(UntoldError, match="cuts into pieces here: leave it out"):
        wrap_model(make_model(family, tokenizer), tokenizer, languages(family), "x")


def test_weights_that_are_missing_are_not_drawn_at_random(tmp_path):
    folder = save_folder("marian", tmp_path / "marian")
    weights = load_file(folder / "model.safetensors")
    lost = "model.decoder.layers.1.fc1.weight"
    del weights[lost]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UntoldError, match=f"its weights lack {lost}"):
        read_folder(str(folder), {})


def test_a_tokenizer_that_is_damaged_is_not_passed_over(tmp_path):
    with quiet():
        talking("marian").save_pretrained(tmp_path)
    (tmp_path / "huggingface_tokenizer" / "source.spm").write_bytes(b"x")
    with quiet(), pytest.raises(UntoldError, match="cannot read its tokenizer"):
        PastFutureForConditionalGeneration.from_pretrained(tmp_path)


@torch.no_grad()
@pytest.mark.parametrize("family", [name for name in FAMILIES if not name.startswith("t5")])
def test_lengths_beyond_the_positions_are_refused(family):
    model = talking(family)
    ids = inputs(model)["input_ids"]
    long = ids.repeat(1, 9)
    with pytest.raises(UntoldError, match="the positions of the model end at 40: divide the text"):
        model.generate(long, max_new_tokens=3)
    with pytest.raises(UntoldError, match=r"41 tokens .* lower max_new_tokens"):
        model.generate(ids, min_new_tokens=60, max_new_tokens=60)


@torch.no_grad()
def test_padding_that_is_not_marked_is_not_counted():
    model = talking("marian")
    marked = inputs(model)
    plain = model.tokenizer(
        TEXTS, text_target=["die Katze", "ein Hund liest das Buch"], padding=True
    )
    labels = torch.tensor(plain["labels"])
    pad = model.tokenizer.pad_token_id
    given = {name: marked[name] for name in ("input_ids", "attention_mask")}
    losses = [
        model(**given, labels=each).loss
        for each in (labels, labels.masked_fill(labels == pad, -100))
    ]
    assert bool((labels == pad).any())
    torch.testing.assert_close(*losses)
