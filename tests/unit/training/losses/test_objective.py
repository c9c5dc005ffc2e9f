"""The auxiliary losses as a whole: against loops over formulas, their weights, and who learns.

With freeze_backbone the objective leaves out the word loss and changes nothing else: so the
auxiliary losses are looked at by themselves.
"""

import math
from dataclasses import replace

import pytest
import torch

from toys import SEPARATORS, compute_losses, log_columns, separator, toy_batch, toy_model
from untold.config import TrainConfig
from untold.training.losses import auxiliary as content_agreement
from untold.training.losses import bag_of_words, cross_entropy, loss
from untold.training.losses import links as ends_loss
from untold.training.losses import links as link_loss
from untold.training.losses.cross_entropy import label_smoothed_cross_entropy
from untold.training.losses.loss import SHORT_SPANS, delete_spans
from untold.training.losses.objective import auxiliary_factor

BATCH = toy_batch([(4, 6), (1, 0), (3, 5)])
WINDOWS = {
    "causal": (lambda y, t: y[:t], lambda y, t: y[t:]),
    "paper": (lambda y, t: y[: t + 1], lambda y, t: y[t:]),
    "strict": (lambda y, t: y[:t], lambda y, t: y[t + 1 :]),
}


def settings(**changes):
    plain = {
        "best_by": "loss",
        "bow_weight": 0.0,
        "bow_share": 1.0,
        "vocabulary_share": 1.0,
        "counterfactual": 0.0,
        "ends_weight": 0.0,
        "lexicon_weight": 0.0,
    }
    return TrainConfig.model_validate(plain | changes)


def alone(**changes):
    """Settings under which the auxiliary losses are all there is."""
    return settings(freeze_backbone=True, **changes)


def model_of(name="gdr-dot", share=1.0, **changes):
    """`share` of the gradient of past and future reaches the backbone."""
    model = toy_model(separator=separator(name, **changes)).double()
    model.past_future.backbone_gradient = share
    return model


def gradients(model, value):
    """Of every parameter; None where there is none."""
    model.zero_grad(set_to_none=True)
    if value.requires_grad:
        value.backward()
    return {
        name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()
    }


def same_gradients(found, expected, **tolerance):
    for name, gradient in expected.items():
        mine = found[name]
        assert (mine is None) == (gradient is None), name
        if gradient is not None:
            torch.testing.assert_close(mine, gradient, **tolerance, msg=lambda m, n=name: n + m)


def plain_bags(model, separated, steps, bags_of, mean):
    """-log softmax(E W Omega)[word], word by word of the bags of every step."""
    heads, embedding = model.past_future.heads, model.output_embedding()
    total = torch.zeros((), dtype=torch.float64)
    for row, sentence in enumerate(steps):
        for t in sentence:
            sides = zip(
                (separated.past, separated.future),
                (heads.bow_past, heads.bow_future),
                bags_of(row, t),
                strict=True,
            )
            for capsules, head, bag in sides:
                log_p = (embedding @ (head.weight @ capsules[row, t])).log_softmax(-1)
                words = sum((log_p[word] for word in bag), torch.zeros((), dtype=torch.float64))
                total = total - words / (max(1, len(bag)) if mean else 1) / len(sentence)
    return total


def real_labels(batch):
    return [y[m].tolist() for y, m in zip(batch.labels, batch.target_mask, strict=True)]


def full_bow(model, window="causal", mean=False):
    labels = real_labels(BATCH)
    separated = model(BATCH.source, BATCH.source_mask, BATCH.prefix).separated
    steps = [range(len(y)) for y in labels]

    def bags_of(row, t):
        return [members(labels[row], t) for members in WINDOWS[window]]

    return plain_bags(model, separated, steps, bags_of, mean)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("window", WINDOWS)
