"""Word prediction from the plain decoder state: its formula, who learns, and who needs it not."""

import pytest
import torch

from toys import (
    compute_losses,
    fill,
    log_columns,
    records,
    separator,
    toy_batch,
    toy_config,
    toy_model,
    toy_tokenizers,
    words,
)
from untold.config import DecodeConfig, ModelConfig, TrainConfig, parse_config
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.errors import UntoldError
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, load_model, save_model
from untold.storage.summary import count_parameters, summarise
from untold.training.losses import auxiliary as module

BATCH = toy_batch([(4, 6), (1, 0), (3, 5)])
FUTURES = {
    "causal": lambda y, t: y[t:],
    "paper": lambda y, t: y[t:],
    "strict": lambda y, t: y[t + 1 :],
}


def settings(**changes):
    plain = {
        "bow_weight": 0.0,
        "bow_share": 1.0,
        "vocabulary_share": 1.0,
        "ends_weight": 0.0,
        "lexicon_weight": 0.0,
        "counterfactual": 0.0,
        "word_prediction": 0.7,
    }
    return TrainConfig.model_validate(plain | changes)


def model_of(name="none"):
    return toy_model(separator=separator(name), word_prediction=True).double()


def plain_loss(model, window="causal", mean=False):
    """-log softmax(E W z_t)[y] for every word y still to come, by loops."""
    states = model(BATCH.source, BATCH.source_mask, BATCH.prefix).states
    total = torch.zeros((), dtype=torch.float64)
    for row, mask in enumerate(BATCH.target_mask):
        y = BATCH.labels[row, mask].tolist()
        steps = range(len(y))
        for t in steps:
            mapped = model.word_prediction.weight @ states[row, t]
            log_p = (model.output_embedding() @ mapped).log_softmax(-1)
            bag = FUTURES[window](y, t)
            value = sum((log_p[word] for word in bag), torch.zeros((), dtype=torch.float64))
            total = total - value / (max(1, len(bag)) if mean else 1) / len(steps)
    return total


def gradients(model, value):
    model.zero_grad(set_to_none=True)
    value.backward()
    return {
        name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()
    }


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("window", FUTURES)
def test_it_is_its_formula_word_by_word_in_value_and_gradient(window, reduction):
    model = model_of()
    config = settings(bow_window=window, bow_reduction=reduction)
    found = compute_losses(model, BATCH, config, 1)
    expected = plain_loss(model, window, reduction == "mean")
    torch.testing.assert_close(found.parts["word_prediction"], expected.detach())
    without = compute_losses(model, BATCH, settings(word_prediction=0.0), 1).total
    total = without + 0.7 * expected
    torch.testing.assert_close(found.total, total)
    ours, theirs = gradients(model, found.total), gradients(model, total)
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient)
    assert bool(ours["word_prediction.weight"].any())


def test_beside_a_separator_it_is_one_more_loss():
    model = model_of("gdr-dot")
    config = settings(bow_weight=0.5, label_smoothing=0.0)
    losses = compute_losses(model, BATCH, config, 1)
    parts = losses.parts
    assert tuple(parts) == log_columns(model, config) == ("loss", "nll", "bow", "word_prediction")
    torch.testing.assert_close(parts["word_prediction"], plain_loss(model).detach())
    expected = parts["nll"] + 0.5 * parts["bow"] + 0.7 * parts["word_prediction"]
    torch.testing.assert_close(losses.total.detach(), expected)


def test_the_start_and_the_share_of_steps_are_those_of_the_other_losses(monkeypatch):
    model = model_of()
    losses = [compute_losses(model, BATCH, settings(auxiliary_start=2), step) for step in (2, 3)]
    assert tuple(losses[0].parts) == ("loss", "nll")
    assert "word_prediction" in losses[1].parts
    shared = settings(bow_share=0.3)
    sample = []
    for first in range(BATCH.target_tokens):  # every rotation once: each step equally often
        monkeypatch.setattr(
            module.torch, "randperm", lambda n, first=first, **_: torch.arange(n).roll(first)
        )
        sample.append(float(compute_losses(model, BATCH, shared, 1).parts["word_prediction"]))
    assert sum(sample) / len(sample) == pytest.approx(float(plain_loss(model).detach()))
    assert max(sample) > 1.01 * min(sample)


