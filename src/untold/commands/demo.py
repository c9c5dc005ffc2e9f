"""`untold demo` shows the whole system on a small corpus."""

from pathlib import Path
from typing import Annotated

import typer

from untold.interruption import say_if_stopped


def demo(
    out: Annotated[Path, typer.Option(help="The directory to work in.")] = Path("runs/demo"),
) -> None:
    """Train on the embedded corpus, translate unseen sentences, and show the scores."""
    from untold.lab.demo import run_demo

    say_if_stopped(f"what is finished stays in {out}; run the same command again to go on")
    run_demo(out)