def test_bow_is_its_formula_word_by_word(window, reduction):
    """Past capsules are narrower, future ones wider than the model: both orders of products."""
    model = model_of()
    heads = model.past_future.heads
    assert heads.bow_past.in_features < 44 < heads.bow_future.in_features
    config = alone(bow_weight=0.7, bow_window=window, bow_reduction=reduction)
    found = compute_losses(model, BATCH, config, 1)
    expected = full_bow(model, window, reduction == "mean")
    torch.testing.assert_close(found.parts["bow"], expected.detach())
    torch.testing.assert_close(found.total, 0.7 * expected)
    same_gradients(
        gradients(model, found.total),
        gradients(model, 0.7 * full_bow(model, window, reduction == "mean")),
    )


@pytest.mark.parametrize(
    ("window", "in_all", "not_empty"),
    [
        # Two words and EOS: past bags of 0, 1, 2 words, future bags of 3, 2, 1.
        ("causal", (0 + 1 + 2) + (3 + 2 + 1), 2 + 3),
        ("paper", (1 + 2 + 3) + (3 + 2 + 1), 3 + 3),
        ("strict", (0 + 1 + 2) + (2 + 1 + 0), 2 + 2),
    ],
)
def test_a_head_that_knows_nothing_costs_log_v_a_word(window, in_all, not_empty):
    """By hand: sums over a bag, or means of it that count bags with a word in them."""
    model = model_of()
    for head in (model.past_future.heads.bow_past, model.past_future.heads.bow_future):
        torch.nn.init.zeros_(head.weight)
    for reduction, words in (("sum", in_all), ("mean", not_empty)):
        config = alone(bow_weight=1.0, bow_window=window, bow_reduction=reduction)
        found = compute_losses(model, toy_batch([(3, 2)]), config, 1).parts["bow"]
        assert float(found) == pytest.approx(words / 3 * math.log(13))


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_a_sample_of_the_steps_is_unbiased(share, monkeypatch):
    """Every rotation of the steps once: each step is then drawn equally often."""
    model, steps = model_of(), BATCH.target_tokens
    config = alone(bow_weight=1.0, bow_reduction="mean", bow_share=share)
    full = compute_losses(model, BATCH, config.model_copy(update={"bow_share": 1.0}), 1).total
    expected = gradients(model, full)
    values = []
    for first in range(steps):
        monkeypatch.setattr(
            torch, "randperm", lambda n, first=first, **_: torch.arange(n).roll(first)
        )
        values.append(compute_losses(model, BATCH, config, 1).total)
    mean = torch.stack(values).mean()
    torch.testing.assert_close(mean, full)
    same_gradients(gradients(model, mean), expected)
    assert torch.stack(values).std() > 0.05 * full


@torch.no_grad()
def test_samples_of_many_seeds_come_near_the_full_value():
    model, values = model_of(), []
    config = alone(bow_weight=1.0, bow_reduction="mean", bow_share=0.3)
    for seed in range(80):
        torch.manual_seed(seed)
        values.append(compute_losses(model, BATCH, config, 1).total.detach())
    sample = torch.stack(values)
    error = float(sample.std()) / math.sqrt(len(sample))
    whole = config.model_copy(update={"bow_share": 1.0})
    full = float(compute_losses(model, BATCH, whole, 1).total.detach())
    assert abs(float(sample.mean()) - full) < 4 * error
    assert 0.01 * full < error < 0.05 * full, "the samples differ, and the comparison can fail"


def plain_counterfactual(model, cut):
    """Of the states after the gap: the past is what they have read, the future all the rest."""
    outputs = model(BATCH.source[cut.rows], BATCH.source_mask[cut.rows], cut.prefix)
    whole = [real_labels(BATCH)[row] for row in cut.rows.tolist()]

    def bags_of(row, t):
        read, rest = cut.prefix[row, 1 : t + 1].tolist(), list(whole[row])
        for word in read:
            rest.remove(word)
        return read, rest

    steps = [after.nonzero().flatten().tolist() for after in cut.after]
    return plain_bags(model, outputs.separated, steps, bags_of, mean=False)


@pytest.mark.parametrize("seed", [1, 2])
def test_counterfactual_futures_are_the_truth_after_a_gap(seed):
    model = model_of()
    torch.manual_seed(seed)
    cut = delete_spans(BATCH, 1.0, SHORT_SPANS)
    torch.manual_seed(seed)
    found = compute_losses(model, BATCH, alone(bow_weight=0.7, counterfactual=1.0), 1)
    expected = plain_counterfactual(model, cut)
    torch.testing.assert_close(found.parts["counterfactual"], expected.detach())
    total = 0.7 * (full_bow(model) + expected)
    torch.testing.assert_close(found.total, total)
    same_gradients(gradients(model, found.total), gradients(model, total))


