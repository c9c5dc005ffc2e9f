"""docs/extend.md, "A loss", followed to the letter: a package with a loss of its own."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from toys import compute_losses, log_columns, records, separator, toy_batch, toy_model, weights
from untold.config import TrainConfig
from untold.errors import UntoldError
from untold.training.losses.loss import Loss
from untold.training.losses.objective import LOSSES, Objective

DOCS = Path(__file__).parents[4] / "docs"
EXTEND = (DOCS / "extend.md").read_text(encoding="utf-8")
RECIPE = EXTEND.partition("## A loss")[2].partition("\n## ")[0]
GDR = {"separator": {"kind": "gdr", "past": 1, "future": 2, "redundant": 1, "d_capsule": 3}}
STEPS = {"steps": 6, "save_every": 6, "log_every": 3, "validate_every": 6}
BATCH = toy_batch([(4, 6), (1, 0), (3, 5)])


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", RECIPE, flags=re.DOTALL)


def forget():
    """Lets the registry look for installed packages again."""
    LOSSES.__dict__.pop("_entry_points", None)
    LOSSES._found.pop("entropy", None)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package of the recipe, as if pip had installed it; returns the weights of the recipe."""
    (code,) = blocks("python")
    entry_points, config = (tomllib.loads(block) for block in blocks("toml"))
    site = tmp_path / "site"
    (site / "my_losses-1.0.dist-info").mkdir(parents=True)
    (site / "entropy_loss.py").write_text(code)
    (site / "my_losses-1.0.dist-info" / "METADATA").write_text("Name: my-losses\nVersion: 1.0\n")
    ((group, rows),) = entry_points["project"]["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {place}" for name, place in rows.items())]
    (site / "my_losses-1.0.dist-info" / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(site))
    forget()
    yield config["train"]["losses"]
    forget()
    sys.modules.pop("entropy_loss", None)


def settings(**changes):
    return TrainConfig.model_validate(
        {"bow_share": 1.0, "vocabulary_share": 1.0, "counterfactual": 0.0} | changes
    )


def test_a_run_logs_the_loss_and_learns_from_it(start, tmp_path, installed):
    assert installed == {"entropy": 0.1}
    runs = {"with": installed, "hardly": {"entropy": 1e-9}, "without": {}, "zero": {"entropy": 0.0}}
    for name, losses in runs.items():
        start(tmp_path / name, model=GDR, train=STEPS | {"losses": losses})
    found = {name: records(tmp_path / name, "train") for name in runs}
    columns = list(found["with"][0])
    assert columns[columns.index("cut_links") + 1] == "entropy"
    assert 0 < found["with"][1]["entropy"] < 0.99 * found["hardly"][1]["entropy"]
    assert "entropy" not in found["without"][0] and "entropy" not in found["zero"][0]
    ends = {name: weights(tmp_path / name / "checkpoints" / "step-00000006") for name in runs}
    for name, tensor in ends["without"].items():
        assert torch.equal(tensor, ends["zero"][name]), "a loss without weight changes nothing"


def test_the_value_is_the_entropy(installed):
    model = toy_model(separator=separator("gdr-dot")).double()
    found = compute_losses(model, BATCH, settings(losses=installed), 1)
    shares = model(BATCH.source, BATCH.source_mask, BATCH.prefix).separated.shares
    expected = 0.0
    for b, t in BATCH.target_mask.nonzero().tolist():
        for i in range(int(BATCH.source_mask[b].sum()) - 1):
            expected -= sum(float(p) * float(p.log()) for p in shares[b, t, i].detach())
    assert float(found.parts["entropy"]) == pytest.approx(expected, rel=1e-6)
    without = compute_losses(model, BATCH, settings(), 1)
    added = float(found.total.detach()) - float(without.total.detach())
    assert added == pytest.approx(0.1 * expected, rel=1e-6)


def test_it_applies_where_it_says_so_and_waits_for_the_ramp(installed):
    assert "entropy" not in log_columns(toy_model(), settings(losses=installed))
    model = toy_model(separator=separator("gdr-dot"))
    later = settings(losses=installed, auxiliary_start=3)
    assert "entropy" in log_columns(model, later)
    assert "entropy" not in compute_losses(model, BATCH, later, 3).parts
    assert "entropy" in compute_losses(model, BATCH, later, 4).parts
    frozen = settings(losses=installed, freeze_backbone=True, best_by="loss")
    assert log_columns(model, frozen)[-1] == "entropy"


def test_an_unknown_name_is_refused_with_the_known_ones(installed):
    with pytest.raises(UntoldError, match=r"train\.losses: unknown loss entropi; did you mean ent"):
        Objective(toy_model(), settings(losses={"entropi": 0.1}))


def test_without_the_package_its_name_is_unknown_before_anything_is_written(start, tmp_path):
    with pytest.raises(UntoldError, match=r"train\.losses: unknown loss entropy.*known: nll, bow"):
        start(tmp_path / "run", train={"losses": {"entropy": 0.1}})
    assert not any(tmp_path.iterdir())


def test_a_shipped_loss_has_a_key_of_its_own():
    with pytest.raises(UntoldError, match=r"train\.losses\.bow: .* key of its own in \[train\]"):
        Objective(toy_model(), settings(losses={"bow": 0.1}))


def test_a_class_must_have_the_name_under_which_it_is_registered():
    class Misnamed(Loss):
        name = "other"

        def value(self, context):
            return context.outputs.states.sum()

    LOSSES.add("mine", Misnamed)
    try:
        with pytest.raises(UntoldError, match=r"losses\.mine: the class Misnamed calls itself oth"):
            Objective(toy_model(), settings(losses={"mine": 0.1}))
    finally:
        LOSSES.remove("mine")


def test_every_shipped_loss_is_registered_under_its_column():
    assert [LOSSES[name].name for name in LOSSES.names] == list(LOSSES.names)
    page = (DOCS / "past-future.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (?:1|`\w+`) \|", page, flags=re.MULTILINE)
    assert rows == list(LOSSES.names), "the table of the docs is in the order of the log"
