"""Calibrations: regressions that recover what is true, and a file that is whole or refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toys import toy_trained, write_corpus
from untold.errors import UntoldError, shorten
from untold.files import new_directory
from untold.storage.averaging import average_models
from untold.storage.calibration import (
    SEGMENT_EVIDENCE,
    SHARE_EVIDENCE,
    SOURCE_EVIDENCE,
    TARGET_EVIDENCE,
    Calibration,
    Regression,
    calibration_error,
    fit_regression,
    probability,
    reliability,
)
from untold.storage.model_directory import add_calibration, load_model, run_of, save_model

WEIGHTS, BIAS = np.array([1.5, -1.0, 0.0]), -1.0
NAMES = ("a", "b", "c")


def regression(names: tuple[str, ...], prior: float = 0.25) -> Regression:
    """Numbers that no short decimal writes exactly."""
    numbers = tuple(float(np.sqrt(2 + k)) for k in range(len(names)))
    return Regression(names, numbers, numbers[::-1], tuple(-x / 3 for x in numbers), -1 / 3, prior)


CALIBRATION = Calibration(
    omitted=regression(SOURCE_EVIDENCE, 0.1),
    added=regression(TARGET_EVIDENCE, 0.2),
    has_omission=regression(SEGMENT_EVIDENCE, 0.5),
    has_addition=regression(SEGMENT_EVIDENCE, 0.4),
    by_shares=regression(SHARE_EVIDENCE, 0.1),
    damaged=0.5,
    segments=123,
    error=0.0123456789,
)


def sample(count: int, seed: int, bias: float = BIAS) -> tuple[np.ndarray, np.ndarray]:
    """Evidence of several means and widths, and labels that follow WEIGHTS."""
    generator = np.random.default_rng(seed)
    standard = generator.normal(size=(count, 3))
    labels = generator.random(count) < probability(standard @ WEIGHTS + bias)
    return standard * [1.0, 10.0, 0.1] + [0.0, 5.0, -3.0], labels


def test_known_weights_are_recovered_and_calibrated_on_new_data() -> None:
    found = fit_regression(NAMES, *sample(8000, 1))
    np.testing.assert_allclose(found.weights, WEIGHTS, atol=0.12)
    np.testing.assert_allclose(found.scales, [1, 10, 0.1], rtol=0.05)
    np.testing.assert_allclose(found.means, [0, 5, -3], atol=0.3)
    evidence, labels = sample(8000, 2)
    chances = probability(found.log_odds(evidence, found.prior))
    assert calibration_error(chances, labels) < 0.02
    wrong = probability(3 * found.log_odds(evidence, found.prior))
    assert calibration_error(wrong, labels) > 0.05, "the control: too sure of itself"


def test_another_prevalence_is_what_the_prior_says() -> None:
    """The same words of either kind, but few positives: label shift."""
    found = fit_regression(NAMES, *sample(8000, 1))
    evidence, labels = sample(40_000, 2)
    kept = ~labels | (np.random.default_rng(3).random(len(labels)) < 0.1)
    evidence, labels = evidence[kept], labels[kept]
    share = float(labels.mean())
    assert share < found.prior / 4
    shifted = probability(found.log_odds(evidence, share))
    assert calibration_error(shifted, labels) < 0.01
    assert abs(float(shifted.mean()) - share) < 0.01
    unshifted = probability(found.log_odds(evidence, found.prior))
    assert calibration_error(unshifted, labels) > 0.1, "the control: the prior it was learnt with"
    more = found.log_odds(evidence, 0.9)
    assert (more > found.log_odds(evidence, 0.5)).all()


def test_words_are_rarer_in_a_text_with_less_damage() -> None:
    """Each kind of words by the share of damage that it was learnt with."""
    row = np.zeros((1, len(SOURCE_EVIDENCE)))
    same = CALIBRATION.omitted.log_odds(row, 0.1 * 0.2 / 0.5)
    assert CALIBRATION.words(CALIBRATION.omitted, row, 0.2) == pytest.approx(same)
    row = np.zeros((1, len(TARGET_EVIDENCE)))
    same = CALIBRATION.added.log_odds(row, 0.2 * 0.2 / 0.4)
    assert CALIBRATION.words(CALIBRATION.added, row, 0.2) == pytest.approx(same)


@given(
    st.integers(0, 2**32),
    st.integers(4, 300),
    st.sampled_from(["normal", "rare", "heavy", "constant"]),
    st.booleans(),
)
def test_the_mean_probability_is_the_share_whatever_the_data(
    seed: int, count: int, kind: str, separable: bool
) -> None:
    """Which holds at the minimum alone, since the bias has no penalty."""
    generator = np.random.default_rng(seed)
    evidence = generator.normal(size=(count, 3))
    if kind == "rare":
        evidence = (generator.random((count, 3)) < 0.03).astype(float)
    elif kind == "heavy":
        evidence = np.exp(4 * evidence)
    elif kind == "constant":
        evidence[:, 0] = 0.1
    labels = evidence[:, 1] > 1 if separable else generator.random(count) < 0.05
    if labels.all() or not labels.any():
        return
    found = fit_regression(NAMES, evidence, labels)
    chances = probability(found.log_odds(evidence, found.prior))
    assert float(chances.mean()) == pytest.approx(float(labels.mean()), abs=1e-5)


def test_evidence_that_never_changed_does_not_drown_the_rest() -> None:
    evidence, labels = sample(500, 1)
    evidence[:, 2] = 0.1 + 1e-9 * np.arange(500)
    found = fit_regression(NAMES, evidence, labels)
    evidence[:, 2] = 1.0
    assert np.abs(found.log_odds(evidence, found.prior)).max() < 10


@pytest.mark.parametrize("label", [True, False])
def test_one_label_alone_is_an_error(label: bool) -> None:
    with pytest.raises(UntoldError, match="needs damaged and intact words: give more text"):
        fit_regression(NAMES, np.ones((4, 3)), np.full(4, label))


def test_reliability_by_hand() -> None:
    chances = np.array([0.0, 0.05, 0.92, 0.98, 1.0])
    truth = np.array([False, True, True, True, False])
    low, high = reliability(chances, truth)
    assert (low.count, low.said, low.true) == (2, pytest.approx(0.025), 0.5)
    assert (high.count, high.said, high.true) == (3, pytest.approx(2.9 / 3), pytest.approx(2 / 3))
    expected = (2 * 0.475 + 3 * (2.9 - 2) / 3) / 5
    assert calibration_error(chances, truth) == pytest.approx(expected)
    assert calibration_error(np.zeros(0), np.zeros(0, bool)) == 0


def test_json_is_read_as_it_was_written() -> None:
    assert Calibration.from_json(CALIBRATION.to_json(), "f") == CALIBRATION
    made = fit_regression(SEGMENT_EVIDENCE, *_four(sample(50, 1)))
    other = replace(CALIBRATION, has_omission=made)
    assert Calibration.from_json(other.to_json(), "f") == other


def _four(drawn: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([drawn[0], drawn[0][:, :1]], axis=1), drawn[1]


def places(values: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside nested JSON."""
    if not isinstance(values, (dict, list)):
        return [path]
    keys = values.keys() if isinstance(values, dict) else range(len(values))
    return [path, *(each for key in keys for each in places(values[key], (*path, key)))][
        0 if path else 1 :
    ]


