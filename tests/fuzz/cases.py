"""Makes cases: a folder with files that may be spoilt, and a command line to run in it."""

import inspect
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from fuzz.hostile import (
    hostile_bytes,
    hostile_json,
    hostile_path,
    hostile_set_value,
    hostile_text,
)
from fuzz.workshop import CONFIG, seal

__all__ = ["Case", "make_case"]

# A legal configuration may train for days: these come last, so that each case is short.
_SHORT = ("train.steps=3", "train.epochs=1", "decode.max_length=12", "train.log_every=1")
_SPOILT_FILES = ("corpus.src", "corpus.tgt", "corpus.tsv", "corpus.jsonl", "corpus.align")


@dataclass(frozen=True)
class Case:
    """A command line, what it reads on standard input, and what was done to its files."""

    arguments: tuple[str, ...]
    text: bytes = b""
    done: tuple[str, ...] = ()


def make_case(dice: random.Random, folder: Path) -> Case:
    """Draws one case and prepares its folder, which is a copy of the workshop."""
    kinds: tuple[tuple[float, Callable[[random.Random, Path], Case]], ...] = (
        (4, _configuration),
        (3, _settings),
        (3, _spoilt_files),
        (4, _spoilt_model),
        (1, _spoilt_sheet),
        (6, _command_line),
        (1, _grammar),
    )
    (make,) = dice.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
    return make(dice, folder)


def _configuration(dice: random.Random, folder: Path) -> Case:
    """Trains with a TOML file whose values or bytes were changed."""
    text = CONFIG.strip()
    if dice.random() < 0.2:
        data = bytearray(text.encode())
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        (folder / "config.toml").write_bytes(bytes(data))
    else:
        lines = text.split("\n")
        for _ in range(dice.randrange(1, 4)):
            place = dice.randrange(len(lines))
            key = lines[place].split("=")[0] if "=" in lines[place] else f"{_some_key(dice)} "
            lines[place] = f"{key}= {hostile_set_value(dice)}"
        (folder / "config.toml").write_text("\n".join(lines), errors="replace")
    return _train(())


def _settings(dice: random.Random, folder: Path) -> Case:
    """Trains, or decodes, with --set of any key to any value."""
    keys = _all_keys()
    changes = []
    for _ in range(dice.randrange(1, 4)):
        key = dice.choice(keys) if dice.random() < 0.93 else _some_key(dice)
        changes.append(f"{key}={hostile_set_value(dice)}")
    if dice.random() < 0.4:
        decode = [change for change in changes if change.startswith("decode.")]
        decode += [
            f"{dice.choice([k for k in keys if k.startswith('decode.')])}={v}"
            for v in (hostile_set_value(dice), hostile_set_value(dice))
        ]
        text = "".join(f"{hostile_text(dice)[:60]}\n" for _ in range(3))
        options = [option for change in decode for option in ("--set", change)]
        return Case(("translate", "run", *options), text.encode())
    return _train(changes)


def _spoilt_files(dice: random.Random, folder: Path) -> Case:
    """Trains, evaluates, scores, aligns or translates with files of odd contents."""
    spoilt = dice.sample(_SPOILT_FILES, dice.randrange(1, 3))
    for name in spoilt:
        (folder / name).write_bytes(hostile_bytes(dice))
    pair = ("--source", "corpus.src", "--reference", "corpus.tgt")
    texts = ("--source", "corpus.src", "--target", "corpus.tgt")
    table = dice.choice(("corpus.tsv", "corpus.jsonl", "corpus.align", "corpus.src"))
    commands: tuple[tuple[str, ...], ...] = (
        _train(()).arguments,
        _train((f'data.train={{path = "{table}"}}',)).arguments,
        ("evaluate", "run", *pair),
        ("evaluate", "run", *pair, "--alignments", "corpus.align"),
        ("evaluate", "run", *pair, "--metrics", "cdr", "--aligner", "aligner"),
        ("score", "run", *texts),
        ("calibrate", "run", *texts),
        ("check", "run", *texts, "--html", "new.html"),
        ("check", "run", table, "--sarif", "new.sarif", "--write-baseline", "known.json"),
        ("check", "run", "corpus.tsv", "--baseline", "corpus.jsonl"),
        ("clean", "run", *texts, "--out-source", "new.src", "--out-target", "new.tgt"),
        ("clean", "run", "--table", "corpus.tsv", "--out", "new.tsv", "--scores", "scores"),
        ("align", *texts, "--gold", "corpus.align", "--kind", "ibm1"),
        ("align", *texts, "--model", "run", "--gold", "corpus.align", "--out", "new.align"),
        ("sheet", *texts[:2], "--system", "a=corpus.tgt", "--number", "1", "--out", "new"),
        ("sheet", "--aggregate", "sheet/key.json", "rated.csv", table),
        ("adopt", "hf:marian", *texts, "--steps", "2", "--out", "new"),
        ("translate", "hf:marian", "corpus.src"),
        ("translate", "run", "corpus.src", "--align", "new.align"),
        ("translate", "run", "corpus.src"),
        ("reproduce", "overlap", "--data", "tatoeba-zh-en", "--root", ".", "--out", "new"),
        ("evaluate", "plain", "--against", "run", *pair, "--samples", "3"),
        ("evaluate", "corpus.tgt", *pair),
    )
    return Case(dice.choice(commands), done=tuple(f"spoilt {name}" for name in spoilt))


