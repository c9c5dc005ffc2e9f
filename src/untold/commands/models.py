"""`untold average`, `info`, `score` and `calibrate`: what is asked of models, or added to them."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untold.commands.options import (
    LARGEST_SEED,
    AsJson,
    Model,
    Settings,
    load_translator,
    number_option,
    say_outputs_if_stopped,
)
from untold.interruption import say_if_stopped
from untold.progress_bar import task

if TYPE_CHECKING:
    from untold.storage.calibration import Calibration


def average(
    run: Annotated[Path, typer.Argument(help="A training run.")],
    out: Annotated[Path, typer.Option(help="Where to write the model.")],
    last: Annotated[int, number_option(1, 1000, "How many of the newest checkpoints.")] = 5,
    half: Annotated[
        bool, typer.Option("--half", help="Store numbers of 16 bits: half the size.")
    ] = False,
) -> None:
    """Average the weights of a run's last checkpoints into one model."""
    from untold.storage.averaging import average_models, halve, last_checkpoints
    from untold.storage.model_directory import save_model

    say_outputs_if_stopped(out)
    paths = last_checkpoints(run, last)
    averaged = average_models(paths)
    save_model(out, halve(averaged) if half else averaged)
    print(f"{out}: the mean of {', '.join(path.name for path in paths)}")


def info(model: Model, as_json: AsJson = False) -> None:
    """Say what a model is: its shape, size, vocabulary and settings."""
    from untold.storage.model_directory import load_model
    from untold.storage.summary import summarise

    say_outputs_if_stopped()
    summary = summarise(load_model(model), model)
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
        return
    for name, value in summary.items():
        print(f"{name}: {value}")


def score(
    model: Model,
    source: Annotated[Path, typer.Option(help="Source text, a line each.")],
    target: Annotated[Path, typer.Option(help="Its translations, a line each.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print log p(target | source) of given pairs, a line each."""
    from untold.corpus.text import read_parallel
    from untold.explain.page import translation_record

    # What scores contain, with --json.
    penalties = ("length_penalty", "coverage_penalty", "coverage_source")
    used = ("batch_tokens", *(penalties if as_json else ()))
    translator = load_translator(model, settings, used)
    pairs = list(zip(*read_parallel(source, target), strict=True))
    printed = 0
    say_if_stopped(
        lambda: f"{printed:,} of {len(pairs):,} scores were printed; run the same command again"
    )
    with task("scoring", len(pairs)) as begun:
        scored = translator.with_progress(begun.advance).score(pairs)
    for translation in scored:
        if as_json:
            print(json.dumps(translation_record(translation), ensure_ascii=False))
        else:
            print(f"{translation.log_probability:.4f}")
        printed += 1


def calibrate(
    model: Model,
    source: Annotated[Path, typer.Option(help="Source text, a line each.")],
    target: Annotated[Path, typer.Option(help="Its translations, a line each.")],
    seed: Annotated[int, number_option(0, LARGEST_SEED, "Chooses pairs and damage.")] = 1,
) -> None:
    """Learn from good translations, damaged on purpose, how probable omissions and additions are.

    Training does this by itself at its end, with the validation text. The text must be one that the
    model was not trained on: some hundred pairs of the kind that you want to check are best. Of
    more than a thousand, a thousand are drawn. The calibration is kept in the model directory.
    """
    from untold.corpus.text import read_parallel
    from untold.files import lock_directory
    from untold.storage.model_directory import add_calibration, find_model, run_of

    directory = find_model(model)
    say_outputs_if_stopped(directory)
    pairs = list(zip(*read_parallel(source, target), strict=True))
    run = run_of(directory)
    # A trainer would replace the best model meanwhile, or remove the checkpoint.
    with nullcontext() if run is None else lock_directory(run):
        directory = find_model(model)
        calibration = _fit(directory, pairs, seed)
        add_calibration(directory, calibration)
    print(f"{directory}: calibrated on {calibration.segments} of {len(pairs)} pairs")
    print(f"expected calibration error on held-out words: {calibration.error:.4f}")


def _fit(directory: Path, pairs: list[tuple[str, str]], seed: int) -> "Calibration":
    from untold.checking.synthetic_errors import MOST_PAIRS, fit_calibration
    from untold.decoding.scoring import PairReader
    from untold.storage.model_directory import load_model

    with task(f"loading {directory}"):
        trained = load_model(directory, with_calibration=False)
    reader = PairReader(trained, trained.config.decode.batch_tokens)
    with task("calibrating", 3 * min(len(pairs), MOST_PAIRS)) as begun:
        return fit_calibration(reader, pairs, seed, begun.advance)
