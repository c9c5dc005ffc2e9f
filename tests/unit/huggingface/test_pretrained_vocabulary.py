"""Tokens that were added to a tokenizer, and what else a vocabulary may lack."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from huggingface_toys import FAMILIES, languages, make_model, make_tokenizer, save_folder
from pretrained_toys import TEXTS, inputs, talking
from untold.errors import UntoldError
from untold.huggingface.folder import read_folder, wrap_model
from untold.huggingface.generation_past_future import PastFutureForConditionalGeneration
from untold.huggingface.optional import quiet

NEW = "Xyzzy"


def test_another_size_of_the_vocabulary_is_refused_with_a_cure():
    model = talking("t5")
    assert model.resize_token_embeddings() is model.get_input_embeddings()
    with pytest.raises(UntoldError, match="give the tokens to the backbone, save it"):
        model.resize_token_embeddings(300)


@torch.no_grad()
@pytest.mark.parametrize("family", ["t5", "bart", "nllb"])
def test_tokens_that_the_backbone_was_given_before_are_text(family, tmp_path):
    """The tokenizers of Marian and M2M100 would cut them: see below."""
    tokenizer = make_tokenizer(family, tmp_path)
    assert tokenizer.add_tokens([NEW]) == 1
    with quiet():
        model = make_model(family, tokenizer)
        model.resize_token_embeddings(len(tokenizer) + 3, mean_resizing=False)
    tokenizers = wrap_model(model, tokenizer, languages(family), "x").tokenizers
    new = tokenizer.convert_tokens_to_ids(NEW)
    assert new in tokenizers.source.encode([f"the {NEW} cat"])[0]
    assert new not in tokenizers.target.special_ids.forbidden
    assert NEW in tokenizers.target.decode([new])


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
