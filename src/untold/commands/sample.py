"""`untold sample` writes a corpus from a grammar."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import LARGEST_SEED, identify_file, number_option
from untold.stopping import say_if_stopped

__all__ = ["sample"]

Seed = Annotated[int, number_option(0, LARGEST_SEED, "The same seed gives the same corpus.")]
Noise = Annotated[
    float, number_option(0.0, 0.99, "Share of training references that lose a clause.")
]


def sample(
    grammar: Annotated[str, typer.Argument(help="en-de, zh-en, or a .grammar file.")],
    out: Annotated[Path, typer.Option(help="The directory to write to.")],
    pairs: Annotated[int, number_option(1, 10_000_000, "Training pairs.")] = 20_000,
    seed: Seed = 7,
    noise: Noise = 0.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a corpus that is there and differs.")
    ] = False,
) -> None:
    """Write a corpus of a synchronous grammar: train, dev, test, with gold word alignments."""
    from untold.corpus.grammars import write_sample
    from untold.durable import move_files, scratch_directory

    before = _files(out)
    say_if_stopped(lambda: _account(out, before))
    if not overwrite or not out.is_dir():
        print(write_sample(grammar, pairs, seed, out, noise=noise))
        return
    with scratch_directory(out / "sample") as folder:
        report = write_sample(grammar, pairs, seed, folder, noise=noise)
        move_files(folder, out)
    print(replace(report, out=out))


def _files(out: Path) -> dict[str, tuple[int, int] | None]:
    return {path.name: identify_file(path) for path in sorted(out.glob("[!.]*"))}


def _account(out: Path, before: dict[str, tuple[int, int] | None]) -> str:
    new = [name for name, known in _files(out).items() if known != before.get(name)]
    done = f"{', '.join(new)} are whole; nothing else" if new else "nothing"
    return f"{done} was written to {out}; run the same command again"
