"""What is done is not done again; whatever changes a result makes it again."""

import pytest

from tiny_scale import SCALE
from untold.experiments import workshop as module
from untold.experiments.corpora import find_corpus
from untold.experiments.systems import SYSTEMS
from untold.experiments.workshop import Job, Plan, Workshop


@pytest.fixture
def make(tmp_path):
    corpus = find_corpus("grammar-en-de", None, tmp_path, pairs=40, sentences=3)
    said = []

    def made(**changes):
        values = {"corpus": corpus, "scale": SCALE, "seeds": 1, "out": tmp_path} | changes
        found = Workshop(Plan(**values), said.append)
        found.said = said
        return found

    return made


@pytest.fixture
def trained(monkeypatch):
    """Counts trainings."""
    names, plain = [], module.train
    monkeypatch.setattr(module, "train", lambda c, o: (names.append(o.out.name), plain(c, o))[1])
    monkeypatch.setattr("untold.training.run.calibrate_best", lambda *_, **__: None)
    return names


def test_a_trained_system_is_not_trained_again(make, trained):
    control = SYSTEMS["control"]
    make().train([control])
    assert trained == ["transformer-1", "control-1"]
    again = make()
    again.train([control])
    job = Job(control)
    first = again.translations(job, again.plan.corpus.known.tests[0])
    assert len(trained) == 2 and len(first) == 3
    assert make().translations(job, again.plan.corpus.known.tests[0]) == first


def test_other_settings_are_refused_in_the_same_folder_or_trained_anew(make, trained):
    make().train([SYSTEMS["transformer"]])
    assert make().hash(Job(SYSTEMS["transformer"])) != make(settings=("train.clip=2.0",)).hash(
        Job(SYSTEMS["transformer"])
    )
    with pytest.raises(Exception, match="clip"):
        make(settings=("train.clip=2.0",)).train([SYSTEMS["transformer"]])


def test_seeds_share_the_model_that_they_start_from(make):
    jobs = make(seeds=3).jobs([SYSTEMS["control"], SYSTEMS["both"]])
    assert [job.name for job in jobs] == [
        *("transformer-1", "control-1", "control-2", "control-3"),
        *("both-1", "both-2", "both-3"),
    ]
    assert {make().config(job).train.seed for job in jobs} == {1, 2, 3}


def test_the_wide_control_has_as_many_parameters(make):
    workshop = make()
    wide, both, plain = (
        module._parameters(workshop.config(Job(SYSTEMS[name])), 200)
        for name in ("wide", "both", "transformer")
    )
    assert plain < wide and abs(wide - both) < 0.01 * both


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_a_valid_configuration(name, make):
    config = make().config(Job(SYSTEMS[name], 2))
    assert config.train.seed == 2
