"""All ways of generate(): their assignments, assistants, sources that were encoded before."""

import pytest
import torch

from huggingface_toys import FAMILIES, make_model
from pretrained_toys import build, inputs, talking
from untold.errors import UntoldError
from untold.huggingface.generation_past_future import CoverageLayer

SHORT = {"max_new_tokens": 7, "return_dict_in_generate": True}
WAYS = {
    "greedy": {},
    "sampling": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 4, "num_return_sequences": 3},
    "beams that are sampled": {"num_beams": 3, "do_sample": True, "num_return_sequences": 2},
    "nucleus": {"do_sample": True, "top_p": 0.7, "temperature": 1.3},
}


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.mark.parametrize("way", WAYS)
def test_assignments_are_those_of_the_sequences_that_were_chosen(family, way):
    """Of two sentences one is padded; read alone it has the same shares."""
    model = talking(family)
    given = inputs(model, with_labels=False)
    torch.manual_seed(4)
    made = model.generate(**given, **SHORT, **WAYS[way])
    times = len(made.sequences) // 2
    length = int(given["attention_mask"][1].sum())
    alone = {name: value[1:, :length].expand(times, -1) for name, value in given.items()}
    with torch.no_grad():
        read = model(**alone, decoder_input_ids=made.sequences[times:, :-1]).assignments
    said = (made.sequences[times:, 1:] != model.frame.target.pad)[:, :, None, None]
    shares = made.assignments[times:]
    torch.testing.assert_close(shares[:, :, :length], read * said, rtol=1e-4, atol=1e-5)
    assert not shares[:, :, length:].any()
    first = shares[:, model.frame.hidden].sum(-1)  # of each piece, before the first word is said
    assert int((first > 0.99).sum(1).min()) > 1
    torch.manual_seed(4)
    assert torch.equal(model.generate(**given, max_new_tokens=7, **WAYS[way]), made.sequences)


def helpers(model, family):
    """Models that guess what this one will say, more or less well."""
    found = [model, build(family)]
    if family not in ("t5 v1.1", "marian, two vocabularies"):  # with which transformers cannot
        stock = make_model(family, model.tokenizer)
        stock.generation_config = model.generation_config
        found.append(stock)
    return [{"assistant_model": each} for each in found] + [{"prompt_lookup_num_tokens": 3}]


def test_assistants_change_nothing_but_the_time(family):
    """What an assistant guessed wrong is taken back, also from coverage."""
    model = talking(family)
    given = {name: value[:1] for name, value in inputs(model, with_labels=False).items()}
    expected = model.generate(**given, **SHORT)
    for helper in helpers(model, family):
        found = model.generate(**given, **SHORT, **helper)
        assert torch.equal(found.sequences, expected.sequences)
        torch.testing.assert_close(found.assignments, expected.assignments)


def test_coverage_that_is_not_taken_back_would_be_noticed(monkeypatch):
    monkeypatch.setattr(CoverageLayer, "crop", lambda self, tokens: None)
    with pytest.raises(AssertionError):
        for family in ("marian", "bart", "nllb"):
            test_assistants_change_nothing_but_the_time(family)


@pytest.mark.parametrize("way", ["sampling", "beams"])
def test_a_source_that_was_encoded_before_stays_as_it_is(family, way):
    model = talking(family)
    given = inputs(model, with_labels=False)
    with torch.no_grad():
        encoded = model.get_encoder()(**given)
    rows = {"encoder_outputs": encoded, "attention_mask": given["attention_mask"]}
    for _ in range(2):  # the second time it is still what it was
        torch.manual_seed(4)
        expected = model.generate(**given, **SHORT, **WAYS[way])
        torch.manual_seed(4)
        found = model.generate(**rows, **SHORT, **WAYS[way])
        assert torch.equal(found.sequences, expected.sequences)
        torch.testing.assert_close(found.assignments, expected.assignments)
    assert len(encoded.last_hidden_state) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5}, "trust_remote_code"),
        ({"top_k": 4, "penalty_alpha": 0.6}, "trust_remote_code"),
        ({"dola_layers": "low"}, "trust_remote_code"),
        ({"num_beams": 3, "force_words_ids": [[5]]}, "trust_remote_code"),
        ({"assistant_early_exit": 1}, "past and future are read after the last layer"),
        ({"use_mtp": True}, "no associated mtp weights"),
    ],
)
def test_ways_that_cannot_be_gone_are_refused_in_one_sentence(family, options, words):
    model = talking(family)
    given = {name: value[:1] for name, value in inputs(model, with_labels=False).items()}
    with pytest.raises((UntoldError, ValueError), match=words) as error:
        model.generate(**given, max_new_tokens=4, **options)
    assert "\n" not in str(error.value)
