from itertools import chain

import pytest
import torch

from toys import collate
from untold.config import DecodeConfig, SeparatorConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.ensemble import Ensemble
from untold.decoding.hypotheses import Sentences
from untold.decoding.scoring import score_pairs
from untold.errors import UntoldError
from untold.models.build import build_model
from untold.models.transformer import TransformerConfig

IDS = torch.tensor([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0]])
SENTENCES = Sentences(IDS, IDS != 0, SENTENCEPIECE_IDS)
PAIRS = collate([([5, 6], [7, 8, 9]), ([4], [6])], range(2))


def member(number, d_model=6, size=13, separator="none", copying=False):
    """A small Transformer with weights by closed formula."""
    shape = TransformerConfig(
        d_model=d_model,
        d_ffn=10,
        heads=2,
        encoder_layers=1,
        decoder_layers=2,
        separator=SeparatorConfig(kind=separator, d_capsule=5),
        copying=copying,
    )
    model = build_model(shape, (size, size), shared=True).eval()
    with torch.no_grad():
        for place, weights in enumerate(model.parameters()):
            values = torch.arange(weights.numel()).view(weights.shape).float()
            weights.copy_(torch.sin(values * (1.7 + number) + place))
    return model


def test_two_of_the_same_are_the_one():
    model, config = member(0), DecodeConfig(nbest=3, max_length=7)
    alone = search(model, SENTENCES, config, {"attention"})
    doubled = search(Ensemble([model, model]), SENTENCES, config, {"attention"})
    for one, two in zip(chain(*alone), chain(*doubled), strict=True):
        assert one.tokens == two.tokens
        assert one.score == pytest.approx(two.score, abs=1e-5)
        torch.testing.assert_close(one.attention, two.attention)


def test_probabilities_are_averaged_step_by_step_and_all_at_once():
    models = [member(0), member(1, d_model=10), member(2)]
    ensemble = Ensemble(models)
    outputs = [m(PAIRS.source, PAIRS.source_mask, PAIRS.prefix) for m in models]
    each = [m.logits(o.holistic).softmax(-1) for m, o in zip(models, outputs, strict=True)]
    expected = torch.stack(each).mean(0).log()
    together = ensemble(PAIRS.source, PAIRS.source_mask, PAIRS.prefix)
    rows, steps = PAIRS.target_mask.nonzero(as_tuple=True)
    found = ensemble.scores(together, rows, steps)
    torch.testing.assert_close(found, expected[rows, steps])

    source = ensemble.encode(PAIRS.source, PAIRS.source_mask)
    state = ensemble.start(source, 1)
    for t in range(PAIRS.prefix.shape[1]):
        step = ensemble.step(source, PAIRS.prefix[:, t : t + 1], state)
        state = step.state
        torch.testing.assert_close(step.logits[:, 0], expected[:, t])


def test_members_must_share_a_vocabulary():
    with pytest.raises(UntoldError, match=r"target vocabularies of \[13, 14\] tokens"):
        Ensemble([member(0), member(0, size=14)])
    with pytest.raises(UntoldError, match="no models"):
        Ensemble([])


def test_an_ensemble_is_scored_as_it_is_searched():
    ensemble = Ensemble([member(0), member(1, d_model=10)])
    found = search(ensemble, SENTENCES, DecodeConfig(max_length=7))
    sources = [[5, 6, 7, 8], [9, 4]]
    pairs = [(s, h[0].tokens) for s, h in zip(sources, found, strict=True)]
    for one, other in zip(found, score_pairs(ensemble, collate(pairs, range(2)), 0.6), strict=True):
        assert one[0].score == pytest.approx(other.score, abs=1e-5)


def test_a_search_with_the_transformer_reports_what_rescoring_gives():
    model, sources = member(0), [[5, 6, 7, 8], [9, 4]]
    config = DecodeConfig(beam=5, nbest=5, max_length=9)
    found = search(model, SENTENCES, config, {"attention"})
    for source, hypotheses in zip(sources, found, strict=True):
        pairs = collate([(source, h.tokens) for h in hypotheses], range(len(hypotheses)))
        rescored = score_pairs(model, pairs, config.length_penalty, attention=True)
        for one, other in zip(hypotheses, rescored, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
            torch.testing.assert_close(one.attention, other.attention, rtol=1e-4, atol=1e-5)
            assert one.attention is not None and one.attention.shape[1] == len(source) + 1


def test_assignments_are_the_mean_of_the_members_that_have_them():
    separating = [member(0, separator="gdr"), member(1, d_model=10, separator="clf")]
    ensemble = Ensemble([separating[0], member(2), separating[1]])
    each = [m(PAIRS.source, PAIRS.source_mask, PAIRS.prefix).assignments for m in separating]
    expected = torch.stack(each).mean(0)
    assert (each[0] - each[1]).abs().max() > 1e-2
    together = ensemble(PAIRS.source, PAIRS.source_mask, PAIRS.prefix)
    torch.testing.assert_close(together.assignments, expected)
    source = ensemble.encode(PAIRS.source, PAIRS.source_mask)
    step = ensemble.step(source, PAIRS.prefix[:, :1], ensemble.start(source, 1))
    torch.testing.assert_close(step.assignments[:, 0], expected[:, 0])
    assert Ensemble([member(2)])(PAIRS.source, PAIRS.source_mask, PAIRS.prefix).assignments is None


def test_copying_members_are_averaged_with_others_and_scored_as_searched():
    ensemble = Ensemble([member(0, copying=True), member(1, d_model=10), member(2, copying=True)])
    outputs = [m(PAIRS.source, PAIRS.source_mask, PAIRS.prefix) for m in ensemble.members]
    rows, steps = PAIRS.target_mask.nonzero(as_tuple=True)
    each = [m.scores(o, rows, steps) for m, o in zip(ensemble.members, outputs, strict=True)]
    expected = torch.stack([scores.softmax(-1) for scores in each]).mean(0).log()
    together = ensemble(PAIRS.source, PAIRS.source_mask, PAIRS.prefix)
    torch.testing.assert_close(ensemble.scores(together, rows, steps), expected)
    mean = (outputs[0].copying + outputs[2].copying) / 2
    torch.testing.assert_close(together.copying, mean)
    found = search(ensemble, SENTENCES, DecodeConfig(beam=3, max_length=7), {"copying"})
    pairs = [(s, h[0].tokens) for s, h in zip([[5, 6, 7, 8], [9, 4]], found, strict=True)]
    for (one, *_), other in zip(
        found, score_pairs(ensemble, collate(pairs, range(2)), 0.6), strict=True
    ):
        assert one.score == pytest.approx(other.score, abs=1e-5)
        torch.testing.assert_close(one.copying, other.copying, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["gdr", "clf", "attn"])
def test_an_ensemble_s_search_shows_the_assignments_of_rescoring(kind):
    """Of every hypothesis of the beam; neighbours of other lengths change nothing."""
    ensemble = Ensemble([member(0, separator=kind), member(1, d_model=10, separator="gdr")])
    config = DecodeConfig(beam=5, nbest=3, max_length=7)
    found = search(ensemble, SENTENCES, config, {"assignments"})
    for source, hypotheses in zip([[5, 6, 7, 8], [9, 4]], found, strict=True):
        pairs = collate([(source, h.tokens) for h in hypotheses], range(len(hypotheses)))
        for one, other in zip(hypotheses, score_pairs(ensemble, pairs, 0.6), strict=True):
            assert one.assignments.shape == (len(one.tokens) + 1, len(source) + 1, 3)
            torch.testing.assert_close(one.assignments, other.assignments, rtol=1e-3, atol=1e-4)
            assert one.attention is None