def _spoilt_model(dice: random.Random, folder: Path) -> Case:
    """Loads, resumes or averages a run of which one file was changed."""
    run = folder / "run"
    models = sorted(path.parent for path in run.rglob("MANIFEST.json"))
    models.append(folder / "aligner")
    directory = dice.choice(models)
    victim = dice.choice(sorted(path for path in directory.iterdir() if path.is_file()))
    what = _spoil(dice, victim)
    # thot believes its own files: nothing but the checksums stands before them.
    is_ours = directory.name != "aligner" or victim.suffix == ".json"
    if sealed := dice.random() < 0.75 and victim.name != "MANIFEST.json" and is_ours:
        seal(directory)
    name = str(directory.relative_to(folder))
    commands: tuple[tuple[str, ...], ...] = (
        ("translate", name),
        ("info", name),
        ("explain", name, "--source", "the dog sleeps ."),
        ("check", name, "corpus.tsv"),
        ("calibrate", name, "--source", "corpus.src", "--target", "corpus.tgt"),
        ("average", "run", "--last", "2", "--out", "mean"),
        _train(("train.steps=6",)).arguments,
        ("train", "config.toml", "--init", name, "--out", "new"),
        (
            "align",
            "--aligner",
            name,
            "--source",
            "corpus.src",
            "--target",
            "corpus.tgt",
            "--out",
            "links",
        ),
    )
    done = (f"{what} {name}/{victim.name}{' and sealed it' if sealed else ''}",)
    return Case(dice.choice(commands), b"the dog sleeps .\n", done)


def _spoilt_sheet(dice: random.Random, folder: Path) -> Case:
    """Aggregates ratings of which the key or the file was changed."""
    victim = folder / dice.choice(("sheet/key.json", "rated.csv"))
    what = _spoil(dice, victim)
    return Case(
        ("sheet", "--aggregate", "sheet/key.json", "rated.csv", *dice.choice(((), ("--json",)))),
        done=(f"{what} {victim.name}",),
    )


def _spoil(dice: random.Random, path: Path) -> str:
    data = path.read_bytes()
    kind = dice.choice(("flip", "cut", "remove", "replace", "json", "json", "json"))
    if kind == "json" and path.suffix == ".json":
        values = json.loads(data)
        for _ in range(dice.randrange(1, 3)):
            _change_somewhere(dice, values)
        path.write_text(json.dumps(values))
        return "changed values in"
    if kind == "remove":
        path.unlink()
        return "removed"
    if kind == "cut":
        path.write_bytes(data[: dice.randrange(len(data) + 1)])
        return "cut"
    if kind == "replace":
        path.write_bytes(hostile_bytes(dice))
        return "replaced"
    changed = bytearray(data or b"x")
    for _ in range(dice.randrange(1, 5)):
        changed[dice.randrange(min(len(changed), dice.choice((200, 10**9))))] = dice.randrange(256)
    path.write_bytes(bytes(changed))
    return "flipped bytes of"


def _change_somewhere(dice: random.Random, values: Any) -> None:
    """Replaces, removes or adds one value somewhere inside nested JSON."""
    while isinstance(values, (dict, list)) and values:
        key = dice.choice(list(values) if isinstance(values, dict) else range(len(values)))
        if isinstance(values[key], (dict, list)) and values[key] and dice.random() < 0.85:
            values = values[key]
            continue
        if dice.random() < 0.15:
            del values[key]
        elif isinstance(values, dict) and dice.random() < 0.1:
            values[hostile_text(dice)[:20]] = hostile_json(dice)
        else:
            values[key] = hostile_json(dice)
        return


def _command_line(dice: random.Random, folder: Path) -> Case:
    """Draws a command and gives it arguments of all kinds, some of them good."""
    endless = ("demo", "serve")  # the second one only ends with a signal
    commands = {name: each for name, each in _commands().items() if name not in endless}
    name = dice.choice(sorted(commands))
    arguments = [name]
    for parameter in inspect.signature(commands[name]).parameters.values():
        hint = get_type_hints(commands[name], include_extras=True)[parameter.name]
        info = next(each for each in get_args(hint) if isinstance(each, (ArgumentInfo, OptionInfo)))
        needed = isinstance(info, ArgumentInfo) or parameter.default is inspect.Parameter.empty
        if dice.random() > (0.97 if needed else 0.3):
            continue
        value = _value(dice, name, parameter.name, str(get_args(hint)[0]))
        if isinstance(info, ArgumentInfo):
            arguments.append(value)
        else:
            # typer takes the first name of an annotated option for its default.
            names = [*(info.param_decls or ()), str(info.default)]
            named = (each for each in names if each.startswith("--"))
            option = next(named, f"--{parameter.name.replace('_', '-')}")
            arguments += [option] if "bool" in str(get_args(hint)[0]) else [option, value]
    if name == "train":
        arguments += _train(()).arguments[2:]
    if name == "sample" and "--pairs" not in arguments:
        arguments += ["--pairs", "20"]
    return Case(tuple(arguments), hostile_bytes(dice))


