"""A checker on a toy model: words that fit, order that is kept, and reasons for what is skipped."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from toys import toy_trained, write_corpus
from untold.checking import checker
from untold.checking.checker import CheckedSegment, Checker, check_segments
from untold.checking.segments import Damage, Segment
from untold.decoding.scoring import PairReader
from untold.errors import UntoldError
from untold.storage.calibration import (
    SEGMENT_EVIDENCE,
    SHARE_EVIDENCE,
    SOURCE_EVIDENCE,
    TARGET_EVIDENCE,
    Calibration,
    Regression,
)
from untold.storage.model_directory import TrainedModel


def plain(names: tuple[str, ...]) -> Regression:
    numbers = (1.0,) * len(names)
    return Regression(names, (0.0,) * len(names), numbers, numbers, -1.0, 0.3)


CALIBRATION = Calibration(
    plain(SOURCE_EVIDENCE),
    plain(TARGET_EVIDENCE),
    plain(SEGMENT_EVIDENCE),
    plain(SEGMENT_EVIDENCE),
    plain(SHARE_EVIDENCE),
    damaged=0.5,
    segments=20,
    error=0.1,
)


def make(root: Path, calibration: Calibration | None, kind: str = "gdr") -> TrainedModel:
    sections = {"model": {"separator": {"kind": kind}}, "data": DATA | {"root": str(root)}}
    return replace(
        toy_trained(root, **sections, decode={"batch_tokens": 40}), calibration=calibration
    )


DATA = {
    "train": {"source": "train.src", "target": "train.tgt"},
    "valid": {"source": "valid.src", "target": "valid.tgt"},
    "max_tokens": 30,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def trained(root: Path) -> TrainedModel:
    return make(root, CALIBRATION)


def segment(source: str, target: str, line: int = 1, unchecked: str = "") -> Segment:
    return Segment("f", line, source, target, unchecked=unchecked)


TEXTS = [
    ("abcd ef g", "g ef abcd"),
    ("a", "b"),
    ("a  b", " b a "),
    ("ab漢字", "漢字 ab"),
    ("xyz Ω 🙂", "Ω\u00a0x ab"),
    ("AB\tCD", "\x1b[5m ab"),
]


@pytest.mark.parametrize(("source", "target"), TEXTS)
def test_judged_words_fit_the_displayed_ones(
    trained: TrainedModel, source: str, target: str
) -> None:
    (found,) = check_segments(trained, [segment(source, target)])
    assert isinstance(found, CheckedSegment)
    for side, text in ((found.source, source), (found.target, target)):
        assert len(side.words) == len(side.probabilities) > 0
        assert all(word.text for word in side.words)
        assert all(0 < each < 1 for each in (*side.probabilities, side.any))
        assert "".join(word.text for word in side.words).replace("⁇", "") or "Ω" in text
    for kind, side in (("omission", found.source), ("addition", found.target)):
        everything = side.runs(kind, 0.0)
        assert [(run.start, run.stop) for run in everything] == [(0, len(side.words))]


def test_plain_words_are_shown_as_they_are_written(trained: TrainedModel) -> None:
    (found,) = check_segments(trained, [segment("abcd  xyz g", "Ωω ef")])
    assert isinstance(found, CheckedSegment)
    texts = [[word.text for word in side.words] for side in (found.source, found.target)]
    assert texts == [["abcd", "xyz", "g"], ["Ωω", "ef"]]
    assert found.source.runs("omission", 0.0)[0].characters == (0, 11)


def test_order_is_kept_and_the_company_does_not_matter(
    trained: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "_SEGMENTS_AT_ONCE", 3)
    stream: list[Segment | Damage] = []
    for number, texts in enumerate(TEXTS * 2):
        stream.append(segment(*texts, line=number))
        if number % 3 == 1:
            stream.append(Damage("f", number, "odd"))
        if number % 4 == 1:
            stream.append(segment("a", "b", number, "fuzzy"))
    found = list(check_segments(trained, iter(stream)))
    assert [each.segment if isinstance(each, CheckedSegment) else each for each in found] == stream
    assert sum(isinstance(each, CheckedSegment) for each in found) == 2 * len(TEXTS)
    for each in found:
        if isinstance(each, CheckedSegment):
            (alone,) = Checker([trained], 40).check([each.segment])
            assert isinstance(alone, CheckedSegment)
            assert alone.source.probabilities == pytest.approx(each.source.probabilities, abs=1e-4)
            assert alone.target.any == pytest.approx(each.target.any, abs=1e-4)


def test_segments_are_judged_as_they_are_read(
    trained: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "_SEGMENTS_AT_ONCE", 2)
    read: list[int] = []

    def stream():
        for line in range(9):
            read.append(line)
            yield segment("a", "b", line)

    first = next(check_segments(trained, stream()))
    assert isinstance(first, CheckedSegment) and read == [0, 1]


def test_what_is_not_judged_says_why(trained: TrainedModel) -> None:
    long = " ".join(["ab"] * 40)
    given = {
        "empty": [("", "a"), ("a", " "), ("\t", "\u3000"), ("a", "\u2581")],
        "too long": [(long, "a"), ("a", long)],
    }
    for reason, texts in given.items():
        for pair in texts:
            (found,) = check_segments(trained, [segment(*pair)])
            assert found == segment(*pair, unchecked=reason), pair
    known = segment("a", long, unchecked="fuzzy")
    damage = Damage("f", 3, "odd")
    assert list(check_segments(trained, [known, damage])) == [known, damage]
    assert list(check_segments(trained, [])) == []


def test_the_longest_segment_is_that_of_the_reader(root: Path, trained: TrainedModel) -> None:
    assert Checker([trained], 40).reader.longest == 40
    small = Checker([trained], 1)
    assert small.reader.longest == 31, "as long as those that the model was trained on"


def test_what_is_expected_moves_probabilities_one_way(trained: TrainedModel) -> None:
    rows = []
    for share in (0.001, 0.01, 0.1, 0.5, 0.99):
        (found,) = check_segments(trained, [segment(*TEXTS[0])], share)
        assert isinstance(found, CheckedSegment)
        sides = found.source, found.target
        rows.append([p for side in sides for p in (*side.probabilities, side.any)])
    for low, high in pairwise(rows):
        assert all(a < b for a, b in zip(low, high, strict=True))


def test_models_that_cannot_judge_are_refused_with_the_cure(root: Path) -> None:
    with pytest.raises(UntoldError, match=r"the model is not calibrated.*run untold calibrate"):
        Checker([make(root, None)], 40)
    with pytest.raises(UntoldError, match="does not separate past and future"):
        Checker([make(root, None, "none")], 40)


def test_of_an_ensemble_the_first_calibrated_model_judges(root: Path) -> None:
    bare, good = make(root, None), make(root, CALIBRATION)
    found = Checker([bare, good], 40)
    assert found.model is good and isinstance(found.reader, PairReader)
