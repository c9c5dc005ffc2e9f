"""`untold clean` drops the pairs of a training corpus that leave out or add too much."""

from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import (
    Model,
    check_output,
    load_trained,
    number_option,
    print_notice,
    say_outputs_if_stopped,
)
from untold.errors import UntoldError

_THRESHOLD = 0.9

Threshold = Annotated[
    float | None,
    number_option(0.0, 1.0, f"Drop pairs that omit or add with this probability [{_THRESHOLD}]."),
]
Keep = Annotated[
    float | None, number_option(0.0, 1.0, "Keep this share of the pairs instead, the best ones.")
]
Scores = Annotated[
    Path | None, typer.Option(help="Write line, omission and addition of each pair, by tabs.")
]


def clean(
    model: Model,
    source: Annotated[Path | None, typer.Option(help="Source text, a line each.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translations, a line each.")] = None,
    out_source: Annotated[Path | None, typer.Option(help="Source lines that are kept.")] = None,
    out_target: Annotated[Path | None, typer.Option(help="And their translations.")] = None,
    table: Annotated[Path | None, typer.Option(help="A .tsv or .jsonl file instead.")] = None,
    out: Annotated[Path | None, typer.Option(help="Its lines that are kept.")] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="SOURCE,TARGET", help="Columns of the table.")
    ] = None,
    keep: Keep = None,
    threshold: Threshold = None,
    scores: Scores = None,
    drop_unchecked: Annotated[
        bool, typer.Option("--drop-unchecked", help="Drop also blank and too long pairs.")
    ] = False,
) -> None:
    """Write the pairs of a corpus that a model finds complete, in their order."""
    from untold.checking.clean import CorpusFiles, KeepRule, clean_corpus

    if keep is not None and threshold is not None:
        raise UntoldError("--keep and --threshold both choose pairs: give one")
    least = _THRESHOLD if keep is None and threshold is None else threshold
    corpus = (
        CorpusFiles.of_table(table, out, columns)
        if table is not None
        else CorpusFiles.of_texts((source, target), (out_source, out_target))
    )
    outputs = (*corpus.outputs, scores)
    for path in outputs:
        check_output(path)
    if scores is not None and scores in (*corpus.inputs, *corpus.outputs):
        raise UntoldError(f"{scores}: is another file of this command: choose another --scores")
    say_outputs_if_stopped(*outputs)
    trained = load_trained(model)
    rule = KeepRule(keep, least, not drop_unchecked)
    cleaned = clean_corpus(trained, corpus, rule, scores)
    for line in cleaned.first_damages():
        print_notice(line)
    print(f"{corpus.outputs[0]}: {cleaned.summary(rule)}")