VALUES = json.loads(CALIBRATION.to_json())
PLACES = places(VALUES)
STRANGE = ["0.5", None, True, [], {}, float("nan"), float("inf"), -1e300, 10**400, "\x1b[5m\n"]


def change(path: tuple[Any, ...], edit: Callable[[Any, Any], None]) -> str:
    values = json.loads(CALIBRATION.to_json())
    parent = values
    for key in path[:-1]:
        parent = parent[key]
    edit(parent, path[-1])
    return json.dumps(values)


def refuse(text: str) -> None:
    with pytest.raises(UntoldError, match=r"^dir/calibration.json: not a calibration") as caught:
        Calibration.from_json(text, "dir/calibration.json")
    assert str(caught.value).endswith("make it again with untold calibrate")
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: shorten(repr(value), 20))
def test_a_strange_value_anywhere_is_refused(value: object) -> None:
    assert len(PLACES) > 100
    for path in PLACES:
        refuse(change(path, lambda parent, key: parent.__setitem__(key, value)))


def test_a_missing_or_extra_value_anywhere_is_refused() -> None:
    for path in PLACES:
        refuse(change(path, lambda parent, key: parent.__delitem__(key)))
    for name in ("means", "scales", "weights", "names"):
        refuse(change(("added", name), lambda parent, key: parent[key].append(1.0)))
    refuse(change(("more",), lambda parent, key: parent.__setitem__(key, 1)))