def test_without_weight_nothing_changes_to_the_last_bit(monkeypatch):
    """The head is not asked, and neither is the generator of random numbers."""
    with_head = toy_model(word_prediction=True).train()
    without = toy_model().train()
    monkeypatch.setattr(module, "draw_vocabulary", lambda *_: pytest.fail("not to be computed"))
    found = []
    for model in (with_head, without):
        torch.manual_seed(3)
        losses = compute_losses(model, BATCH, settings(word_prediction=0.0), 1)
        found.append((gradients(model, losses.total), losses.parts, torch.rand(1)))
    (one, parts, chance), (other, others, same) = found
    assert one.pop("word_prediction.weight") is None
    assert all(torch.equal(one[name], gradient) for name, gradient in other.items())
    assert parts.keys() == others.keys() == {"loss", "nll"} and torch.equal(chance, same)


def test_a_model_without_the_head_has_no_such_loss():
    plain = toy_model()
    assert compute_losses(plain, BATCH, settings(), 1).parts.keys() == {"loss", "nll"}
    assert log_columns(plain, settings()) == ("loss", "nll")


def test_all_other_weights_begin_as_without_the_head():
    shape = {"d_model": 12, "d_ffn": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    made = []
    for has_head in (False, True):
        torch.manual_seed(9)
        config = ModelConfig.model_validate(
            shape | {"separator": {"kind": "gdr"}, "word_prediction": has_head}
        )
        made.append(dict(build_model(config, (13, 13), shared=True).named_parameters()))
    assert made[1].keys() - made[0].keys() == {"word_prediction.weight"}
    assert all(torch.equal(made[1][name], value) for name, value in made[0].items())


@pytest.mark.parametrize("name", ["none", "gdr-dot"])
def test_no_translation_needs_the_head(name):
    model = toy_model(separator=separator(name), word_prediction=True)
    sentences = Sentences(
        words(3, 5), torch.arange(5) < torch.tensor([[5], [2], [4]]), SENTENCEPIECE_IDS
    )
    config = DecodeConfig(beam=3, nbest=2, max_length=7)
    whole = search(model, sentences, config)
    model.word_prediction.weight.data.fill_(torch.nan)
    assert search(model, sentences, config) == whole
    model.word_prediction = None
    assert search(model, sentences, config) == whole
    assert search(toy_model(separator=separator(name)), sentences, config) == whole


def test_it_is_saved_and_counted_as_not_needed_to_translate(corpus, tmp_path):
    config = toy_config(corpus, train={"word_prediction": 0.5})
    tokenizers = toy_tokenizers(corpus, config)
    size = len(tokenizers.source)
    model = fill(build_model(config.model, (size, size), shared=True))
    save_model(tmp_path / "model", TrainedModel(model, config, tokenizers))
    loaded = load_model(tmp_path / "model")
    assert torch.equal(loaded.model.word_prediction.weight, model.word_prediction.weight)
    counts = count_parameters(loaded.model)
    assert counts.total - counts.to_translate_with == 8 * 8
    summary = summarise(loaded, tmp_path / "model")
    assert summary["parameters to translate with"] == counts.to_translate_with


def test_both_kinds_of_heads_are_left_out_of_the_count():
    model = toy_model(separator=separator("gdr-dot"), word_prediction=True)
    heads = sum(p.numel() for p in model.past_future.heads.parameters())
    counts = count_parameters(model)
    assert counts.total - counts.to_translate_with == heads + 44 * 44


def test_a_run_logs_it_and_learns_it(start, tmp_path):
    train = {"steps": 6, "log_every": 3, "validate_every": 6, "save_every": 6}
    start(tmp_path / "run", train=train | {"word_prediction": 0.5, "bow_share": 1.0})
    found = [record["word_prediction"] for record in records(tmp_path / "run", "train")]
    assert len(found) == 2 and 0 < found[1] < found[0]
    assert load_model(tmp_path / "run").config.model.word_prediction


def test_the_weight_asks_for_the_head():
    assert not parse_config({}).model.word_prediction
    assert not parse_config({"train": {"word_prediction": 0.0}}).model.word_prediction
    config = parse_config({"train": {"word_prediction": 0.5}, "model": {"preset": "tiny"}})
    assert config.model.word_prediction and config.model.d_model == 128
    with pytest.raises(UntoldError, match="has no head to train"):
        parse_config({"train": {"word_prediction": 0.5}, "model": {"word_prediction": False}})
    with pytest.raises(UntoldError, match=r"train\.word_prediction"):
        parse_config({"train": {"word_prediction": "much"}})
