"""`untold explain` shows how translations came about."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from untold.commands.options import Settings, check_output, load_translator, say_outputs_if_stopped
from untold.errors import UntoldError
from untold.progress_bar import task

if TYPE_CHECKING:
    from untold.explain.explanation import Explanation


_SIDE_BY_SIDE = (".html", ".json")  # have room for another system or for links by people

Target = Annotated[
    list[str] | None, typer.Option(help="Its translation, one for each source [the model's].")
]
Out = Annotated[
    Path | None,
    typer.Option(help="A .html, .json, .png or .svg file, even if it exists [the terminal]."),
]
FigureKind = Annotated[
    Literal["auto", "panels", "overview"],
    typer.Option(help="How .png and .svg are drawn; auto: panels up to 15 words, then overview."),
]
Against = Annotated[
    Path | None, typer.Option(metavar="MODEL", help="Show this model beside it on the page.")
]
Alignments = Annotated[
    Path | None,
    typer.Option(help="True links of each pair, i-j sure, ipj possible, for the page."),
]


def explain(
    source: Annotated[list[str], typer.Option(help="A sentence; may be given again.")],
    model: Annotated[
        Path | None,
        typer.Argument(help="A model directory, a training run, or hf:PATH [the embedded one]."),
    ] = None,
    target: Target = None,
    out: Out = None,
    against: Against = None,
    alignments: Alignments = None,
    figure: FigureKind = "auto",
    settings: Settings = None,
) -> None:
    """Show what was told and what was still untold of a source before each target word.

    Without a model, the small English-German one that comes with untold is used.
    """
    from untold.embedded import embedded_model
    from untold.explain.explanation import beside_another, with_gold_links
    from untold.explain.table import print_explanations
    from untold.explain.write import write_explanations

    say_outputs_if_stopped(out)
    _check_output(out, figure)  # before the model is loaded
    _refuse_other_files(out, against, alignments, target)
    model = model or embedded_model()
    pairs = (source, target or [])
    explanations = _explain(model, pairs, settings)
    if alignments is not None:
        explanations = with_gold_links(explanations, alignments)
    if against is not None:
        others = _explain(against, pairs, settings)
        explanations = beside_another(explanations, others, _short_names(model, against))
    if out is None:
        print_explanations(explanations)
    else:
        with task(f"drawing {out}"):
            write_explanations(out, explanations, figure)
        print(f"{out}: sentences: {len(explanations)}")


def _short_names(one: Path, other: Path) -> tuple[str, str]:
    """Names models by the ends of their paths, as short as they differ: pages are published."""
    names = (str(one), str(other))
    for count in range(max(len(one.parts), len(other.parts)), 0, -1):
        shorter = tuple(str(Path(*path.parts[-count:])) for path in (one, other))
        if shorter[0] == shorter[1] and one != other:
            break
        names = (shorter[0], shorter[1])
    return names


def _explain(
    model: Path, pairs: tuple[list[str], list[str]], settings: list[str] | None
) -> "list[Explanation]":
    from untold.explain.explanation import explain as explain_translations

    translator = load_translator(model, settings, ("batch_tokens",) if pairs[1] else None)
    with task("explaining", len(pairs[0])) as begun:
        return explain_translations(translator.with_progress(begun.advance), *pairs)


def _check_output(out: Path | None, figure: str) -> None:
    from untold.explain.write import check_figure, check_format

    if out is not None:
        check_format(out)
        check_output(out)
    if figure != "auto":
        check_figure(out or Path("the terminal"), figure)


def _refuse_other_files(
    out: Path | None, against: Path | None, alignments: Path | None, target: list[str] | None
) -> None:
    """Refuses what has no room for a second system or for links, and links of no translation."""
    for option, given in (("--against", against), ("--alignments", alignments)):
        if given is not None and (out is None or out.suffix.lower() not in _SIDE_BY_SIDE):
            where = "the terminal" if out is None else out
            raise UntoldError(
                f"{option} {given}: {where} shows one system alone: give --out a name that ends in "
                f"{' or '.join(_SIDE_BY_SIDE)}"
            )
    if alignments is not None and not target:
        raise UntoldError(
            f"--alignments {alignments}: links belong to one translation: give it by --target"
        )
