"""What is done is not done again; whatever changes a result makes it again."""

import shutil
import signal
from dataclasses import replace

import pytest
import torch

from tiny_scale import SCALE
from untold import load
from untold.errors import InUseError
from untold.lab import runner as module
from untold.lab.corpora import find_corpus
from untold.lab.runner import Job, Plan, TranslationJob, Workshop
from untold.lab.systems import SYSTEMS
from untold.training.trainer import Trainer


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


def test_kept_results_need_no_model(make, trained, tmp_path):
    """Their folder alone makes a table again, in another place; new questions train again."""
    job, first = Job(SYSTEMS["control"]), make()
    test = first.plan.corpus.known.tests[0]
    texts = first.translations(job, test)
    assert trained == ["transformer-1", "control-1"]
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "results", elsewhere / "results")
    shutil.copytree(tmp_path / "data", elsewhere / "data")
    corpus = find_corpus("grammar-en-de", None, elsewhere, pairs=40, sentences=3)
    again = make(out=elsewhere, corpus=corpus)
    again.train([job.system])
    assert again.hash(job) == first.hash(job) and again.translations(job, test) == texts
    assert len(trained) == 2
    again.translate([TranslationJob(job, ["another line"])])
    assert trained[2:] == ["transformer-1", "control-1"]


def test_a_trained_model_whose_results_are_gone_is_not_trained_again(make, trained, tmp_path):
    make().train([SYSTEMS["transformer"]])
    shutil.rmtree(tmp_path / "results")
    make().train([SYSTEMS["transformer"]])
    assert trained == ["transformer-1"]


def test_a_run_that_was_stopped_goes_on_even_if_its_results_are_kept(make, monkeypatch):
    """Results that were copied from elsewhere do not make half a model a whole one."""
    job, first = Job(SYSTEMS["transformer"]), make()
    first.train([job.system])
    run = first.plan.out / "runs" / job.name
    whole = load(run).models[0].model.state_dict()
    shutil.rmtree(run)
    update = Trainer.update

    def stop_after_update(trainer, *given):
        signal.raise_signal(signal.SIGTERM)
        return update(trainer, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", stop_after_update)
        with pytest.raises(SystemExit, match="143"):
            make().run(job)
    assert run.exists()
    again = load(make().run(job)).models[0].model.state_dict()
    assert all(torch.equal(again[name], whole[name]) for name in whole)


def test_another_training_text_is_another_system(make):
    before, corpus = make().hash(Job(SYSTEMS["control"])), make().plan.corpus
    path = corpus.training_paths()[1]
    lines = path.read_text(encoding="utf-8").split("\n")
    path.write_text("\n".join(["changed", *lines[1:]]), encoding="utf-8")
    assert make().hash(Job(SYSTEMS["control"])) != before


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


def test_systems_have_hashes_of_their_own(make):
    workshop = make()
    hashes = {workshop.hash(Job(system)) for system in SYSTEMS.values()}
    assert len(hashes) == len(SYSTEMS)


@pytest.mark.parametrize(("control", "system"), [("wide", "both"), ("wide-ours", "ours")])
def test_a_wide_control_has_as_many_parameters(control, system, make):
    workshop = make()
    wide, other, plain = (
        module._parameters(workshop.config(Job(SYSTEMS[name])), 200)
        for name in (control, system, "transformer")
    )
    assert plain < wide and abs(wide - other) < 0.01 * other


def test_a_widened_model_translates_as_before(make, trained):
    workshop = make()
    workshop.train([SYSTEMS["wide"]])
    assert trained == ["transformer-1", "wide-1"]
    plain = workshop.load(Job(SYSTEMS["transformer"])).models[0].model
    wide = load(workshop.plan.out / "runs" / "wide-start").models[0].model
    batch = torch.randint(4, 200, (3, 7)), torch.randint(4, 200, (3, 5))
    before, after = (_logits(model, *batch) for model in (plain, wide))
    assert sum(p.numel() for p in wide.parameters()) > sum(p.numel() for p in plain.parameters())
    assert torch.allclose(before, after, atol=1e-5)


def test_what_another_process_trains_is_left_to_it(make, trained, monkeypatch):
    """The other process is at the control when this one begins; it ends while this one waits."""
    other, this = make(), make(seeds=2)
    other.run(Job(SYSTEMS["transformer"]))
    monkeypatch.setattr(module.time, "sleep", lambda _: other.run(Job(SYSTEMS["control"])))
    real = this.run
    busy = lambda job: _in_use() if job.name == "control-1" else real(job)  # noqa: E731
    monkeypatch.setattr(this, "run", busy)
    this.train([SYSTEMS["control"]])
    assert trained == ["transformer-1", "control-2", "control-1"]
    assert any("waiting" in line for line in this.said)


def test_what_another_process_translates_is_left_to_it(make, monkeypatch):
    """The other process is at the first text when this one begins; it ends while this one waits."""
    other, this, job = make(), make(), Job(SYSTEMS["transformer"])
    texts = [TranslationJob(job, [line]) for line in ("the first text", "the second text")]
    made, plain, lock = [], Workshop._translate, module.lock_directory
    busy = []

    def translate(workshop, wanted, begun):
        made.append((workshop, wanted))
        return plain(workshop, wanted, begun)

    def refuse_first(folder):
        busy.append(folder)
        return _in_use() if folder == busy[0] else lock(folder)

    def end_other(_):
        monkeypatch.setattr(module, "lock_directory", lock)
        other.translate(texts[:1])

    monkeypatch.setattr(Workshop, "_translate", translate)
    monkeypatch.setattr(module, "lock_directory", refuse_first)
    monkeypatch.setattr(module.time, "sleep", end_other)
    found = this.translate(texts)
    assert made == [(this, texts[1]), (other, texts[0])]
    assert found == [make().translate([each])[0] for each in texts] and len(made) == 2
    assert any("waiting" in line for line in this.said)


def test_main_systems_have_more_seeds(make):
    workshop = make(seeds=None, scale=replace(SCALE, seeds=3, other_seeds=2))
    counts = {name: len(workshop.seeds_of(SYSTEMS[name])) for name in ("both", "bow", "rnmt")}
    assert counts == {"both": 3, "bow": 2, "rnmt": 1}


def test_another_text_starts_from_the_same_models(make, trained):
    workshop = make()
    inner = workshop.with_corpus(workshop.plan.corpus, "changed")
    inner.train([SYSTEMS["control"]])
    assert trained == ["transformer-1", "control-1"]
    assert (workshop.plan.out / "runs" / "transformer-1").exists()
    assert (workshop.plan.out / "changed" / "runs" / "control-1").exists()


def _in_use():
    raise InUseError("in use")


@torch.no_grad()
def _logits(model, source, target):
    return model.logits(model(source, torch.ones_like(source, dtype=torch.bool), target).holistic)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_a_valid_configuration(name, make):
    config = make().config(Job(SYSTEMS[name], 2))
    assert config.train.seed == 2
