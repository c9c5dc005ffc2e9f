"""Explanations: what is told of a translation, and what cannot be explained."""

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest

from toys import RUN_SHAPES, fill, toy_config, toy_tokenizers, write_corpus
from untold.checking.evidence import judge_pair
from untold.config import DataConfig
from untold.decoding.scoring import PairReader, ReadPair
from untold.errors import UntoldError
from untold.explain.explanation import (
    END,
    Explanation,
    Flip,
    Side,
    explain,
    explanation_of,
    find_flips,
)
from untold.models.build import build_model
from untold.models.signals import Signals
from untold.storage.calibration import (
    SEGMENT_EVIDENCE,
    SHARE_EVIDENCE,
    SOURCE_EVIDENCE,
    TARGET_EVIDENCE,
    Calibration,
    Regression,
)
from untold.storage.model_directory import TrainedModel
from untold.translator import Translation, Translator

# Two source words of two and one pieces, three target pieces that make two words, and EOS twice.
ASSIGNMENTS = np.array(
    [
        [[0.0, 0.8, 0.2], [0.2, 0.6, 0.2], [0.1, 0.9, 0.0], [0.3, 0.3, 0.4]],
        [[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.3, 0.3, 0.4]],
        [[0.6, 0.2, 0.2], [0.8, 0.0, 0.2], [0.4, 0.4, 0.2], [0.5, 0.1, 0.4]],
        [[0.3, 0.7, 0.0], [0.3, 0.7, 0.0], [0.8, 0.1, 0.1], [0.9, 0.1, 0.0]],
    ],
    dtype=np.float32,
)
TRANSLATION = Translation(
    text="Hunde .",
    score=-0.25,
    log_probability=-1.0,
    tokens=("▁Hun", "de", "▁."),
    source_tokens=("▁do", "gs", "▁."),
    signals=Signals(assignments=ASSIGNMENTS),
)


def by_words(
    translation: Translation = TRANSLATION,
    source: str = "dogs .",
    data: DataConfig | None = None,
    given: bool = False,
) -> Explanation:
    nothing = np.zeros((3, 3))
    numbers = (ASSIGNMENTS[:, :3], nothing, nothing, np.zeros(3), np.zeros(3), np.zeros(4))
    texts = (source, translation.text)
    pair = ReadPair(translation.source_tokens, translation.tokens, *numbers, texts)
    return explanation_of(translation, pair, data or DataConfig(), given=given)


def test_pieces_become_words() -> None:
    found = by_words(data=DataConfig(source_language="en"))
    assert found.source == Side("dogs .", ("dogs", "."), "en")
    assert found.target == Side("Hunde .", ("Hunde", "."), "")  # its language was not configured
    assert found.steps == ("Hunde", ".", END)
    expected = [
        [[0.12, 0.84, 0.04], [0.1, 0.9, 0.0]],  # redundant is what both pieces are
        [[0.84, 0.12, 0.04], [0.4, 0.4, 0.2]],
        [[0.3, 0.7, 0.0], [0.8, 0.1, 0.1]],
    ]
    np.testing.assert_allclose(found.shares, expected, atol=1e-6)
    np.testing.assert_allclose(found.ending, ASSIGNMENTS[[0, 2, 3], -1])
    assert not found.given
    with pytest.raises(FrozenInstanceError):
        found.score = 0.0  # type: ignore[misc]


