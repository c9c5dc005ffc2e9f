"""The model that comes with the package: it is small, whole, calibrated, and translates."""

import pytest

from untold import load
from untold.embedded import EXAMPLES, embedded_model

LIMIT = 4_000_000  # bytes


@pytest.fixture(scope="module")
def translator():
    return load(embedded_model())


def test_it_is_small():
    assert sum(file.stat().st_size for file in embedded_model().rglob("*")) < LIMIT


def test_it_names_no_folder_of_the_machine_that_trained_it():
    config = (embedded_model() / "config.json").read_text(encoding="utf-8")
    assert '"/' not in config


def test_it_separates_and_is_calibrated(translator):
    assert translator.separates and translator.models[0].calibration is not None


def test_it_knows_what_is_told_and_what_is_untold(translator):
    told = translator.translate(EXAMPLES[0], assignments=True)
    future = told.assignments[:, :-1, 1]
    assert future[0].mean() > 0.7 and future[-1].mean() < 0.2


@pytest.mark.parametrize("source", EXAMPLES)
def test_examples_are_translated_to_their_end(translator, source):
    text = translator.translate(source).text
    assert text.endswith(source.split()[-1]) and len(text.split()) > 0.6 * len(source.split())
