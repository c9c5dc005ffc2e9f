"""The demo: sample the embedded grammar, train, translate what was never seen, say what is next."""

import time
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from rich.console import Console
from rich.table import Table

from untold.analysis.scores import Score, corpus_scores
from untold.config import Config, load_config
from untold.corpus.grammars import write_sample
from untold.corpus.lines import read_lines
from untold.training.run import RunOptions, train
from untold.translator import Translator, load

__all__ = ["run_demo"]

_PAIRS, _SEED, _SHOWN = 20_000, 7, 8


def run_demo(
    out: Path,
    settings: Sequence[str] = (),
    pairs: int = _PAIRS,
    console: Console | None = None,
) -> list[Score]:
    """All of it, in the directory `out`; returns the scores on the held-out sentences."""
    console = console or Console()
    began = time.monotonic()
    corpus, model = out / "corpus", out / "model"
    console.print("[bold]1. A corpus[/]: sentence pairs from the embedded English-German grammar")
    console.print(str(write_sample("en-de", pairs, _SEED, corpus)), highlight=False)
    console.print("[bold]2. A Transformer[/], trained on them")
    train(_config(corpus, settings), RunOptions(model))
    console.print("[bold]3. Translations[/] of sentences that it has never seen")
    scores = _show(load(model), corpus, console)
    minutes = (time.monotonic() - began) / 60
    console.print(f"\nThat took {minutes:.1f} minutes. Try next:", highlight=False)
    for line in (
        f'echo "The child reads a book ." | untold translate {model}',
        f"untold translate {model} {corpus}/test.en --nbest 3",
        f"untold evaluate {model} --source {corpus}/test.en --reference {corpus}/test.de",
        f"untold info {model}",
    ):
        console.print(f"  {line}", highlight=False, soft_wrap=True)
    return scores


def _config(corpus: Path, settings: Sequence[str]) -> Config:
    with as_file(files("untold") / "demo.toml") as path:
        return load_config(path, [f"data.root={corpus}", *settings])


def _show(translator: Translator, corpus: Path, console: Console) -> list[Score]:
    sources = list(read_lines(corpus / "test.en"))
    references = list(read_lines(corpus / "test.de"))
    texts = [translation.text for translation in translator.translate(sources)]
    table = Table(show_lines=True)
    for column in ("source", "translation", "reference"):
        table.add_column(column)
    for row in list(zip(sources, texts, references, strict=True))[:_SHOWN]:
        table.add_row(*row)
    console.print(table)
    scores = corpus_scores(texts, references)
    exact = sum(text == reference for text, reference in zip(texts, references, strict=True))
    console.print(f"{exact} of {len(texts)} held-out sentences are word for word the reference")
    for score in scores:
        line = f"{score.name} {score.value:.2f}  [{score.signature}]"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return scores
