"""Whole runs with sequence-level training: resumed bit for bit, and nothing where it is off."""

import math
import sys
from dataclasses import replace

import pytest
import torch

from toys import checkpoint_contents, records, weights
from untold.corpus.batching import PairsInMemory
from untold.corpus.store import open_store
from untold.errors import UntoldError
from untold.files import new_directory
from untold.interruption import Interrupted
from untold.storage.model_directory import load_model, read_tensors
from untold.training.distributed import ProcessGroup
from untold.training.log import NullReporter
from untold.training.losses.objective import Objective
from untold.training.progress import Progress
from untold.training.sequence.objective import SequenceObjective
from untold.training.trainer import Hooks, RunContext, Trainer, make_optimizer

STEPS = {"steps": 3, "save_every": 3, "log_every": 1, "batch_tokens": 30}
STEPS |= {"validate_every": 99, "best_by": "loss"}
SHORT = {"max_tokens": 10}
KINDS = {
    "reinforce": {"kind": "reinforce", "reward": "gleu", "baseline": "self_critical"},
    "mrt": {"kind": "mrt", "reward": "bleu", "reference": True},
    "actor_critic": {"kind": "actor_critic", "reward": "rouge"},
    "discriminator": {"kind": "reinforce", "reward": "chrf", "discriminator": True},
}


def sections(**sequence):
    return {"data": SHORT, "train": STEPS | {"sequence": {"samples": 2} | sequence}}


def end(out):
    return out / "checkpoints" / "step-00000003"


@pytest.mark.parametrize("name", KINDS)
def test_a_run_in_pieces_is_one_in_one_go_bit_for_bit(start, tmp_path, name):
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    start(whole, **sections(**KINDS[name]))
    result, _ = start(pieces, stop_after=1, **sections(**KINDS[name]))
    assert result.progress.step == 2
    start(pieces, **sections(**KINDS[name]))
    assert checkpoint_contents(end(whole)) == checkpoint_contents(end(pieces))


def test_without_it_or_with_none_of_it_in_the_mix_training_is_plain(start, tmp_path):
    start(tmp_path / "plain", data=SHORT, train=STEPS)
    start(tmp_path / "none", **sections(kind="none", samples=3))
    start(tmp_path / "no-mix", **sections(kind="mrt", mix=0.0))
    start(tmp_path / "some", **sections(kind="mrt", mix=0.1))
    expected = checkpoint_contents(end(tmp_path / "plain"))
    assert checkpoint_contents(end(tmp_path / "none")) == expected
    assert checkpoint_contents(end(tmp_path / "no-mix")) == expected
    some = checkpoint_contents(end(tmp_path / "some"))
    assert some["model.safetensors"] != expected["model.safetensors"]


@pytest.mark.parametrize(("name", "judge"), [("actor_critic", "critic"), ("discriminator",) * 2])
def test_judges_are_saved_with_the_optimizer_and_are_no_part_of_the_model(
    start, corpus, tmp_path, name, judge
):
    start(tmp_path, **sections(**KINDS[name]))
    assert not [key for key in weights(end(tmp_path)) if "judge" in key or judge in key]
    stored = read_tensors(end(tmp_path) / "optimizer.safetensors")
    trained = load_model(tmp_path)
    fresh = SequenceObjective(trained).judges.named_parameters()
    for key, parameter in fresh:
        name = f"judges.{key}"
        assert stored[f"weight/{name}"].shape == parameter.shape
        assert {f"exp_avg/{name}", f"exp_avg_sq/{name}", f"step/{name}"} <= stored.keys()
        if key.endswith("hidden.weight"):
            assert not torch.equal(stored[f"weight/{name}"], parameter), "it has learnt"
    assert sum(key.startswith("weight/") for key in stored) == len(list(trained_judges(trained)))


def trained_judges(trained):
    return SequenceObjective(trained).judges.parameters()


def test_figures_are_logged(start, tmp_path):
    start(tmp_path, **sections(**KINDS["actor_critic"]))
    logged = records(tmp_path, "train")
    assert [record["step"] for record in logged] == [1, 2, 3]
    for record in logged:
        assert {"loss", "nll", "sequence", "reward", "critic"} <= record.keys()
        assert 0 <= record["reward"] <= 1


def test_a_run_does_not_go_on_with_another_reward_or_estimator(start, tmp_path):
    start(tmp_path, stop_after=1, **sections(**KINDS["mrt"]))
    with pytest.raises(UntoldError, match=r"train\.sequence\.reward: bleu -> chrf"):
        start(tmp_path, **sections(**KINDS["mrt"] | {"reward": "chrf"}))