def test_a_file_cut_anywhere_is_refused() -> None:
    text = CALIBRATION.to_json().rstrip("\n")
    for stop in range(0, len(text), 7):
        refuse(text[:stop])
    for text in ("[]", "3", "null", '"x"', "[" * 100_000, "{}", '{"format": 1}'):
        refuse(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 2),
        (("damaged",), 0.0),
        (("damaged",), 1.0),
        (("error",), 1.1),
        (("segments",), 0),
        (("segments",), 2.5),
        (("omitted", "prior"), 0),
        (("added", "prior"), 1),
        (("added", "scales", 0), 0.0),
        (("added", "scales", 0), -1.0),
        (("omitted", "names", 0), "future"),
        (("has_omission", "names"), [*SEGMENT_EVIDENCE[::-1]]),
    ],
)
def test_values_beyond_their_limits_are_refused(path: tuple[Any, ...], value: object) -> None:
    refuse(change(path, lambda parent, key: parent.__setitem__(key, value)))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def saved(root: Path, tmp_path: Path) -> Path:
    save_model(tmp_path / "model", toy_trained(root, model={"separator": {"kind": "gdr"}}))
    return tmp_path / "model"


def contents(directory: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in directory.iterdir()}
    del found["MANIFEST.json"]
    return found


def test_a_calibration_is_one_more_file_that_loads(saved: Path) -> None:
    before = contents(saved)
    assert load_model(saved).calibration is None
    add_calibration(saved, CALIBRATION)
    assert load_model(saved).calibration == CALIBRATION
    assert load_model(saved, with_calibration=False).calibration is None
    after = contents(saved)
    assert after.pop("calibration.json") and after == before
    other = replace(CALIBRATION, segments=5)
    add_calibration(saved, other)
    assert load_model(saved).calibration == other


def test_saving_a_calibrated_model_changes_no_weight(saved: Path, tmp_path: Path) -> None:
    before = contents(saved)
    save_model(tmp_path / "again", replace(load_model(saved), calibration=CALIBRATION))
    after = contents(tmp_path / "again")
    del after["calibration.json"]
    assert after == before
    assert load_model(tmp_path / "again").calibration == CALIBRATION


def test_what_else_a_directory_holds_stays_there(saved: Path) -> None:
    """As in a checkpoint, which could not be resumed without its optimizer."""
    with new_directory(saved, replace=True) as directory:
        for name, data in contents(saved).items():
            (directory / name).write_bytes(data)
        (directory / "optimizer.safetensors").write_bytes(b"moments")
        (directory / "deep").mkdir()
        (directory / "deep" / "file").write_bytes(b"x")
    add_calibration(saved, CALIBRATION)
    assert (saved / "optimizer.safetensors").read_bytes() == b"moments"
    assert (saved / "deep" / "file").read_bytes() == b"x"
    assert load_model(saved).calibration == CALIBRATION


def test_a_flipped_byte_is_refused(saved: Path) -> None:
    add_calibration(saved, CALIBRATION)
    file = saved / "calibration.json"
    file.write_text(file.read_text().replace("123", "124"))
    with pytest.raises(UntoldError, match=r"calibration\.json has changed"):
        load_model(saved)
    file.unlink()
    with pytest.raises(UntoldError, match=r"calibration\.json is missing"):
        load_model(saved)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b'{"format": 9}'])
def test_a_damaged_file_under_a_good_seal_is_named(saved: Path, data: bytes) -> None:
    with new_directory(saved, replace=True) as directory:
        for name, own in contents(saved).items():
            (directory / name).write_bytes(own)
        (directory / "calibration.json").write_bytes(data)
    with pytest.raises(UntoldError, match=r"calibration\.json"):
        load_model(saved)
    assert load_model(saved, with_calibration=False).calibration is None


def test_an_average_has_no_calibration(saved: Path) -> None:
    add_calibration(saved, CALIBRATION)
    assert average_models([saved]).calibration is None
    assert average_models([saved, saved]).calibration is None


def test_models_know_their_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_of(tmp_path / "run" / "best" / "step-00000002") == tmp_path / "run"
    assert run_of(tmp_path / "run" / "checkpoints" / "step-00000002") == tmp_path / "run"
    assert run_of(tmp_path / "model") is None
    (tmp_path / "best").mkdir()
    monkeypatch.chdir(tmp_path / "best")
    assert run_of(Path("step-00000004")) == tmp_path
