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
from untold.explain.write import print_explanations, write_explanations
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
    _train(_config(corpus, settings), RunOptions(plain))
    console.print("[bold]3. Past and future[/] on top of it: what is told, what is untold")
    config = _config(corpus, (*_PAST_FUTURE, *settings))
    _train(config, RunOptions(model, init=plain))
    console.print("[bold]4. Translations[/] of sentences that neither has ever seen")
    translator, pairs_seen = load(model), _held_out(corpus)
    scores = [_translate(load(plain), pairs_seen), _translate(translator, pairs_seen)]
    _show(scores, pairs_seen, console)
    console.print(
        f"The second model had {config.train.steps} more updates than the first; no control was "
        "trained as long without past and future.",
        highlight=False,
        soft_wrap=True,
    )
    console.print("[bold]5. What it knows[/] of each word, against the grammar's own alignments")
    report = separation_report(translator, pairs_seen)
    for line in (*report.lines(), *legend_lines(report.meanings())):
        console.print(line, markup=False, highlight=False)
    _draw(translator, pairs_seen, out, console)
    minutes = (time.monotonic() - began) / 60
    _say_what_next(out, minutes, console)
    return DemoResult(scores[0].scores, scores[1].scores, report)


@dataclass(frozen=True)
class _Translated:
    texts: list[str]
    scores: list[Score]


def _config(corpus: Path, settings: Sequence[str]) -> Config:
    with as_file(files("untold.lab") / "demo.toml") as path:
        return load_config(path, [f"data.root={corpus}", *settings])


def _train(config: Config, options: RunOptions) -> None:
    """Trains a model; a signal that stops the training ends the whole demo with its exit code."""
    result = train(config, options)
    if result.signal:
        account = (
            f"stopped at update {result.progress.step}, which is saved in {options.out}; run "
            f"`untold demo --out {options.out.parent}` to go on from there."
        )
        print(last_line(result.signal, account), file=sys.stderr)
        sys.exit(128 + result.signal)


def _held_out(corpus: Path) -> list[AlignedPair]:
    texts = list(read_lines(corpus / "test.en")), list(read_lines(corpus / "test.de"))
    return read_aligned_pairs(*texts, corpus / "test.align")


def _translate(translator: Translator, pairs: Sequence[AlignedPair]) -> _Translated:
    with task("translating", len(pairs)) as begun:
        translator = translator.with_progress(begun.advance)
        texts = [each.text for each in translator.translate([pair.source for pair in pairs])]
    return _Translated(texts, corpus_scores(texts, [pair.target for pair in pairs]))


def _show(
    translated: Sequence[_Translated], pairs: Sequence[AlignedPair], console: Console
) -> None:
    plain, past_future = translated
    table = Table(show_lines=True)
    for column in ("source", "Transformer", "with past and future", "reference"):
        table.add_column(column)
    rows = zip(pairs, plain.texts, past_future.texts, strict=True)
    for pair, first, second in list(rows)[:_SHOWN]:
        table.add_row(pair.source, first, second, pair.target)
    console.print(table)
    for one, other in zip(plain.scores, past_future.scores, strict=True):
        line = f"{one.name} {one.value:.2f} -> {other.value:.2f}  [{one.signature}]"
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _draw(
    translator: Translator, pairs: Sequence[AlignedPair], out: Path, console: Console
) -> None:
    """Draws a few sentences as a page and as a picture, and one of them in the terminal."""
    sources = [pair.source for pair in pairs if len(pair.source.split()) <= _LONGEST]
    chosen = sorted(sources, key=lambda source: -len(source.split()))[:_EXPLAINED]
    explanations = explain(translator, chosen)
    console.print("[bold]6. Seeing it[/]: before each word, what is still untold")
    print_explanations(explanations[:1], console)
    for name in ("untold.html", "untold.png"):
        write_explanations(out / name, explanations)
        console.print(f"  {out / name}", markup=False, soft_wrap=True)


def _say_what_next(out: Path, minutes: float, console: Console) -> None:
    console.print(f"\nThat took {minutes:.1f} minutes. Try next:", highlight=False)
    corpus, model = out / "corpus", out / "model"
    held_out = f"--source {corpus}/test.en --reference {corpus}/test.de"
    for line in (
        f'echo "The child reads a book ." | untold translate {model}',
        f'untold explain {model} --source "The child reads a book ."',
        f"untold evaluate {model} {held_out} --alignments {corpus}/test.align",
        f"untold info {model}",
    ):
        console.print(f"  {line}", markup=False, soft_wrap=True)