def test_a_checkpoint_without_the_judges_is_refused_by_name(start, tmp_path):
    start(tmp_path, stop_after=1, **sections(kind="reinforce"))
    with pytest.raises(UntoldError, match=r"optimizer\.safetensors lacks judges\.critic\."):
        start(tmp_path, allow_changed=True, **sections(kind="actor_critic"))


def test_judges_have_their_own_group_and_everyone_s_gradients(start, corpus, tmp_path):
    """All processes add up what judges are to learn, as they do for the model."""
    start(tmp_path, **sections(**KINDS["actor_critic"]))
    trained = load_model(tmp_path)
    goal = SequenceObjective(trained)
    summed = []

    class OneOfTwo(ProcessGroup):
        def all_reduce_sum(self, values, device):
            return list(values)

        def sum_gradients(self, parameters):
            summed.extend(parameters)

    setting = RunContext(OneOfTwo(0, 2), NullReporter(tmp_path, 9), Interrupted())
    nothing = PairsInMemory(())
    Trainer(trained, make_optimizer(trained, goal), nothing, setting, Hooks(objective=goal)).update(
        Progress(step=1), []
    )
    learning = [*trained.model.parameters(), *goal.judges.parameters()]
    assert list(map(id, summed)) == list(map(id, learning)) != []
    groups = make_optimizer(trained, goal).param_groups
    assert [(group["factor"], "judges" in group) for group in groups] == [(1.0, False), (1.0, True)]


def test_a_run_can_start_from_a_plain_one(start, corpus, tmp_path):
    start(tmp_path / "plain", data=SHORT, train=STEPS)
    _, lines = start(tmp_path / "mrt", init=tmp_path / "plain", **sections(**KINDS["mrt"]))
    assert any("tensors taken over" in line and "new" not in line for line in lines)


NOWHERE = {"kind": "reinforce", "reward": "nowhere:f"}
BY_CDR = {"kind": "reinforce", "reward": "cdr", "aligner": "no/such/aligner"}


@pytest.mark.parametrize(
    ("sequence", "message"), [(NOWHERE, "No module named 'nowhere'"), (BY_CDR, "no/such/aligner")]
)
def test_a_reward_that_is_not_there_is_known_before_anything_is_written(
    start, tmp_path, sequence, message
):
    with pytest.raises(UntoldError, match=message):
        start(tmp_path / "run", **sections(**sequence))
    assert not any(tmp_path.iterdir())


def test_a_missing_extra_is_known_before_anything_is_written(start, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "thot.alignment", None)  # as if it were not installed
    aligner = tmp_path / "aligner"
    with new_directory(aligner) as folder:
        (folder / "aligner.json").write_text("{}")
    with pytest.raises(UntoldError, match=r"untold\[align\]"):
        start(tmp_path / "run", **sections(**BY_CDR | {"aligner": str(aligner)}))
    assert list(tmp_path.iterdir()) == [aligner]


def test_what_is_not_asked_for_may_be_missing(start, tmp_path):
    result, _ = start(tmp_path, **sections(**BY_CDR | {"mix": 0.0}))
    assert result.progress.step == 3


class Trap(torch.nn.Module):
    """A judge whose gradient is as large as wanted."""

    def __init__(self, size):
        super().__init__()
        self.weight, self.size = torch.nn.Parameter(torch.zeros(())), size


class TrappedObjective(Objective):
    """The plain objective, and a judge beside it."""

    def __init__(self, trained, size):
        super().__init__(trained.model, trained.config.train)
        self.judges = Trap(size)

    def __call__(self, batch, step):
        losses = super().__call__(batch, step)
        return replace(losses, total=losses.total + self.judges.size * self.judges.weight)


@pytest.mark.parametrize("size", [1e6, math.inf])
def test_a_judge_is_clipped_by_its_own_norm_and_can_stop_an_update(start, tmp_path, size):
    """The model's gradient is that of a run without the judge; but one that is not finite skips."""
    start(tmp_path, data=SHORT, train=STEPS)
    norms = []
    for wanted in (0.0, size):
        trained = load_model(tmp_path)
        goal = TrappedObjective(trained, wanted)
        setting = RunContext(ProcessGroup(), NullReporter(tmp_path, 9), Interrupted())
        optimizer = make_optimizer(trained, goal)
        store = open_store(tmp_path / "corpus" / "train")
        trainer = Trainer(trained, optimizer, store, setting, Hooks(objective=goal))
        progress = trainer.run(Progress(step=2))
        norms.append([p.grad.norm() for p in trained.model.parameters()])
        assert progress.skipped == (not math.isfinite(wanted))
    if math.isfinite(size):
        assert all(torch.equal(one, other) for one, other in zip(*norms, strict=True))
        assert float(goal.judges.weight.grad) == pytest.approx(1.0)
