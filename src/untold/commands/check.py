"""`untold check` finds what translations leave out and what they add."""

from pathlib import Path
from typing import Annotated

import typer

from untold.commands.options import (
    AsJson,
    Model,
    check_output,
    load_trained,
    number_option,
    print_notice,
    say_outputs_if_stopped,
)

FOUND = 1  # the exit code if the check fails

Files = Annotated[
    list[Path] | None, typer.Argument(help="Files with translations, such as .tsv, .po or .xlf.")
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND[:PROBABILITY]",
        help="omission, addition or damage: only these fail; may be given again [all that is "
        "reported].",
    ),
]
Expected = Annotated[
    float, number_option(0.001, 0.999, "The share of segments that are probably damaged.")
]
Columns = Annotated[
    str | None, typer.Option(metavar="SOURCE,TARGET", help="Columns of a table, by name or number.")
]
SourceLanguage = Annotated[
    str | None, typer.Option(help="Which language of a TMX or XLIFF file is the source.")
]
Known = Annotated[
    Path | None, typer.Option("--baseline", help="Report no findings that this file lists.")
]
WriteKnown = Annotated[
    Path | None,
    typer.Option(
        "--write-baseline", help="List all findings in this file, even if it exists, and accept."
    ),
]


def check(
    model: Model,
    files: Files = None,
    source: Annotated[Path | None, typer.Option(help="Plain source text instead.")] = None,
    target: Annotated[Path | None, typer.Option(help="And its translations.")] = None,
    columns: Columns = None,
    source_language: SourceLanguage = None,
    target_language: Annotated[str | None, typer.Option(help="And which the target.")] = None,
    threshold: Annotated[float, number_option(0.0, 1.0, "Report from this probability on.")] = 0.5,
    expected: Expected = 0.1,
    fail_on: FailOn = None,
    budget: Annotated[
        int, number_option(0, 10**9, "So many findings may a file have before the check fails.")
    ] = 0,
    baseline: Known = None,
    write_baseline: WriteKnown = None,
    as_json: AsJson = False,
    sarif: Annotated[Path | None, typer.Option(help="Write SARIF, for code review.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to read and filter.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the summary only.")] = False,
) -> None:
    """Find source words that were never translated, and target words that nothing explains.

    Ends with exit code 1 if the check fails: if something was found, or could not be read.
    """
    from untold.checking.run import CheckInputs, CheckOutputs, check_files, read_columns
    from untold.checking.segments import ReadOptions
    from untold.checking.verdict import Verdict, read_baseline, read_fail_rules

    rules = read_fail_rules(fail_on or [], threshold, budget)
    texts = tuple(path for path in (source, target) if path is not None)
    names = None if columns is None else read_columns(columns)
    options = ReadOptions(names, source_language, target_language)
    inputs = CheckInputs(texts or tuple(files or ()), bool(texts), options)
    printed = None if quiet else "json" if as_json else "table"
    outputs = CheckOutputs(printed, sarif, html, write_baseline)
    for path in outputs.paths:
        check_output(path)
    say_outputs_if_stopped(*outputs.paths)
    known = frozenset() if baseline is None else read_baseline(baseline)
    verdict = Verdict(rules, threshold, known)
    fails = check_files(load_trained(model), inputs, expected, verdict, outputs)
    print_notice(verdict.summary(inputs.files))
    if fails:
        raise typer.Exit(FOUND)