def test_copying_of_pieces_becomes_that_of_words() -> None:
    copying = np.array(
        [[0.2, 0.4, 0.1, 0.0], [0.0, 0.6, 0.3, 0.0], [0.1, 0.0, 0.5, 0.0], [0.0, 0.1, 0.0, 0.0]]
    )
    plain = by_words()
    assert plain.copying is None and plain.as_record()["copying"] is None
    found = by_words(replace(TRANSLATION, signals=Signals(None, ASSIGNMENTS, copying)))
    expected = [[0.6, 0.2], [0.1, 0.5], [0.1, 0.0]]  # of "Hunde", "." and the end
    assert found.copying is not None
    np.testing.assert_allclose(found.copying, expected, atol=1e-12)
    assert found.as_record()["copying"] == expected
    assert found.copies == (), "the full stop is no likelier copied than not"
    copying[2, 2] = 0.75
    copied = by_words(replace(TRANSLATION, signals=Signals(None, ASSIGNMENTS, copying)))
    assert copied.as_record()["copies"] == [{"target": 1, "source": 1, "probability": 0.75}]
    assert found.shares.tolist() == plain.shares.tolist()


def test_a_flip_is_past_overtaking_future() -> None:
    found = by_words()
    # "dogs" flips with "Hunde" and goes back; "." is even before "." is said, and past after it.
    assert found.flips == (Flip(source=0, target=0), Flip(source=1, target=1))


def test_a_word_can_flip_twice_and_none_flips_from_the_start() -> None:
    past = np.array([[0.9, 0.1], [0.8, 0.6], [0.7, 0.2], [0.9, 0.7]])
    shares = np.stack([past, 1 - past, np.zeros_like(past)], axis=-1)
    assert find_flips(shares) == (Flip(1, 0), Flip(1, 2))


def test_unknown_words_are_shown_as_the_text_has_them() -> None:
    unknown = replace(TRANSLATION, source_tokens=("▁", "<unk>", "▁."))
    assert by_words(unknown, "☃☃  .").source.words == ("☃☃", ".")


def test_the_record_is_json_and_holds_everything() -> None:
    found = by_words(given=True)
    record = json.loads(json.dumps(found.as_record(), allow_nan=False))
    assert record["source"] == {"text": "dogs .", "language": "", "words": ["dogs", "."]}
    assert record["target"]["words"] == ["Hunde", "."] and record["target"]["given"] is True
    assert record["score"] == -0.25 and record["log_probability"] == -1.0
    assert record["flips"] == [{"source": 0, "target": 0}, {"source": 1, "target": 1}]
    np.testing.assert_allclose(record["shares"], found.shares, atol=1e-6)
    np.testing.assert_allclose(record["source_end"], found.ending, atol=1e-6)


@pytest.fixture(scope="module", params=["gdr", "attn"])
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    return make(tmp_path_factory.mktemp("corpus"), request.param)


