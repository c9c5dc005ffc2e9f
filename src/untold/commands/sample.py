"""`untold sample` writes a corpus from a grammar."""

from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import identify_file
from untold.stopping import say_if_stopped

__all__ = ["sample"]


def sample(
    grammar: Annotated[str, typer.Argument(help="en-de, zh-en, or a .grammar file.")],
    out: Annotated[Path, typer.Option(help="The directory to write to.")],
    pairs: Annotated[int, typer.Option(min=1, help="Training pairs.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same corpus.")] = 7,
    noise: Annotated[
        float, typer.Option(help="Share of training references that lose a clause.")
    ] = 0.0,
) -> None:
    """Write a corpus of a synchronous grammar: train, dev, test, with gold word alignments."""
    from untold.corpus.grammars import write_sample

    before = _files(out)
    say_if_stopped(lambda: _account(out, before))
    print(write_sample(grammar, pairs, seed, out, noise=noise))


def _files(out: Path) -> dict[str, tuple[int, int] | None]:
    return {path.name: identify_file(path) for path in sorted(out.glob("[!.]*"))}


def _account(out: Path, before: dict[str, tuple[int, int] | None]) -> str:
    new = [name for name, known in _files(out).items() if known != before.get(name)]
    done = f"{', '.join(new)} are whole; nothing else" if new else "nothing"
    return f"{done} was written to {out}; run the same command again"
