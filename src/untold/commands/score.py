"""`untold score` prints the log-probabilities of given translations."""

import json
from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import AsJson, Model, Settings, load_translator
from untold.feedback import task
from untold.stopping import say_if_stopped

__all__ = ["score"]


def score(
    model: Model,
    source: Annotated[Path, typer.Option(help="Source text, a line each.")],
    target: Annotated[Path, typer.Option(help="Its translations, a line each.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print log p(target | source) of given pairs, a line each."""
    from untold.corpus.lines import read_parallel
    from untold.report.json_records import translation_record

    # What scores contain, with --json.
    penalties = ("length_penalty", "coverage_penalty", "coverage_source", "tell_all")
    used = ("batch_tokens", *(penalties if as_json else ()))
    translator = load_translator(model, settings, used)
    pairs = list(zip(*read_parallel(source, target), strict=True))
    printed = 0
    say_if_stopped(
        lambda: f"{printed:,} of {len(pairs):,} scores were printed; run the same command again"
    )
    with task("scoring", len(pairs)) as begun:
        scored = translator.with_progress(begun.advance).score(pairs)
    for each in scored:
        if as_json:
            print(json.dumps(translation_record(each), ensure_ascii=False))
        else:
            print(f"{each.log_probability:.4f}")
        printed += 1
