"""The steps of `untold demo`: a corpus, a Transformer, past and future on top of it, pictures."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from rich.console import Console
from rich.table import Table

from untold.config import Config, load_config
from untold.corpus.text import read_lines
from untold.explain.explanation import explain
from untold.explain.table import print_explanations
from untold.explain.write import write_explanations
from untold.interruption import last_line
from untold.lab.grammars.sampling import write_sample
from untold.metrics.base import Score, corpus_scores, legend_lines
from untold.metrics.separation import (
    AlignedPair,
    SeparationReport,
    read_aligned_pairs,
    separation_report,
)
from untold.progress_bar import task
from untold.terminal import console as make_console
from untold.training.run import RunOptions, train
from untold.translator import Translator, load

_PAIRS, _SEED, _SHOWN, _EXPLAINED = 20_000, 7, 4, 3
_LONGEST = 12  # words of a sentence that is drawn
# The second training adds capsules to the first model and has fewer updates.
_PAST_FUTURE = (
    "model.separator.kind=gdr",
    "train.steps=300",
    "train.warmup=50",
    "train.validate_every=300",
    "train.save_every=300",
)


@dataclass(frozen=True)
class DemoResult:
    """The scores of both models on held-out sentences, and the separation of the second one."""

    plain: list[Score]
    past_future: list[Score]
    separation: SeparationReport


def run_demo(
    out: Path,
    settings: Sequence[str] = (),
    pairs: int = _PAIRS,
    console: Console | None = None,
) -> DemoResult:
    """Runs all steps in the directory `out`; `settings` change both configurations."""
    console = console or make_console()
    began = time.monotonic()
    corpus, plain, model = out / "corpus", out / "plain", out / "model"
    console.print("[bold]1. A corpus[/]: sentence pairs from the embedded English-German grammar")
    console.print(str(write_sample("en-de", pairs, _SEED, corpus)), markup=False)
    console.print("[bold]2. A Transformer[/], trained on them")
    _train(corpus, settings, RunOptions(plain))
    console.print("[bold]3. Past and future[/] on top of it: what is told, what is untold")
    config = _train(corpus, (*_PAST_FUTURE, *settings), RunOptions(model, init=plain))
    console.print("[bold]4. Translations[/] of sentences that neither has ever seen")
    sides = list(read_lines(corpus / "test.en")), list(read_lines(corpus / "test.de"))
    held_out = read_aligned_pairs(*sides, corpus / "test.align")
    translator = load(model)
    outputs = _translate(load(plain), held_out), _translate(translator, held_out)
    scores = [corpus_scores(texts, sides[1]) for texts in outputs]
    _show(outputs, held_out, console)
    lines = [
        f"{one.name} {one.value:.2f} -> {other.value:.2f}  [{one.signature}]"
        for one, other in zip(*scores, strict=True)
    ]
    lines.append(
        f"The second model had {config.train.steps} more updates than the first; no control was "
        "trained as long without past and future."
    )
    _print_lines(console, lines)
    console.print("[bold]5. What it knows[/] of each word, against the grammar's own alignments")
    report = separation_report(translator, held_out)
    _print_lines(console, [*report.lines(), *legend_lines(report.meanings())])
    console.print("[bold]6. Seeing it[/]: before each word, what is still untold")
    _draw(translator, held_out, out, console)
    minutes = (time.monotonic() - began) / 60
    _print_lines(console, [f"\nThat took {minutes:.1f} minutes. Try next:", *_next_commands(out)])
    return DemoResult(scores[0], scores[1], report)


def _print_lines(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _train(corpus: Path, settings: Sequence[str], options: RunOptions) -> Config:
    """Trains a model; a signal that stops the training ends the whole demo with its exit code."""
    with as_file(files("untold.lab") / "demo.toml") as path:
        config = load_config(path, [f"data.root={corpus}", *settings])
    result = train(config, options)
    if result.signal:
        account = (
            f"stopped at update {result.progress.step}, which is saved in {options.out}; run "
            f"`untold demo --out {options.out.parent}` to go on from there."
        )
        print(last_line(result.signal, account), file=sys.stderr)
        sys.exit(128 + result.signal)
    return config


def _translate(translator: Translator, pairs: Sequence[AlignedPair]) -> list[str]:
    with task("translating", len(pairs)) as begun:
        translator = translator.with_progress(begun.advance)
        return [each.text for each in translator.translate([pair.source for pair in pairs])]


def _show(
    outputs: tuple[list[str], list[str]], pairs: Sequence[AlignedPair], console: Console
) -> None:
    table = Table("source", "Transformer", "with past and future", "reference", show_lines=True)
    for pair, plain, past_future in list(zip(pairs, *outputs, strict=True))[:_SHOWN]:
        table.add_row(pair.source, plain, past_future, pair.target)
    console.print(table)


def _draw(
    translator: Translator, pairs: Sequence[AlignedPair], out: Path, console: Console
) -> None:
    """Draws a few sentences as a page and as a picture, and one of them in the terminal."""
    sources = [pair.source for pair in pairs if len(pair.source.split()) <= _LONGEST]
    chosen = sorted(sources, key=lambda source: -len(source.split()))[:_EXPLAINED]
    explanations = explain(translator, chosen)
    print_explanations(explanations[:1], console)
    for name in ("untold.html", "untold.png"):
        write_explanations(out / name, explanations)
        _print_lines(console, [f"  {out / name}"])


def _next_commands(out: Path) -> list[str]:
    corpus, model = out / "corpus", out / "model"
    held_out = f"--source {corpus}/test.en --reference {corpus}/test.de"
    return [
        f'  echo "The child reads a book ." | untold translate {model}',
        f'  untold explain {model} --source "The child reads a book ."',
        f"  untold evaluate {model} {held_out} --alignments {corpus}/test.align",
        f"  untold info {model}",
    ]
