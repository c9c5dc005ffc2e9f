"""Adopts a Hugging Face model: a corpus, an aligner, a frozen training, and what came of it."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from untold.alignment.aligner_process import train_in_process
from untold.alignment.aligners import (
    Aligner,
    import_thot,
    load_aligner,
    refuse_unsegmented,
)
from untold.config import AlignerConfig, Config, override, parse_config
from untold.corpus.text import read_parallel
from untold.errors import UntoldError
from untold.files import new_directory
from untold.interruption import last_line
from untold.metrics.base import legend_lines
from untold.metrics.separation import AlignedPair, SeparationReport, separation_report
from untold.progress_bar import task
from untold.storage.model_directory import TrainedModel, load_model
from untold.terminal import console as make_console
from untold.training.run import RunOptions, train
from untold.translator import Translator, load

_FEWEST = 20  # pairs that something can be learnt from, and measured on
_HELD_OUT, _LINKED, _COMPARED = 500, 50_000, 30  # pairs at most
_SIDES = ("source", "target")
Texts = tuple[list[str], list[str]]


@dataclass(frozen=True)
class AdoptionResult:
    """Says what an adopted model knows on held-out pairs, and how many translations stayed."""

    separation: SeparationReport | None  # None: nothing could link words, or no pair is short
    unchanged: int
    compared: int


def run_adoption(
    model: Path, files: tuple[Path, Path], out: Path, steps: int, settings: Sequence[str]
) -> AdoptionResult:
    """Runs all steps in the directory `out`; those that are done already are not done again."""
    console = make_console()
    texts, held_out = _divide(files)
    stock = _load(model, settings)
    config = _config(stock, out, steps, settings)
    _write_corpus(out / "corpus", texts, held_out)
    console.print(
        f"1. Words are linked by an aligner, for measuring alone: {len(texts[0]):,} pairs to learn "
        f"from, {len(held_out[0]):,} held out",
        highlight=False,
        soft_wrap=True,
    )
    aligner = _aligner(texts, out / "aligner")
    console.print(f"2. Past and future learn for {steps} updates; the model itself stays as it is")
    _train(config, RunOptions(out, init=model))
    console.print("3. What it knows of each word, on the pairs held out")
    translator = load(out)
    result = _measure(Translator([stock]), translator, aligner, held_out)
    for line in _lines(result):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for line in _what_next(out, is_calibrated=translator.models[0].calibration is not None):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return result


def _divide(files: tuple[Path, Path]) -> tuple[Texts, Texts]:
    """Reads pairs that have words on both sides; holds some out, from all over the text."""
    pairs = [
        (source, target)
        for source, target in zip(*read_parallel(*files), strict=True)
        if source.strip() and target.strip()
    ]
    if len(pairs) < _FEWEST:
        raise UntoldError(
            f"{files[0]} and {files[1]} have {len(pairs)} pairs with words on both sides: give at "
            f"least {_FEWEST}, better thousands"
        )
    every = max(10, -(-len(pairs) // _HELD_OUT))
    chosen = [pair for number, pair in enumerate(pairs) if number % every == every - 1]
    others = [pair for number, pair in enumerate(pairs) if number % every != every - 1]
    return _sides(others), _sides(chosen)


def _sides(pairs: Sequence[tuple[str, str]]) -> Texts:
    return [source for source, _ in pairs], [target for _, target in pairs]


def _load(model: Path, settings: Sequence[str]) -> TrainedModel:
    """Reads the model as it is; it needs the languages among the settings of [model]."""
    chosen = override({"model": {}}, settings)["model"]
    names = ("source_language", "target_language", "source_prefix")
    with task(f"loading {model}"):
        return load_model(model, settings={name: chosen[name] for name in names if name in chosen})


def _config(stock: TrainedModel, out: Path, steps: int, settings: Sequence[str]) -> Config:
    """Chooses good settings for a frozen training; `settings` override them."""
    width = stock.model.backbone.widths.output
    languages = {
        f"{side}_language": getattr(stock.config.data, f"{side}_language") for side in _SIDES
    }
    corpora = {name: {side: f"{name}.{side}" for side in _SIDES} for name in ("train", "valid")}
    values = {
        "data": {"root": str(out / "corpus"), **languages, **corpora},
        "model": {"backbone": "huggingface", "separator": {"kind": "gdr"}},
        "train": {
            "freeze_backbone": True,
            "best_by": "loss",
            "steps": steps,
            "warmup": max(1, steps // 6),
            "schedule": "linear",
            "learning_rate": 2.5e-3 * (128 / width) ** 0.5,  # wide models want smaller steps
            "batch_tokens": 2048,
            "log_every": min(steps, 25),
            "validate_every": min(steps, 500),
            "save_every": min(steps, 500),
            "keep": 2,
        },
        "decode": stock.config.decode.model_dump(),
    }
    return parse_config(override(values, settings), "untold adopt")


def _write_corpus(folder: Path, texts: Texts, held_out: Texts) -> None:
    """Writes the pairs to learn from and those held out, unless they are there already."""
    files = {
        f"{name}.{side}": "".join(f"{line}\n" for line in lines).encode()
        for name, pair in (("train", texts), ("valid", held_out))
        for side, lines in zip(_SIDES, pair, strict=True)
    }
    if all(
        (folder / name).is_file() and (folder / name).read_bytes() == data
        for name, data in files.items()
    ):
        return
    if folder.exists():
        raise UntoldError(f"{folder}: holds other pairs: choose another --out")
    with new_directory(folder) as unfinished:
        for name, data in files.items():
            (unfinished / name).write_bytes(data)


def _aligner(texts: Texts, place: Path) -> Aligner | None:
    """Trains an aligner, or loads that of an earlier start; None and a line if nothing can be."""
    if place.exists():
        return load_aligner(place)
    try:
        import_thot()
        for lines, side in zip(texts, _SIDES, strict=True):
            refuse_unsegmented(lines, "blank", side)
    except UntoldError as error:
        print(f"words cannot be linked, so that no AUC is measured: {error}", file=sys.stderr)
        return None
    some = texts[0][:_LINKED], texts[1][:_LINKED]
    with task("training the aligner") as begun:

        def report(done: int, total: int) -> None:
            begun.total = total
            begun.advance(done - begun.done)

        return train_in_process(some, AlignerConfig(), place, report)


def _train(config: Config, options: RunOptions) -> None:
    """Trains; a signal that stops the training ends the command with its exit code."""
    result = train(config, options)
    if result.signal:
        account = (
            f"stopped at update {result.progress.step}, which is saved in {options.out}; run the "
            "same command again to go on"
        )
        print(last_line(result.signal, account), file=sys.stderr)
        sys.exit(128 + result.signal)


def _measure(
    before: Translator, after: Translator, aligner: Aligner | None, held_out: Texts
) -> AdoptionResult:
    some = held_out[0][:_COMPARED]
    with task("translating", 2 * len(some)) as begun:
        texts = [
            [each.text for each in one.with_progress(begun.advance).translate(some)]
            for one in (before, after)
        ]
    same = sum(one == other for one, other in zip(*texts, strict=True))
    if aligner is None:
        return AdoptionResult(None, same, len(some))
    links = aligner.align(aligner.split(*held_out))
    pairs = [AlignedPair(*each) for each in zip(*held_out, links, strict=True)]
    ids = after.codec.encode_pairs([(pair.source, pair.target) for pair in pairs])
    most = after.data.max_tokens
    fitting = [pair for pair, own in zip(pairs, ids, strict=True) if max(map(len, own)) <= most]
    report = separation_report(after, fitting) if fitting else None
    return AdoptionResult(report, same, len(some))


def _lines(result: AdoptionResult) -> list[str]:
    shown = []
    if result.separation is not None:
        shown = [*result.separation.lines(), *legend_lines(result.separation.meanings())]
    return [*shown, f"translations unchanged: {result.unchanged} of {result.compared} compared"]


def _what_next(out: Path, *, is_calibrated: bool) -> list[str]:
    """Lists what to type; `check` needs probabilities, for which too few pairs may be held out."""
    pairs = f"--source {out}/corpus/valid.source --target {out}/corpus/valid.target"
    more = [] if is_calibrated else [f"  untold calibrate {out} --source MORE --target MORE"]
    return [
        "",
        "Try next:",
        f'  untold explain {out} --source "A sentence of yours." --out untold.html',
        *more,
        f"  untold check {out} {pairs}",
        f"  untold align --model {out} {pairs} --out links.txt",
        f"  untold translate {out} FILE --set decode.coverage_penalty=0.3 "
        "--set decode.coverage_source=past",
    ]
