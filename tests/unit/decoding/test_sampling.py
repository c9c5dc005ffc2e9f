from itertools import pairwise

import pytest
import torch

from toys import EOS
from untold.config import DecodeConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import draw, search, uniforms
from untold.decoding.hypotheses import Sentences

LOG_PROBS = torch.sin(torch.arange(2 * 3 * 13).view(2, 3, 13) * 2.3).mul(2).log_softmax(-1)


def config(**settings):
    return DecodeConfig.model_validate({"temperature": 1.0} | settings)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_draw_inverts_the_cumulated_probabilities_at_a_temperature(temperature):
    """Of chances that lie evenly, each token is drawn as often as it is probable."""
    row, count = LOG_PROBS[0, 0], 20_000
    chances = (torch.arange(count, dtype=torch.float64) / count)[None]
    tokens = draw(row.expand(1, count, -1), chances, temperature)
    weights = (row / temperature).exp()
    shares = torch.bincount(tokens[0], minlength=len(row)) / count
    torch.testing.assert_close(shares, weights / weights.sum(), atol=1e-4, rtol=0)


def test_no_impossible_token_is_drawn():
    probs = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0]).log().expand(1, 7, 6)
    chances = torch.tensor([[0.0, 0.2, 0.25, 0.5, 0.74, 0.75, 1 - 2**-53]], dtype=torch.float64)
    assert draw(probs, chances, 1.0).tolist() == [[1, 1, 3, 3, 3, 4, 4]]


def test_samples_are_as_frequent_as_they_are_probable(table_model):
    logits = torch.zeros(1, 7, 7)
    logits[0, 2, 3:] = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
    logits[0, 2, :3] = -torch.inf
    count = 4000
    ids = torch.zeros(1, 1, dtype=torch.long)
    (found,) = search(
        table_model(logits),
        Sentences(ids, ids == 0, SENTENCEPIECE_IDS),
        config(nbest=count, max_length=3),
    )
    firsts = [(*hypothesis.tokens, EOS)[0] for hypothesis in found]
    expected = {3: 0.1 * count, 4: 0.2 * count, 5: 0.3 * count, 6: 0.4 * count}
    chi_square = sum((firsts.count(t) - mean) ** 2 / mean for t, mean in expected.items())
    assert chi_square < 16.3  # one in a thousand at three degrees of freedom


def test_samples_hang_on_seed_and_index_alone(table_model):
    logits = torch.sin(torch.arange(3 * 7 * 7).view(3, 7, 7).float())
    model, ids = table_model(logits), torch.tensor([[0], [1], [2]])

    def samples(rows, settings):
        sentences = Sentences(
            ids[rows],
            torch.ones(len(rows), 1, dtype=torch.bool),
            SENTENCEPIECE_IDS,
            indices=tuple(rows),
        )
        return search(model, sentences, settings)

    together = samples([0, 1, 2], config(nbest=2))
    assert samples([2, 0], config(nbest=2)) == [together[2], together[0]]
    assert samples([1], config(nbest=2, seed=5)) != [together[1]]
    assert samples([1], config(nbest=1))[0][0] in together[1]


def test_uniforms_differ_between_sentences_and_samples():
    ids = torch.ones(3, 2, dtype=torch.long)
    samples = Sentences(ids, ids > 0, SENTENCEPIECE_IDS, indices=(4, 5, 4)).repeated(2)
    chances = uniforms(samples, config(nbest=2), torch.tensor([7, 7, 9, 9, 7, 7]))
    assert torch.equal(chances[:2], chances[4:])
    assert len(set(chances[:4, 0].tolist())) == 4


def test_the_score_of_a_sample_is_the_models_own(table_model):
    logits = torch.sin(torch.arange(7 * 7).view(1, 7, 7).float())
    ids = torch.zeros(1, 1, dtype=torch.long)
    settings = config(temperature=0.3, max_length=6, nbest=3)
    for hypothesis in search(
        table_model(logits), Sentences(ids, ids == 0, SENTENCEPIECE_IDS), settings
    )[0]:
        path = (2, *hypothesis.tokens, EOS)
        log_probs = logits[0].log_softmax(-1)
        expected = [log_probs[a, b].item() for a, b in pairwise(path)]
        assert hypothesis.token_log_probabilities == pytest.approx(expected, abs=1e-6)
