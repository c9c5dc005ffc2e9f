"""What a model of transformers with past and future returns and takes beside the usual."""

import importlib

import pytest
import torch

from huggingface_toys import FAMILIES, make_model, make_tokenizer
from pretrained_toys import TEXTS, build, inputs, talking
from untold.errors import UntoldError
from untold.huggingface.backbone import FOLDED

INNER = [
    *("encoder_attentions", "decoder_attentions", "cross_attentions"),
    *("encoder_hidden_states", "decoder_hidden_states"),
]
ASKED = {"output_attentions": True, "output_hidden_states": True}


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def stock_of(family, folder):
    """The backbone's model, made again, with the attention that shows its weights."""
    stock = make_model(family, make_tokenizer(family, folder))
    stock.set_attn_implementation("eager")
    return stock


def given_to(model):
    given = inputs(model)
    return given | {
        "decoder_input_ids": model.prepare_decoder_input_ids_from_labels(given.pop("labels"))
    }


def assert_alike(found, expected):
    """Tuples of tensors, or of tuples: one for each step of generate()."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        return
    assert type(found) is tuple and len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert_alike(one, other)


@torch.no_grad()
def test_attention_and_hidden_states_are_those_of_the_backbone(family, tmp_path):
    """The positions of language codes and of padding have their rows and columns, too."""
    model, stock = build(family), stock_of(family, tmp_path)
    given = given_to(model)
    expected, found = (each(**given, **ASKED) for each in (stock, model))
    for name in INNER:
        assert_alike(found[name], expected[name])
    size = len(TEXTS), 2, given["decoder_input_ids"].shape[1], given["input_ids"].shape[1]
    assert found.cross_attentions[0].shape == size
    with_loss = model(**inputs(model), **ASKED)
    for name in INNER:
        assert_alike(with_loss[name], expected[name])
    assert all(name not in model(**given) for name in INNER)
    model.config.output_attentions = True
    asked_by_settings = model(**given)
    assert_alike(asked_by_settings.cross_attentions, expected.cross_attentions)
    assert "decoder_hidden_states" not in asked_by_settings


# The stock generate() fails for a T5 whose decoder is deeper than its encoder, as v1.1's is here.
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "t5 v1.1"])
@pytest.mark.parametrize("beams", [1, 3])
def test_generate_gives_attention_and_hidden_states_step_by_step(family, beams, tmp_path):
    model, stock = build(family), stock_of(family, tmp_path)
    stock.generation_config = model.generation_config
    given = inputs(model, with_labels=False)
    options = {"max_new_tokens": 5, "num_beams": beams, "return_dict_in_generate": True}
    expected, found = (each.generate(**given, **options, **ASKED) for each in (stock, model))
    assert torch.equal(found.sequences, expected.sequences)
    for name in INNER:
        assert_alike(found[name], expected[name])
    assert "cross_attentions" not in model.generate(**given, **options)


@torch.no_grad()
def test_a_row_that_may_see_nothing_shows_even_weights(family):
    model = talking(family)
    given = given_to(model)
    mask = torch.ones_like(given["decoder_input_ids"])
    mask[0, 0] = 0
    shown = model(**given, decoder_attention_mask=mask, **ASKED).decoder_attentions
    assert all(bool(weights.isfinite().all()) for weights in shown)


@torch.no_grad()
def test_padding_is_found_where_no_mask_is_given(family):
    model = talking(family)
    given = given_to(model)
    expected = model(**given)
    assert not bool(given.pop("attention_mask").all())
    found = model(**given)
    torch.testing.assert_close(found.logits, expected.logits)
    torch.testing.assert_close(found.assignments, expected.assignments)


@torch.no_grad()
def test_a_cache_that_is_asked_for_goes_on_where_it_stopped(family):
    model = talking(family)
    given = given_to(model)
    ids = given.pop("decoder_input_ids")
    whole = model(**given, decoder_input_ids=ids)
    assert whole.past_key_values is None
    first = model(**given, decoder_input_ids=ids[:, :2], use_cache=True)
    encoded = model.get_encoder()(**given)
    second = model(
        encoder_outputs=encoded,
        attention_mask=given["attention_mask"],
        decoder_input_ids=ids[:, 2:],
        past_key_values=first.past_key_values,
    )
    for name in ("logits", "assignments"):
        joined = torch.cat([first[name], second[name]], dim=1)
        torch.testing.assert_close(joined, whole[name], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_outputs_are_values_or_a_tuple():
    model = talking("marian")
    given = inputs(model)
    values = model(**given, return_dict=None)
    loss, logits, *_ = model(**given, return_dict=False)
    assert torch.equal(loss, values.loss) and torch.equal(logits, values.logits)


def test_peft_that_knows_the_task_hands_values_on():
    peft = importlib.import_module("peft")
    options = {"target_modules": ["q_proj"], "modules_to_save": ["past_future"]}
    lora = peft.LoraConfig(r=2, task_type="SEQ_2_SEQ_LM", **options)
    model = peft.get_peft_model(build("marian"), lora)
    given = inputs(model.base_model.model)
    model.train()(**given).loss.backward()
    del given["labels"]
    made = model.eval().generate(**given, max_new_tokens=4, return_dict_in_generate=True)
    assert made.assignments.shape[:2] == (2, 4)


def embedded(model, given):
    return {"inputs_embeds": model.get_input_embeddings()(given["input_ids"])}


def decoder_embedded(model, given):
    width = model.stock.config.d_model
    return {"input_ids": given["input_ids"], "decoder_inputs_embeds": torch.zeros(2, 2, width)}


def without_source(model, given):
    return {"labels": given["labels"]}


def without_anything(model, given):
    return {"decoder_input_ids": given["labels"].clamp(min=0)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (embedded, "^inputs_embeds do not tell the words.*: give input_ids"),
        (without_source, "labels need input_ids"),
        (decoder_embedded, "decoder_inputs_embeds do not tell the words.*: give decoder_input_ids"),
        (without_anything, "a source is given as input_ids"),
    ],
)
def test_inputs_that_cannot_be_read_are_refused(family, change, words):
    model = talking(family)
    with pytest.raises(UntoldError, match=words) as error:
        model(**change(model, inputs(model)))
    assert "\n" not in str(error.value)


def test_inner_values_are_for_evaluation():
    model = build("marian").train()
    with pytest.raises(UntoldError, match=r"are for evaluation: call model.eval\(\) first"):
        model(**inputs(model), output_attentions=True)


def test_another_attention_is_refused(family):
    """It would read our masks as numbers, and let padding leak."""
    model = talking(family)
    for name in ("eager", "sdpa", {"backbone": "eager"}):
        with pytest.raises(UntoldError, match="past and future need their own attention"):
            model.set_attn_implementation(name)
    model.set_attn_implementation(FOLDED)
    for part in (model.stock, model.stock.get_encoder(), model.stock.get_decoder()):
        assert part.config._attn_implementation == FOLDED
