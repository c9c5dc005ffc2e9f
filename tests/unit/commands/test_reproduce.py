"""An item trains no more than it looks at."""

import pytest

from untold.commands.reproduce import reproduce


@pytest.mark.parametrize("item", ["speed", "figure4"])
def test_items_that_look_at_one_model_train_one(item, tmp_path, capsys):
    reproduce(item, seeds=3, out=tmp_path, plan=True)
    jobs = [line.partition(":")[0] for line in capsys.readouterr().out.strip().split("\n")]
    assert len(jobs) > 2 and all(name.endswith("-1") for name in jobs)


def test_other_items_train_all_seeds(tmp_path, capsys):
    reproduce("overlap", seeds=3, out=tmp_path, plan=True)
    text = capsys.readouterr().out
    assert all(f"both-{seed}: " in text for seed in (1, 2, 3))