def _value(dice: random.Random, command: str, name: str, kind: str) -> str:
    good = {
        "model": ("run", "plain", "run/best", "aligner"),
        "run": ("run", "plain"),
        "runs": ("run", "a=run,plain", "plain"),
        "config": ("config.toml", "run"),
        "init": ("run", "plain"),
        "grammar": ("en-de", "toy.grammar", "zh-en"),
        "source": ("corpus.src",) if command != "explain" else ("the dog sleeps .", "a cat"),
        "target": ("corpus.tgt",) if command != "explain" else ("DER HUND", ""),
        "reference": ("corpus.tgt",),
        "file": ("corpus.src",),
        "files": ("corpus.tsv", "corpus.jsonl"),
        "table": ("corpus.tsv", "corpus.jsonl"),
        "columns": ("1,2", "source,target", "2"),
        "fail_on": ("omission:0.9", "addition", "damage", "omission:2"),
        "baseline": ("known.json", "corpus.jsonl"),
        "test": ("t=corpus.src,corpus.tgt", "t=corpus.src"),
        "aligner": ("aligner",),
        "steps": ("1", "3", "0", "x"),
        "alignments": ("corpus.align",),
        "system": ("a=corpus.tgt", "b=corpus.src", "a"),
        "aggregate": ("sheet/key.json", "corpus.jsonl"),
        "number": ("1", "24", "25", "0"),
        "gold": ("corpus.align",),
        "ensemble": ("run", "plain"),
        "metrics": ("bleu", "bleu,chrf", "rouge", "cdr", "gleu", "x"),
        "metric": ("bleu", "chrf", "ter"),
        "tokenize": ("13a", "none", "zh", "char", "flores200", "x"),
        "kind": ("ibm1", "fast_align", "x"),
        "settings": ("decode.beam=3", "decode.bem=2", f"decode.beam={hostile_set_value(dice)}"),
        "samples": ("1", "3", "0", "-1", "x"),
        "rounds": ("1", "0", "-1"),
        "pairs": ("1", "5", "0", "-3", "x", "nan"),
        "out": ("out.svg", "out.html", "new", "new/deep", "out.json"),
        "save": ("new",),
    }
    if dice.random() < 0.6 and name in good:
        return dice.choice(good[name])
    if "int" in kind or "float" in kind:
        return hostile_set_value(dice)
    if "Path" in kind:
        return hostile_path(dice)
    return hostile_text(dice).replace("\0", "")


def _grammar(dice: random.Random, folder: Path) -> Case:
    """Samples from a grammar of which some lines were changed."""
    lines = (folder / "toy.grammar").read_text(encoding="utf-8").split("\n")
    for _ in range(dice.randrange(1, 4)):
        place = dice.randrange(len(lines))
        kind = dice.random()
        if kind < 0.3:
            del lines[place]
        elif kind < 0.6:
            lines[place] = dice.choice(lines) + dice.choice((" ", "")) + hostile_text(dice)[:50]
        else:
            lines[place] = hostile_text(dice)
        lines = lines or [""]
    (folder / "toy.grammar").write_text("\n".join(lines), encoding="utf-8")
    return Case(("sample", "toy.grammar", "--pairs", "5", "--out", "new"))


def _train(changes: tuple[str, ...] | list[str]) -> Case:
    options = [option for change in (*_SHORT, *changes, *_SHORT) for option in ("--set", change)]
    return Case(("train", "config.toml", *options, "--out", "run" if not changes else "new"))


def _commands() -> dict[str, Callable[..., None]]:
    from untold.cli import app

    named = ((each.name, each.callback) for each in app.registered_commands)
    return {name or call.__name__: call for name, call in named if call is not None}


def _all_keys() -> list[str]:
    from untold.config import Config

    return _keys_below(Config(), "")


def _keys_below(section: Any, prefix: str) -> list[str]:
    keys = []
    for name in type(section).model_fields:
        value = getattr(section, name)
        if hasattr(type(value), "model_fields"):
            keys += _keys_below(value, f"{prefix}{name}.")
        else:
            keys.append(prefix + name)
    return keys


def _some_key(dice: random.Random) -> str:
    return dice.choice(
        (
            "decode.bem",
            "train",
            "x",
            "x.y",
            "train.sequence",
            "model.separator.kin",
            "a.b.c.d.e",
            "data.train.source",
            "",
            ".",
            "train.",
            "=",
            "train.losses.x",
            "ä.ö",
            "a" * 500 + ".b",
        )
    )
