"""Validation: the loss of the definition, BLEU of translations, and no trace left behind."""

import math

import pytest
import torch

from toys import collate, compute_losses, fill, toy_config, toy_tokenizers
from untold.metrics.base import corpus_scores
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel
from untold.training.data import prepare_data
from untold.training.validation import auxiliary_loss, make_validator, validation_loss
from untold.translator import Translator


@pytest.fixture
def prepared(corpus, tmp_path):
    """prepared(decode={...}) -> a model and the data it is validated on."""

    def prepared(**sections):
        config = toy_config(corpus, **sections)
        tokenizers = toy_tokenizers(corpus, config)
        sizes = (len(tokenizers.source), len(tokenizers.target))
        model = fill(build_model(config.model, sizes, shared=True)).eval()
        data = prepare_data(config, tokenizers, tmp_path)
        return TrainedModel(model, config, tokenizers), data

    return prepared


def test_the_loss_is_the_mean_over_tokens_of_the_definition(prepared):
    trained, data = prepared()
    total, tokens = 0.0, 0
    for scored in Translator([trained]).score(data.valid_pairs):
        total -= scored.log_probability
        tokens += len(scored.tokens) + 1
    loss = validation_loss(trained, data.valid)
    assert loss == pytest.approx(total / tokens, rel=1e-5)
    small = {"train": {"batch_tokens": 8}}
    assert loss == pytest.approx(validation_loss(prepared(**small)[0], data.valid), rel=1e-5)


def test_bleu_is_that_of_the_translations(prepared):
    trained, data = prepared(decode={"max_length": 5, "beam": 3})
    validation = make_validator(trained, data.valid, data.valid_pairs)()
    translator = Translator([trained]).with_decoding(beam=1)
    texts = [each.text for each in translator.translate([source for source, _ in data.valid_pairs])]
    (score,) = corpus_scores(
        texts, [target for _, target in data.valid_pairs], ["bleu"], tokenize="none"
    )
    assert validation.bleu == score.value
    assert math.isfinite(validation.loss)


def test_nothing_is_drawn_even_where_decoding_samples(prepared):
    trained, data = prepared(decode={"temperature": 1.0, "max_length": 5})
    validate = make_validator(trained, data.valid, data.valid_pairs)
    before = torch.get_rng_state()
    first = validate()
    assert torch.equal(before, torch.get_rng_state())
    greedy = prepared(decode={"beam": 1, "max_length": 5})[0]
    assert make_validator(greedy, data.valid, data.valid_pairs)() == first


def test_bleu_is_left_out_where_the_loss_chooses(prepared, monkeypatch):
    trained, data = prepared(train={"best_by": "loss"})
    monkeypatch.setattr(Translator, "translate", lambda *_: pytest.fail("translated"))
    validation = make_validator(trained, data.valid, data.valid_pairs)()
    assert validation.bleu is None
    assert validation.loss == validation_loss(trained, data.valid)


def test_a_lower_cased_corpus_has_lower_cased_references(prepared, monkeypatch):
    from untold.training import validation as module

    trained, data = prepared(data={"lowercase": True})
    seen = []
    monkeypatch.setattr(
        module,
        "corpus_scores",
        lambda texts, references, *_, **__: seen.append(references) or [Score],
    )

    class Score:
        value = 1.0

    make_validator(trained, data.valid, [("A b", "B A")])()
    assert seen == [["b a"]]


def test_the_loss_of_a_frozen_model_is_that_of_all_its_bags(prepared):
    """Per token, at full weights, whatever training leaves out or puts off; no number is drawn."""
    weights = {"bow_weight": 0.5, "bca_weight": 0.25, "freeze_backbone": True, "best_by": "loss"}
    less = {
        "bow_share": 0.3,
        "vocabulary_share": 0.3,
        "counterfactual": 1.0,
        "auxiliary_start": 7,
    }
    trained, data = prepared(
        train=weights | less, model={"separator": {"kind": "gdr", "d_capsule": 3}}
    )
    before = torch.get_rng_state()
    found = make_validator(trained, data.valid, data.valid_pairs)().loss
    assert found == auxiliary_loss(trained, data.valid)
    assert torch.equal(before, torch.get_rng_state())
    settings = trained.config.train.model_copy(
        update=dict.fromkeys(less, 0) | {"bow_share": 1.0, "vocabulary_share": 1.0}
    )
    pairs = [tuple(side[k] for side in data.valid.sides) for k in range(len(data.valid))]
    batch = collate(pairs, range(len(pairs)))
    expected = compute_losses(trained.model, batch, settings, 1).total / batch.target_tokens
    assert found == pytest.approx(float(expected.detach()), rel=1e-5)
