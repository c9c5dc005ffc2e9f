"""Wrapped models of BART's family, prepared for translation, against the models themselves."""

import random

import pytest
import torch

from huggingface_toys import FAMILIES, make_model, make_tokenizer, with_past_future, wrapped
from same_steps import assert_same_steps
from untold.config import DecodeConfig
from untold.corpus.batching import pad_rows
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.errors import UntoldError
from untold.huggingface.folder import wrap_model
from untold.huggingface.optional import quiet
from untold.inference import routing as prepared_routing
from untold.inference import transformer as prepared_stack
from untold.inference import transformer as transformer_module
from untold.inference.kernels import load
from untold.inference.model import PreparedModel, prepare

BARTS = [family for family in FAMILIES if not family.startswith("t5")]


@pytest.fixture(params=["kernels", "torch alone"])
def kernels(request, monkeypatch):
    if request.param == "torch alone":
        for module in (prepared_stack, transformer_module, prepared_routing):
            monkeypatch.setattr(module, "load", lambda: None)
    elif load() is None:
        pytest.skip("the kernels were not compiled here")


def sources(found, *lengths):
    """Draws words of a tokenizer, and ends each source with its end."""
    ids, words = found.tokenizers.source.special_ids, said(found)
    dice = random.Random(sum(lengths))
    rows = [[dice.choice(words) for _ in range(length)] + [ids.eos] for length in lengths]
    return pad_rows(rows, ids.pad)


def said(found):
    """Lists ids that both sides have and that are no control tokens."""
    sides = found.tokenizers.source, found.tokenizers.target
    control = {id for side in sides for id in (*side.special_ids.control, side.special_ids.unk)}
    return [token for token in range(min(map(len, sides))) if token not in control]


def with_fusion(family):
    """Returns a model whose logits depend on routing."""
    made = with_past_future(family, token_coverage=True)
    with torch.no_grad():
        made.past_future.fusion.transform.weight.normal_(0, 0.1)
    return made


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("separated", [False, True], ids=["plain", "gdr"])
@pytest.mark.parametrize("family", BARTS)
@pytest.mark.parametrize("lengths", [(6,), (7, 2, 9)], ids=str)
def test_steps_are_those_of_the_wrapped_model(family, separated, lengths):
    found = wrapped(family)
    general = with_fusion(family) if separated else found.model
    prepared = prepare(general)
    assert isinstance(prepared, PreparedModel)
    bos = found.tokenizers.target.special_ids.bos
    assert_same_steps(general, prepared, sources(found, *lengths), bos, said(found))


@pytest.mark.parametrize("family", BARTS)
def test_translations_are_those_of_the_wrapped_model_to_the_token(family):
    found, general = wrapped(family), with_fusion(family)
    batch = Sentences(*sources(found, 3, 8, 5, 1, 9), found.tokenizers.target.special_ids)
    for beam in (1, 4):
        config = DecodeConfig(beam=beam, max_length=12)
        expected = search(general, batch, config, {"assignments", "attention"})
        prepared = search(prepare(general), batch, config, {"assignments", "attention"})
        for (own, *_), (other, *_) in zip(expected, prepared, strict=True):
            assert own.tokens == other.tokens
            assert own.score == pytest.approx(other.score, abs=1e-4)


def test_nothing_is_read_beyond_the_positions():
    found = wrapped("mbart")
    longest = found.model.backbone.longest
    prepared = prepare(found.model)
    with pytest.raises(UntoldError, match=f"its positions end at {longest}: divide the text"):
        prepared.encode(*sources(found, longest))


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("t5", {}),
        ("marian", {"decoder_attention_heads": 4}),
        ("bart", {"activation_function": "tanh"}),
    ],
)
def test_a_model_that_has_other_parts_stays_as_it_is(family, changes, tmp_path):
    tokenizer = make_tokenizer(family, tmp_path)
    made = make_model(family, tokenizer)
    if changes:
        with quiet():
            made = type(made)(type(made.config)(**made.config.to_dict() | changes)).eval()
    model = wrap_model(made, tokenizer, {}, family).model
    assert prepare(model) is model
