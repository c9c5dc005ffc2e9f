"""`untold demo` shows the whole system on a small corpus."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="The directory to work in.")] = Path("runs/demo"),
) -> None:
    """Train on the embedded corpus, translate unseen sentences, and show the scores."""
    from untold.commands.demo_run import run_demo

    run_demo(out)
