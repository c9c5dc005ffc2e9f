"""States of past and future layers: the states themselves, their lengths, and who has none."""

import itertools
import json
import math

import numpy as np
import pytest
import torch

from toys import EOS, UNK, collate, fill, toy_config, toy_tokenizers, write_corpus
from untold.errors import UntoldError
from untold.explain.explanation import PfrnnStates, pfrnn_states, states_of_pieces
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def make(root, backbone):
    config = toy_config(root, model={"backbone": backbone})
    tokenizers = toy_tokenizers(root, config)
    model = build_model(config.model, (len(tokenizers.source),) * 2, shared=True)
    return TrainedModel(fill(model).eval(), config, tokenizers)


@torch.no_grad()
def test_they_are_the_states_of_a_pass_over_the_target(root):
    trained = make(root, "pfrnn")
    pairs = [("ab c", "c ba"), ("abcd", "d")]
    for pair, found in zip(pairs, pfrnn_states(trained, pairs), strict=True):
        source, target = (trained.tokenizers.source.encode([text])[0] for text in pair)
        batch = collate([(source, target)], [0])
        timeline = trained.model(batch.source, batch.source_mask, batch.prefix).inner_states
        np.testing.assert_allclose(found.past, timeline.after[0, :, 0].numpy(), atol=1e-6)
        np.testing.assert_allclose(found.future, timeline.after[0, :, 1].numpy(), atol=1e-6)
        assert found.pieces == (*trained.tokenizers.target.pieces(target), "(end)")
        added = trained.model.backbone.guesses(timeline)["past"][0]
        ids = (added @ trained.model.output_embedding().T).argmax(-1).tolist()
        expected = trained.tokenizers.target.pieces(ids)
        assert found.added == tuple("(end)" if piece == "</s>" else piece for piece in expected)
        assert len(found.taken) == len(found.pieces)
        record = json.loads(json.dumps(found.as_record()))
        assert record["past_norms"] == pytest.approx(
            [float((state**2).sum() ** 0.5) for state in found.past], abs=1e-5
        )
        assert len(record["future_norms"]) == len(record["pieces"])
        for t, u in itertools.product(range(len(found.pieces)), repeat=2):
            one, other = found.future[t].tolist(), found.future[u].tolist()
            product = sum(x * y for x, y in zip(one, other, strict=True))
            cosine = product / (math.hypot(*one) * math.hypot(*other))
            assert record["future_cosines"][t][u] == pytest.approx(cosine, abs=1e-5)


def test_a_trace_of_pieces_is_of_these_pieces_however_a_tokenizer_would_cut(root):
    trained = make(root, "pfrnn")
    letters = ("▁", "a", "b", "<unk>")
    (found,) = states_of_pieces(trained, [(("▁", "c"), letters)])
    assert found.pieces == (*letters, "(end)")
    (text,) = pfrnn_states(trained, [("c", "ab")])
    cut = [
        tuple(trained.tokenizers.source.pieces(trained.tokenizers.source.encode([t])[0]))
        for t in ("c", "ab")
    ]
    (same,) = states_of_pieces(trained, [tuple(cut)])
    assert same.pieces == text.pieces
    np.testing.assert_array_equal(same.past, text.past)


def test_a_state_without_length_is_like_none():
    states = np.zeros((1, 2), np.float32)
    found = PfrnnStates(("(end)",), states, states, ("(end)",), ("a",))
    assert found.as_record()["past_cosines"] == [[0.0]]


def test_a_guess_of_the_end_is_shown_as_the_end(root, monkeypatch):
    trained, ids = make(root, "pfrnn"), [EOS, 7, UNK, EOS]
    monkeypatch.setattr(trained.model, "logits", lambda _: torch.eye(40)[ids])
    (found,) = states_of_pieces(trained, [(("a",), ("b", "c", "d"))])
    assert found.added == ("(end)", trained.tokenizers.target.pieces([7])[0], "<unk>", "(end)")


def test_a_model_without_layers_says_what_to_train(root):
    with pytest.raises(UntoldError, match=r'backbone rnmt has no.*model.backbone = "pfrnn"'):
        pfrnn_states(make(root, "rnmt"), [("a", "b")])
