"""The systems that tables compare: what each changes, and which trained model it starts from.

All systems of the paper use its form (`preset = "paper"`, both losses with a weight of 1, exact
bags, nothing that this project added). `ours` is this project's default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

_RNMT = {"model.backbone": "rnmt"}
_PAPER_FORM = {
    "model.separator.kind": "gdr",
    "model.separator.preset": "paper",
    "train.bow_weight": 0.0,
    "train.bca_weight": 0.0,
    "train.ends_weight": 0.0,
    "train.counterfactual": 0.0,
    "train.separator_rate": 1.0,
}
_BAGS = {
    "train.bow_weight": 1.0,
    "train.bow_window": "paper",
    "train.bow_share": 1.0,
    "train.vocabulary_share": 1.0,
}
_AGREEMENT = {"train.bca_weight": 1.0}
_BOTH = {**_PAPER_FORM, **_BAGS, **_AGREEMENT}


@dataclass(frozen=True)
class System:
    """Describes one row of a table."""

    name: str  # of its runs' directories
    title: str
    settings: Mapping[str, object] = field(default_factory=dict)  # by dotted name, as in --set
    start: str | None = None  # the system whose trained model it starts from
    phase: Literal["base", "further", "recurrent", "sequence"] = "further"
    needs_aligner: bool = False
    same_size_as: str | None = None  # widened to as many parameters as this system has
    is_main: bool = False  # the paper's claims rest on it: it is trained with more seeds


def variant(of: str, name: str, title: str, **settings: object) -> System:
    """Returns a system with some settings of the separator changed."""
    system = SYSTEMS[of]
    changed = {f"model.separator.{key}": value for key, value in settings.items()}
    return replace(system, name=name, title=title, settings={**system.settings, **changed})


def _learning(
    name: str, title: str, reward: str, *, needs_aligner: bool = False, **more: object
) -> System:
    """Returns an RNMT that learns from whole translations; `more` are settings of that."""
    estimator = {"kind": "reinforce", "baseline": "mean"} if "kind" not in more else {}
    sequence = {**estimator, "reward": reward, "samples": 5, "mix": 0.9, **more}
    settings = _RNMT | {f"train.sequence.{key}": value for key, value in sequence.items()}
    return System(name, title, settings, "rnmt", "sequence", needs_aligner)


_ALL = [
    System("transformer", "Transformer", phase="base"),
    System("control", "Transformer, continued", start="transformer", is_main=True),
    System("wide", "Transformer, as many parameters", start="transformer", same_size_as="both"),
    System(
        "bags",
        "bags on the plain state",
        {"train.word_prediction": 1.0},
        start="transformer",
    ),
    System("gdr", "+ GDR", _PAPER_FORM, start="transformer", is_main=True),
    System("bow", "+ GDR + BoW", {**_PAPER_FORM, **_BAGS}, start="transformer"),
    System("bca", "+ GDR + BCA", {**_PAPER_FORM, **_AGREEMENT}, start="transformer"),
    System("both", "+ GDR + BoW + BCA", _BOTH, start="transformer", is_main=True),
    System(
        "no-redundant",
        "both, without redundant capsules",
        {**_BOTH, "model.separator.redundant": 0},
        start="transformer",
        is_main=True,
    ),
    System(
        "clf",
        "CLF + BoW + BCA",
        {**_BOTH, "model.separator.kind": "clf"},
        start="transformer",
    ),
    System(
        "attn",
        "ATTN + BoW + BCA",
        {**_BOTH, "model.separator.kind": "attn"},
        start="transformer",
    ),
    System("ours", "this project's default", {"model.separator.kind": "gdr"}, start="transformer"),
    System(
        "wide-ours",
        "Transformer, as many parameters as the default",
        start="transformer",
        same_size_as="ours",
    ),
    System("rnmt", "RNMT", _RNMT, phase="recurrent"),
    System("rnmt-control", "RNMT, continued", _RNMT, start="rnmt"),
    System(
        "rnmt-coverage",
        "RNMT + coverage (Tu et al.)",
        {**_RNMT, "model.attention_coverage": "neural"},
        start="rnmt",
    ),
    System("pfrnn", "PFRNN", {"model.backbone": "pfrnn"}, start="rnmt"),
    _learning("aol", "RNMT + AOL", "cdr", needs_aligner=True),
    _learning(
        "aol-judged", "RNMT + AOL by a discriminator", "cdr", discriminator=True, needs_aligner=True
    ),
    _learning("gnmt-rl", "RNMT + RL (GLEU)", "gleu"),
    _learning("mrt", "RNMT + MRT", "rouge", kind="mrt", samples=10, reference=True),
    _learning("ac-abs", "RNMT + AC-ABS", "rouge", kind="actor_critic"),
    System("copynet", "RNMT that copies", {**_RNMT, "model.copying": True}, start="rnmt"),
    System("rnmt-both", "RNMT + GDR + BoW + BCA", {**_RNMT, **_BOTH}, start="rnmt"),
]
SYSTEMS: dict[str, System] = {system.name: system for system in _ALL}
