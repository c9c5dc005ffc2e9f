"""The losses of past and future layers: word by word, their weights, and when there are none."""

import pytest
import torch

from toys import compute_losses, log_columns, separator, toy_batch, toy_model
from untold.config import TrainConfig
from untold.training.losses.cross_entropy import label_smoothed_cross_entropy

BATCH = toy_batch([(4, 6), (1, 0), (3, 5)])


def settings(**changes):
    return TrainConfig.model_validate({"best_by": "loss", "label_smoothing": 0.2} | changes)


def model_of(**changes):
    return toy_model(backbone="pfrnn", **changes).double()


@torch.no_grad()
def test_each_difference_predicts_the_word_of_its_step():
    model, config = model_of(), settings()
    outputs = model(BATCH.source, BATCH.source_mask, BATCH.prefix)
    sums = {}
    for name, guess in model.backbone.guesses(outputs.inner_states).items():
        sums[name] = 0.0
        for row, t in BATCH.target_mask.nonzero().tolist():
            log_p = (model.output_embedding() @ guess[row, t]).log_softmax(0)
            sums[name] -= float(log_p[BATCH.labels[row, t]])
    mask = BATCH.target_mask
    words, _ = label_smoothed_cross_entropy(
        outputs.holistic[mask], model.output_embedding(), BATCH.labels[mask], 0.2
    )
    losses = compute_losses(model, BATCH, config, 1)
    assert float(losses.parts["past"]) == pytest.approx(sums["past"], rel=1e-9)
    assert float(losses.parts["future"]) == pytest.approx(sums["future"], rel=1e-9)
    total = float(words) + sums["past"] + sums["future"]
    assert float(losses.total) == pytest.approx(total, rel=1e-9)
    assert sums["past"] != pytest.approx(sums["future"], rel=1e-3)


def test_other_backbones_have_them_not():
    config, expected = settings(), ("loss", "nll", "past", "future")
    assert log_columns(model_of(), config) == expected
    assert tuple(compute_losses(model_of(), BATCH, config, 1).parts) == expected
    assert log_columns(toy_model(backbone="rnmt"), config) == ("loss", "nll")


@torch.no_grad()
def test_they_begin_with_the_other_auxiliary_losses():
    config = settings(auxiliary_start=5)
    totals = [compute_losses(model_of(), BATCH, config, step) for step in (5, 6)]
    assert tuple(totals[0].parts) == ("loss", "nll")
    parts = totals[1].parts
    added = float(parts["past"] + parts["future"])
    assert float(totals[1].total - totals[0].total) == pytest.approx(added, rel=1e-9)


def test_a_frozen_backbone_has_them_not():
    config = settings(
        freeze_backbone=True,
        bow_weight=0.5,
        counterfactual=0.0,
        ends_weight=0.0,
        lexicon_weight=0.0,
    )
    model = model_of(separator=separator("gdr-dot"))
    assert tuple(compute_losses(model, BATCH, config, 1).parts) == log_columns(model, config)
    assert log_columns(model, config) == ("loss", "bow")
