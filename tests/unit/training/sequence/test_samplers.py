"""Samplers: the same draws for the same seed, in any batch; n-best lists; references; sets."""

from dataclasses import replace

import pytest
import torch

from toys import BOS, EOS, PAD, fill, toy_batch, toy_model
from untold.config import SequenceConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.training.sequence.samples import collect, draw_samples

BATCH = toy_batch([(5, 3), (2, 7), (3, 1)])
LONGEST = 7


def settings(**values):
    return SequenceConfig.model_validate({"kind": "reinforce", "samples": 4} | values)


TENSORS = ("source", "source_mask", "source_words", "prefix", "labels", "target_mask", "indices")


def drawn(seed, batch=BATCH, model=None, **values):
    model = toy_model() if model is None else model  # building draws weights, too
    torch.manual_seed(seed)
    return draw_samples(model, batch, settings(**values), LONGEST)


def by_sentence(samples):
    """The translations of each sentence, in their order."""
    rows = samples.rows.tolist()
    pairs = list(zip(rows, samples.tokens, strict=True))
    return [[tokens for row, tokens in pairs if row == n] for n in sorted(set(rows))]


def test_the_same_seed_draws_the_same_and_another_another():
    one, same, other = drawn(3), drawn(3), drawn(4)
    assert one.tokens == same.tokens != other.tokens
    assert one.rows.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert len(set(one.tokens)) > 6


def test_what_is_drawn_for_a_sentence_does_not_hang_on_its_batch():
    whole = by_sentence(drawn(3))
    for row in range(3):
        part = replace(
            BATCH,
            **{name: getattr(BATCH, name)[row : row + 1] for name in TENSORS},
        )
        assert by_sentence(drawn(3, part)) == [whole[row]]


def test_samples_are_searched_for_without_dropout_and_the_model_goes_on_training():
    model = toy_model(dropout=0.5).train()
    assert drawn(3, model=model).tokens == drawn(3).tokens
    assert model.training and model.backbone.training
    model.eval()
    drawn(3, model=model)
    assert not model.training


def test_the_reference_joins_and_a_set_has_nothing_twice():
    model = fill(toy_model(), 3.0)  # so sure of its words that it draws some translations twice
    all_drawn = by_sentence(drawn(3, model=model, samples=9))
    sets = by_sentence(drawn(3, model=model, kind="mrt", samples=9))
    joined = by_sentence(drawn(3, model=model, kind="mrt", samples=9, reference=True))
    assert any(len(set(tokens)) < 9 for tokens in all_drawn)
    for row, tokens in enumerate(all_drawn):
        real = BATCH.labels[row, BATCH.target_mask[row]].tolist()[:-1]
        assert sets[row] == list(dict.fromkeys(tokens))
        assert joined[row] == list(dict.fromkeys([*tokens, tuple(real)]))


def test_tensors_of_samples():
    samples = collect(
        [[((7, 8), True), ((), True)], [((9, 4), False)]], SENTENCEPIECE_IDS, torch.device("cpu")
    )
    assert samples.rows.tolist() == [0, 0, 1]
    assert samples.tokens == ((7, 8), (), (9, 4))
    assert samples.prefix.tolist() == [[BOS, 7, 8], [BOS, PAD, PAD], [BOS, 9, 4]]
    assert samples.labels.tolist() == [[7, 8, EOS], [EOS, PAD, PAD], [9, 4, EOS]]
    assert samples.mask.int().tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 1]]
    assert samples.chosen.int().tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize("longest", [1, 3])
def test_no_sample_is_longer_than_the_limit_and_its_forced_end_is_known(longest):
    samples = draw_samples(toy_model(), BATCH, settings(), longest)
    lengths = [len(tokens) for tokens in samples.tokens]
    assert max(lengths) == longest
    for number, length in enumerate(lengths):
        assert int(samples.mask[number].sum()) == length + 1
        assert int(samples.chosen[number].sum()) == length + (length < longest)