def make(
    folder: Path, kind: str, copying: bool = False, backbone: str = "transformer"
) -> Translator:
    root = write_corpus(folder)
    values = {**RUN_SHAPES[backbone], "backbone": backbone, "preset": "tiny"}
    values |= {"separator": {"kind": kind}, "copying": copying}
    config = toy_config(root, model=values)
    tokenizers = toy_tokenizers(root, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    model = fill(build_model(config.model, sizes, shared=tokenizers.joint)).eval()
    return Translator([TrainedModel(model, config, tokenizers)])


def test_the_models_own_translations(translator: Translator) -> None:
    sources = ["abc de f", "gh"]
    found = explain(translator, sources)
    assert [each.source.text for each in found] == sources
    assert [each.source.words for each in found] == [("abc", "de", "f"), ("gh",)]
    for each in found:
        assert each.shares.shape == (len(each.target.words) + 1, len(each.source.words), 3)
        assert each.ending.shape == (len(each.target.words) + 1, 3)
        assert each.score < 0 and not each.given


def test_given_targets(translator: Translator) -> None:
    (found,) = explain(translator, ["abc de f"], ["f de abc"])
    assert found.target.words == ("f", "de", "abc") and found.given
    assert found.shares.shape == (4, 3, 3)
    assert found.log_probability == translator.score([("abc de f", "f de abc")])[0].log_probability


@pytest.mark.parametrize("targets", [[], ["f de abc"]])
def test_a_model_that_copies_says_so(tmp_path: Path, targets: list[str]) -> None:
    (found,) = explain(make(tmp_path, "gdr", copying=True), ["abc de f"], targets)
    assert found.copying is not None
    assert found.copying.shape == found.shares.shape[:2]
    assert found.copying.min() > 0 and found.copying.sum(1).max() < 1


def test_a_pfrnn_with_a_separator_is_explained_as_any_other_model(tmp_path: Path) -> None:
    (found,) = explain(make(tmp_path, "gdr", backbone="pfrnn"), ["abc de f"], ["f de abc"])
    assert found.shares.shape == (4, 3, 3)


def calibrated(translator: Translator) -> Translator:
    """A calibration by formula, whose weights differ."""

    def regression(names: tuple[str, ...]) -> Regression:
        weights = tuple(0.25 - 0.0625 * k for k in range(len(names)))
        return Regression(names, (0.0,) * len(names), (1.0,) * len(names), weights, 0.5, 0.25)

    words = regression(SOURCE_EVIDENCE), regression(TARGET_EVIDENCE)
    segments = [regression(SEGMENT_EVIDENCE)] * 2
    found = Calibration(*words, *segments, regression(SHARE_EVIDENCE), 0.5, 20, 0.0)
    return Translator([replace(each, calibration=found) for each in translator.models])


@pytest.mark.parametrize("targets", [[], ["f de abc", "gh gh", ""]])
def test_a_calibrated_model_says_what_is_probably_untold(
    translator: Translator, targets: list[str]
) -> None:
    sources = ["abc de f", "gh", "a b"]
    plain = explain(translator, sources, targets)
    assert all(each.untold is each.added is None for each in plain)
    assert all(each.as_record()["untold"] is each.as_record()["added"] is None for each in plain)
    judging = calibrated(translator)
    found = explain(judging, sources, targets)
    (trained,) = judging.models
    for each in found:
        record = each.as_record()
        for values, side in (("untold", each.source), ("added", each.target)):
            probabilities = getattr(each, values)
            assert len(probabilities) == len(side.words)
            assert all(0 < probability < 1 for probability in probabilities)
            assert record[values] == pytest.approx(list(probabilities), abs=1e-6)
        if targets:
            reader = PairReader(trained)
            (pair,) = reader.read(reader.encode([(each.source.text, each.target.text)]))
            judged = judge_pair(pair, trained.calibration)
            assert each.untold == pytest.approx(judged.omission[0], rel=1e-4)
            assert each.added == pytest.approx(judged.addition[0], rel=1e-4)
    both = Translator([*translator.models, trained])  # the first is not calibrated
    assert explain(both, ["gh"], ["gh"])[0].untold == explain(judging, ["gh"], ["gh"])[0].untold


def test_a_blank_target_leaves_the_end(translator: Translator) -> None:
    (found,) = explain(translator, ["abc"], [""])
    assert found.steps == (END,) and found.flips == ()


@pytest.mark.parametrize(
    ("sources", "targets", "expected"),
    [
        ([" "], [], "blank"),
        ([""], ["a"], "blank"),
        (["a", "b"], ["a"], "2 sources but 1 targets"),
        (["ab cd ef gh " * 60], [], "data.max_tokens"),
    ],
)
def test_what_cannot_be_explained(
    translator: Translator, sources: list[str], targets: list[str], expected: str
) -> None:
    with pytest.raises(UntoldError, match=expected):
        explain(translator, sources, targets)


@pytest.mark.parametrize("targets", [[], ["a"]])
def test_a_model_without_past_and_future_says_so(tmp_path: Path, targets: list[str]) -> None:
    for backbone in ("transformer", "pfrnn"):  # a PFRNN has layers of that name, but no shares
        with pytest.raises(UntoldError, match="does not separate past and future"):
            explain(make(tmp_path, "none", backbone=backbone), ["a"], targets)


def test_explanations_are_compared_by_identity() -> None:
    one, other = by_words(), by_words()
    assert one != other and isinstance(one, Explanation)
