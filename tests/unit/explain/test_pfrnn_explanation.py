"""Explanations by past and future layers: of the pieces that were said, with what was copied."""

from pathlib import Path

import numpy as np
import pytest

from toys import RUN_SHAPES, fill, toy_config, toy_tokenizers, write_corpus
from untold.explain.explanation import PfrnnExplanation, explain, explanation_kind
from untold.models.build import build_model_for
from untold.storage.model_directory import TrainedModel
from untold.translator import Translator


def make(folder: Path, backbone: str, kind: str = "none") -> Translator:
    root = write_corpus(folder)
    shape = {"preset": "tiny", **RUN_SHAPES[backbone], "backbone": backbone}
    config = toy_config(root, model=shape | {"copying": True, "separator": {"kind": kind}})
    tokenizers = toy_tokenizers(root, config)
    model = fill(build_model_for(tokenizers, config.model)).eval()
    return Translator([TrainedModel(model, config, tokenizers)])


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return make(tmp_path_factory.mktemp("corpus"), "pfrnn")


def test_only_a_single_pfrnn_without_a_separator_is_explained_by_its_states(
    translator: Translator, tmp_path: Path
) -> None:
    assert explanation_kind(translator) == "pfrnn"
    assert explanation_kind(make(tmp_path, "rnmt")) == "shares"
    assert explanation_kind(make(tmp_path, "pfrnn", "gdr")) == "shares"
    assert explanation_kind(Translator([*translator.models, *translator.models])) == "shares"


def test_the_models_own_translations_are_explained_in_the_pieces_that_were_said(
    translator: Translator,
) -> None:
    sources = ["abc de f", "gh"]
    found = explain(translator, sources)
    assert all(isinstance(each, PfrnnExplanation) for each in found)
    for each, said in zip(found, translator.translate(sources), strict=True):
        assert each.pfrnn.pieces == (*said.tokens, "(end)") and not each.given
        assert each.target.text == said.text
        assert each.score == pytest.approx(said.score)


def test_what_is_copied_is_told_word_by_word(translator: Translator) -> None:
    (found,) = explain(translator, ["abc de f"], ["f de"])
    (scored,) = translator.score([("abc de f", "f de")])
    assert found.given and found.target.words == ("f", "de")
    assert found.copying is not None and scored.copying is not None
    np.testing.assert_allclose(found.copying.sum(1)[-1], scored.copying[-1, :-1].sum(), rtol=1e-5)
    assert found.copying.shape == (3, 3)
    assert found.as_record()["copying"] == np.float64(found.copying).round(6).tolist()
