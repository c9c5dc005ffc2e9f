"""Settings of sequence-level training: what fits together, and what is said of the rest."""

import pytest

from untold.config import parse_config
from untold.errors import UntoldError


def parse(**sequence):
    return parse_config({"train": {"sequence": sequence}}).train.sequence


def test_it_is_off_unless_asked_for():
    assert not parse().is_on
    assert not parse(reward="cdr").is_on
    assert not parse(kind="mrt", mix=0.0).is_on
    assert parse(kind="mrt").is_on


@pytest.mark.parametrize("reward", ["bleu", "gleu", "chrf", "rouge", "cdr", "my.package:function"])
def test_rewards_that_are_known(reward):
    assert parse(kind="reinforce", reward=reward, aligner="there").reward == reward


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"reward": "bleau"}, r"train\.sequence\.reward = \"bleau\": .*did you mean bleu\?"),
        ({"reward": "ter"}, "unknown reward"),  # a rate of errors, and none for single sentences
        ({"reward": "a b"}, r"known: bleu, gleu, chrf, rouge, cdr, or package\.module:function"),
        ({"kind": "reinforce", "reward": "cdr"}, "give its path as aligner"),
        ({"kind": "mrt", "samples": 1}, "set samples to 2 or more"),
        ({"kind": "reinforce", "samples": 1}, 'baseline = "mean" compares samples'),
        ({"kind": "reinforce", "reference": True}, 'set reference = false, or kind = "mrt"'),
        ({"kind": "reinforced"}, "reinforce"),
        ({"mix": 1.5}, r"train\.sequence\.mix"),
        ({"rewards": "bleu"}, r"did you mean train\.sequence\.reward\?"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_cure(values, message):
    with pytest.raises(UntoldError, match=message):
        parse(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "mrt", "samples": 1, "reference": True},
        {"kind": "reinforce", "samples": 1, "baseline": "self_critical"},
        {"kind": "actor_critic", "samples": 1},
    ],
)
def test_what_fits(values):
    assert parse(**values).is_on


def test_a_frozen_backbone_has_nothing_to_learn_from_translations():
    values = {"freeze_backbone": True, "best_by": "loss", "sequence": {"kind": "mrt"}}
    with pytest.raises(UntoldError, match=r"set sequence\.kind = \"none\""):
        parse_config({"train": values})
