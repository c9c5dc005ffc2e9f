"""Traces of past and future layers: the states themselves, their lengths, and who has none."""

import json

import numpy as np
import pytest
import torch

from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.analysis.layers import trace_layers
from untold.corpus.batches import collate
from untold.errors import UntoldError
from untold.models.build import build_model
from untold.models.files import TrainedModel


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def make(root, backbone):
    config = toy_config(root, model={"backbone": backbone})
    tokenizers = toy_tokenizers(root, config)
    model = build_model(config.model, (len(tokenizers.source),) * 2, shared=True)
    return TrainedModel(fill(model).eval(), config, tokenizers)


@torch.no_grad()
def test_a_trace_is_the_states_of_a_pass_over_the_target(root):
    trained = make(root, "pfrnn")
    pairs = [("ab c", "c ba"), ("abcd", "d")]
    for pair, trace in zip(pairs, trace_layers(trained, pairs), strict=True):
        source, target = (trained.tokenizers.source.encode([text])[0] for text in pair)
        batch = collate([(source, target)], [0])
        timeline = trained.model(batch.source, batch.source_mask, batch.prefix).timeline
        np.testing.assert_allclose(trace.past, timeline.after[0, :, 0].numpy(), atol=1e-6)
        np.testing.assert_allclose(trace.future, timeline.after[0, :, 1].numpy(), atol=1e-6)
        assert trace.pieces == (*trained.tokenizers.target.pieces(target), "(end)")
        added = trained.model.backbone.guesses(timeline)["past"][0]
        ids = (added @ trained.model.output_embedding().T).argmax(-1).tolist()
        assert trace.added == tuple(trained.tokenizers.target.pieces(ids))
        assert len(trace.taken) == len(trace.pieces)
        record = json.loads(json.dumps(trace.as_record()))
        assert record["past_norms"] == pytest.approx(
            [float((state**2).sum() ** 0.5) for state in trace.past], abs=1e-5
        )
        assert len(record["future_norms"]) == len(record["pieces"])


def test_a_model_without_layers_says_what_to_train(root):
    with pytest.raises(UntoldError, match=r'backbone rnmt has no.*model.backbone = "pfrnn"'):
        trace_layers(make(root, "rnmt"), [("a", "b")])
