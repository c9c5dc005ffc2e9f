"""What older versions wrote: settings that are gone, and settings that they did not have yet.

A former setting is ignored if its value did what the code does now; any other value is an error
that names the cure. In a saved model, [train] and [data] have had their effect: there every value
is ignored, and a value of [model] or [decode] is refused, since translations would change.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from untold.errors import UntoldError, shorten

# What a saved model does not need any more.
_LEARNT = ("train.", "data.", "model.separator.backbone_gradient")


@dataclass(frozen=True)
class _Former:
    """A setting that is gone: the value that the code has now, and what to do about others."""

    value: Any
    cure: str = "it is fixed now: leave it out"
    paper: Any = None  # the value with model.separator.preset = "paper", if it is another


_ON_DISK = "a corpus is read from disk as it is needed: leave it out"
_ADAM = "Adam is that of the paper: leave it out"
_BEAM = "BLEU is measured of greedy translations: leave it out"
_FORM = "model.separator.preset chooses it: leave it out"
_RATE = "schedule is inverse_sqrt, linear or constant: choose one"
_DRAWN = "samples are drawn from all tokens: leave it out"
_FORMER: Mapping[str, _Former] = {
    "data.stream": _Former(False, _ON_DISK),
    "data.stream_window": _Former(100_000, _ON_DISK),
    "model.separator.agreement": _Former("dot", _FORM, "mlp"),
    "model.separator.fusion": _Former("linear", _FORM, "ffn"),
    "model.separator.capsule_scale": _Former(True, _FORM, paper=False),
    "model.separator.backbone_gradient": _Former(0.2, _FORM, 1.0),
    "model.separator.bca_direction": _Former("state_to_capsule"),
    "train.batch_order": _Former("longer_side", "the longer side sorts batches: leave it out"),
    "train.plateau_factor": _Former(0.5, _RATE),
    "train.plateau_patience": _Former(2, _RATE),
    "train.min_learning_rate": _Former(1e-9),
    "train.betas": _Former([0.9, 0.98], _ADAM),
    "train.epsilon": _Former(1e-9, _ADAM),
    "train.weight_decay": _Former(0.0, _ADAM),
    "train.word_prediction_steps": _Former("all", "all states predict: leave it out"),
    "train.past_layer_weight": _Former(1.0),
    "train.future_layer_weight": _Former(1.0),
    "train.short_spans": _Former(0.6),
    "train.auxiliary_warmup": _Former(0, "set train.auxiliary_start"),
    "train.validate_bleu": _Former(False, 'train.best_by = "bleu" measures BLEU: leave it out'),
    "train.validate_beam": _Former(1, _BEAM),
    "train.max_skipped": _Former(5),
    "train.compile": _Former(False, "layers are not compiled: leave it out"),
    "train.threads": _Former(None, "set the environment variable OMP_NUM_THREADS"),
    "train.timeout_minutes": _Former(30.0, "torch.distributed has its own limit: leave it out"),
    "train.sequence.sampler": _Former("sample", "samples are drawn at random: leave it out"),
    "train.sequence.temperature": _Former(1.0, "samples are as likely as the model says"),
    "train.sequence.max_ratio": _Former(2.0),
    "train.sequence.d_judge": _Former(64),
    "train.sequence.judge_rate": _Former(1.0),
    "decode.tell_all": _Former(
        0.0, 'set decode.coverage_penalty = 0.3 and decode.coverage_source = "past"'
    ),
    "decode.no_repeat_ngram": _Former(0, "nothing forbids repeated n-grams: leave it out"),
    "decode.top_k": _Former(0, _DRAWN),
    "decode.top_p": _Former(1.0, _DRAWN),
}
# Settings that are newer than some saved models, with what was done before there was a choice.
_NEWER: Mapping[str, Any] = {
    "model.separator.token_coverage": False,
    "train.vocabulary_share": 1.0,
}


def without_former(values: Any, where: str, *, trained: bool = False) -> Any:
    """Leaves out the settings that are gone; refuses values that would have an effect.

    In the settings of a `trained` model those of [train] and [data] have had theirs.
    """
    if not isinstance(values, Mapping):
        return values
    values = _copy_tables(values)
    for key, old, new in list(former_values(values)):
        if not (trained and key.startswith(_LEARNT)):
            written = shorten(json.dumps(old, ensure_ascii=False, default=str))
            cure = _FORMER[key].cure if key in _FORMER else _RATE
            raise UntoldError(f"{where}: {key} = {written} was removed: {cure}")
        if key not in _FORMER:  # the setting is still there, and this value of it is gone
            _table(values, key)[_last(key)] = new
    for key in _FORMER:
        _table(values, key).pop(_last(key), None)
    decode = _table(values, "decode.sample")
    if "sample" in decode:
        drawn = decode.pop("sample") is True
        decode["temperature"] = (decode.get("temperature") or 1.0) if drawn else 0.0
    return values


def bring_up_to_date(values: Any, where: str = "configuration") -> Any:
    """Brings the whole configuration of a saved model up to date.

    It has every key of its version: one that it lacks is newer and gets what was done before.
    """
    return without_former(_with_newer(values), where, trained=True)


def former_values(values: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields each value that is gone and differs from what is done now: key, value, that of now."""
    is_paper = _table(values, "model.separator.preset").get("preset") == "paper"
    for key, former in _FORMER.items():
        table = _table(values, key)
        now = former.paper if is_paper and former.paper is not None else former.value
        if _last(key) in table and table[_last(key)] != now:
            yield key, table[_last(key)], now
    if _table(values, "train.schedule").get("schedule") == "plateau":
        yield "train.schedule", "plateau", "constant"


def lost_values(values: Any) -> list[tuple[str, Any, Any]]:
    """Lists what a run with these settings, of an older version, would do otherwise from now on."""
    values = _with_newer(values)
    if "betas" in (train := _table(values, "train.")):  # a version that had such settings
        train.setdefault("short_spans", 0.0)
    found = former_values(values)
    return [(key, old, new) for key, old, new in found if key.startswith(_LEARNT)]


def _with_newer(values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    values = _copy_tables(values)
    for key, value in _NEWER.items():
        if table := _table(values, key):
            table.setdefault(_last(key), value)
    return values


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _table(values: Any, key: str) -> dict[str, Any]:
    """Returns the table that a dotted key is in; an empty one if there is none."""
    for name in key.split(".")[:-1]:
        values = values.get(name) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _copy_tables(values: Mapping[str, Any]) -> dict[str, Any]:
    """Copies the tables that settings are in."""
    copy = {name: dict(v) if isinstance(v, Mapping) else v for name, v in values.items()}
    for outer, inner in (("model", "separator"), ("train", "sequence")):
        table = copy.get(outer)
        if isinstance(table, dict) and isinstance(table.get(inner), Mapping):
            table[inner] = dict(table[inner])
    return copy