def test_the_word_loss_does_not_see_counterfactual_prefixes():
    """Also with dropout: the numbers it draws come first."""
    model, figures = model_of().train(), []
    for counterfactual in (0.0, 1.0):
        torch.manual_seed(5)
        config = settings(bow_weight=0.5, counterfactual=counterfactual)
        losses = compute_losses(model, BATCH, config, 1)
        figures.append(losses.parts)
        assert ("counterfactual" in losses.parts) == bool(counterfactual)
    assert torch.equal(figures[0]["nll"], figures[1]["nll"])
    assert torch.equal(figures[0]["bow"], figures[1]["bow"])
    weights = 0.5 * figures[1]["counterfactual"]
    torch.testing.assert_close(figures[1]["loss"], figures[0]["loss"] + weights)


def test_a_batch_too_short_to_shorten_has_no_counterfactual_part():
    config = alone(bow_weight=0.5, counterfactual=1.0)
    losses = compute_losses(model_of(), toy_batch([(2, 1), (3, 0)]), config, 1)
    assert losses.parts.keys() == {"loss", "bow"}
    assert losses.total.requires_grad


BAGS = [(bag_of_words, "bag_loss"), (bag_of_words, "sentence_bags")]
SPANS = [(loss, "delete_spans")]
CONTENT = [(content_agreement, "content_loss")]


def refuse(*_, **__):
    raise AssertionError("not to be computed")


def everything(**changes):
    """All losses on."""
    weights = {"bow_weight": 0.5, "bca_weight": 0.3, "ends_weight": 0.2, "lexicon_weight": 0.4}
    return settings(**weights | {"counterfactual": 1.0} | changes)


@pytest.mark.parametrize(
    ("zero", "functions"),
    [
        ({"bow_weight": 0.0}, BAGS),
        ({"bow_weight": 0.0, "lexicon_weight": 0.0}, SPANS),
        ({"bca_weight": 0.0}, CONTENT),
        ({"counterfactual": 0.0}, SPANS),
        ({"ends_weight": 0.0}, [(ends_loss, "ends_loss")]),
        ({"lexicon_weight": 0.0}, [(link_loss, "find_links"), (link_loss, "links_loss")]),
        ({"auxiliary_start": 9}, [*BAGS, *SPANS, *CONTENT]),
        ({"freeze_backbone": True}, [(cross_entropy, "translation_loss")]),
    ],
    ids=lambda value: "".join(value) if isinstance(value, dict) else "",
)
def test_a_loss_without_weight_is_not_computed(zero, functions, monkeypatch):
    for module, name in functions:
        monkeypatch.setattr(module, name, refuse)
    config = everything(**zero)
    losses = compute_losses(model_of(), BATCH, config, 1)
    ramp = auxiliary_factor(config, 1)
    assert losses.parts.keys() == (
        set(log_columns(model_of(), config)) if ramp else {"loss", "nll"}
    )
    for module, name in functions:
        with (
            pytest.MonkeyPatch.context() as patch,
            pytest.raises(AssertionError, match="not to be"),
        ):
            patch.setattr(module, name, refuse)
            compute_losses(model_of(), BATCH, everything(), 1)


def test_without_weights_the_gradient_is_that_of_the_word_loss_to_the_last_bit():
    model = toy_model(separator=separator("gdr-dot"))
    outputs = model(BATCH.source, BATCH.source_mask, BATCH.prefix)
    states, labels = outputs.holistic[BATCH.target_mask], BATCH.labels[BATCH.target_mask]
    loss, nll = label_smoothed_cross_entropy(states, model.output_embedding(), labels, 0.1)
    expected = gradients(model, loss)
    for zero in (settings(), settings(counterfactual=1.0), everything(auxiliary_start=1)):
        losses = compute_losses(model, BATCH, zero, 1)
        assert torch.equal(losses.total, loss) and torch.equal(losses.parts["nll"], nll)
        found = gradients(model, losses.total)
        assert all(
            found[name] is g if g is None else torch.equal(found[name], g)
            for name, g in expected.items()
        )
    # The control: any of them moves the gradient.
    for on in ("bow_weight", "bca_weight", "ends_weight", "lexicon_weight"):
        found = gradients(model, compute_losses(model, BATCH, settings(**{on: 0.5}), 1).total)
        assert any(
            g is not None and not torch.equal(found[name], g) for name, g in expected.items()
        )


def test_a_plain_model_has_the_word_loss_alone():
    plain = toy_model()
    losses = compute_losses(plain, BATCH, everything(), 1)
    assert losses.parts.keys() == {"loss", "nll"} == set(log_columns(plain, everything()))


@pytest.mark.parametrize("name", SEPARATORS)
def test_the_total_is_the_weighted_sum_of_its_parts(name):
    model, config = model_of(name), everything(label_smoothing=0.0)
    losses = compute_losses(model, BATCH, config, 1)
    parts = losses.parts
    expected = parts["nll"] + 0.5 * (parts["bow"] + parts["counterfactual"])
    expected = expected + 0.3 * parts["bca"] + 0.2 * parts["ends"]
    expected = expected + 0.4 * (parts["lexicon"] + parts["links"] + parts["cut_links"])
    torch.testing.assert_close(losses.total.detach(), expected)
    assert torch.equal(parts["loss"], losses.total.detach())
    assert tuple(parts) == log_columns(model, config)


@pytest.mark.parametrize(
    ("start", "expected"),
    [(0, [1, 1, 1, 1, 1, 1, 1, 1]), (3, [0, 0, 0, 1, 1, 1, 1, 1])],
)
def test_auxiliary_losses_begin_after_their_start(start, expected):
    config = settings(auxiliary_start=start)
    assert [auxiliary_factor(config, step) for step in range(1, 9)] == expected


@pytest.mark.parametrize("name", SEPARATORS)
@pytest.mark.parametrize(
    "term",
    [
        {"bow_weight": 0.5, "counterfactual": 1.0},
        {"bca_weight": 0.3},
        {"bow_weight": 1e-9, "ends_weight": 0.2},
    ],
    ids=lambda term: list(term)[-1],
)
def test_a_share_of_the_auxiliary_gradient_reaches_the_backbone(name, term):
    found = {}
    for share in (0.0, 0.5, 1.0):
        torch.manual_seed(3)
        model = model_of(name, share)
        found[share] = gradients(model, compute_losses(model, BATCH, alone(**term), 1).total)
    reached = 0
    for key, full in found[1.0].items():
        if not key.startswith("backbone."):
            same_gradients({key: found[0.0][key]}, {key: full})
            same_gradients({key: found[0.5][key]}, {key: full})
            continue
        assert found[0.0][key] is None or bool((found[0.0][key] == 0).all()), key
        if full is not None:
            torch.testing.assert_close(found[0.5][key], full / 2)
            reached += bool((full != 0).any())
    assert reached > 10


def test_the_objective_of_a_batch_is_the_sum_of_its_sentences():
    """So that neither accumulation nor the number of processes changes it."""
    model, config = model_of(), everything(counterfactual=0.0)
    whole = compute_losses(model, BATCH, config, 1)
    alone_each = [compute_losses(model, rows(BATCH, row), config, 1) for row in range(3)]
    for name, value in whole.parts.items():
        torch.testing.assert_close(value, sum(each.parts[name] for each in alone_each))


def rows(batch, row):
    """One sentence of a batch, without its padding."""
    source, target = batch.source_mask[row], batch.target_mask[row]
    return replace(
        batch,
        source=batch.source[row : row + 1, source],
        source_mask=batch.source_mask[row : row + 1, source],
        source_words=batch.source_words[row : row + 1, source],
        prefix=batch.prefix[row : row + 1, target],
        labels=batch.labels[row : row + 1, target],
        target_mask=batch.target_mask[row : row + 1, target],
        indices=batch.indices[row : row + 1],
    )
