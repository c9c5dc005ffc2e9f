"""`untold evaluate` scores models and files of translations, one alone or several side by side."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from untold.commands.compared_systems import (
    Family,
    read_families,
    read_outputs,
    read_tests,
    system_outputs,
    translate_test,
)
from untold.commands.options import (
    LARGEST_SEED,
    AsJson,
    Settings,
    check_output,
    load_translator,
    number_option,
    refuse_options_of_other_metrics,
    say_outputs_if_stopped,
)
from untold.errors import UntoldError
from untold.registry import METRICS, metric_has, metrics_with

if TYPE_CHECKING:
    from untold.metrics.base import MetricOptions, Score
    from untold.metrics.comparison import Comparison, ParallelText
    from untold.translator import Translator


Systems = Annotated[
    list[str],
    typer.Argument(help="Models or files of translations: RUN, NAME=RUN, NAME=RUN,RUN (seeds)."),
]
References = Annotated[
    list[Path] | None,
    typer.Option(help="Reference translations, a line each; may be given again."),
]
Tests = Annotated[
    list[str] | None,
    typer.Option(help="NAME=SOURCE,REFERENCE[,REFERENCE...] instead; may be given again."),
]
Against = Annotated[
    str | None, typer.Option(help="The baseline, named like a system: test differences from it.")
]
Metrics = Annotated[
    str | None,
    typer.Option(help="Names, such as bleu,rouge,cdr [bleu,chrf,ter; bleu for a comparison]."),
]
Tokenize = Annotated[
    str | None, typer.Option(help="BLEU's tokenizer: 13a, char, intl, none, zh [the model's].")
]
Alignments = Annotated[
    Path | None, typer.Option(help="Word alignments: measure past, future and redundant instead.")
]
Out = Annotated[
    Path | None, typer.Option(help="Write the translations to this file, even if it exists.")
]
Samples = Annotated[int, number_option(1, 1_000_000, "Trials of each significance test.")]


def evaluate(
    systems: Systems,
    source: Annotated[Path | None, typer.Option(help="Source text, a line each.")] = None,
    reference: References = None,
    test: Tests = None,
    against: Against = None,
    metrics: Metrics = None,
    tokenize: Tokenize = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    aligner: Annotated[
        Path | None, typer.Option(help="For cdr: what untold align --save wrote.")
    ] = None,
    alignments: Alignments = None,
    samples: Samples = 1000,
    seed: Annotated[int, number_option(0, LARGEST_SEED, "Of the trials.")] = 1,
    out: Out = None,
    settings: Settings = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Translate a test set and score it: BLEU, chrF, TER, ROUGE, coverage, with signatures.

    With --against or --test it prints a table of systems, with the significance of differences.
    With --alignments nothing is translated: the references are read word by word, and what the
    model takes for said and for untold is compared with the truth.
    """
    check_output(out)
    say_outputs_if_stopped(out)
    families = read_families([*([] if against is None else [against]), *systems])
    tests = read_tests(source, reference or [], test or [])
    if len(families) > 1 and against is None:
        raise UntoldError(
            f"{len(families)} systems, but no baseline: name the one that the others are compared "
            "with as --against RUN"
        )
    if against is not None or test or len(families[0].runs) > 1:
        _refuse_idle(aligner=aligner, alignments=alignments, out=out)
        chosen = _Scoring(metrics or "bleu", tokenize, lowercase, samples, seed)
        _print_comparison(_compare(families, tests, settings, chosen), markdown, as_json)
        return
    (run,), (text,) = families[0].runs, tests
    if alignments is not None:
        _measure_separation(run, text, alignments, settings, as_json)
        return
    names = [name.strip() for name in (metrics or "bleu,chrf,ter").split(",")]
    translator = None if run.is_file() else load_translator(run, settings)
    from untold.metrics.base import MetricOptions, score_corpus

    options = MetricOptions(tokenize or _tokenizer(translator), lowercase, aligner)
    chosen_metrics = _make_metrics(names, options, len(text.further_references))
    refuse_options_of_other_metrics(names, tokenize=tokenize, lowercase=lowercase)
    hypotheses = read_outputs(run, text) if translator is None else translate_test(translator, text)
    if out is not None:
        from untold.files import write_file

        write_file(out, "".join(f"{line}\n" for line in hypotheses).encode())
    given = text.sources, text.references, hypotheses, text.further_references
    _print_scores(score_corpus(chosen_metrics, *given), as_json)


def compare() -> None:
    """Say what took the place of this command."""
    raise UntoldError(
        "untold compare A B --test ... is now untold evaluate B --against A --test ..., with "
        "--metrics instead of --metric; untold reproduce speed measures speeds"
    )


@dataclass(frozen=True)
class _Scoring:
    """How systems are compared."""

    metric: str
    tokenize: str | None
    lowercase: bool
    samples: int
    seed: int


def _refuse_idle(**options: Path | None) -> None:
    for name, value in options.items():
        if value is not None:
            raise UntoldError(
                f"--{name} {value} has no effect where systems are compared: leave it out"
            )


def _compare(
    families: Sequence[Family],
    tests: "Sequence[ParallelText]",
    settings: Sequence[str] | None,
    chosen: _Scoring,
) -> "Comparison":
    from untold.metrics.base import MetricOptions, make_metric
    from untold.metrics.comparison import Trials, compare_outputs

    if not metric_has(chosen.metric, "sacrebleu_metric"):
        known = ", ".join(metrics_with("sacrebleu_metric"))
        raise UntoldError(
            f"--metrics {chosen.metric}: systems are compared by one metric of: {known}"
        )
    refuse_options_of_other_metrics(
        [chosen.metric], tokenize=chosen.tokenize, lowercase=chosen.lowercase
    )
    baseline = families[0].runs[0]
    translator = None if baseline.is_file() else load_translator(baseline, settings)
    options = MetricOptions(chosen.tokenize or _tokenizer(translator), chosen.lowercase)
    metric = make_metric(chosen.metric, options).sacrebleu_metric()
    outputs = system_outputs(families, tests, settings)
    return compare_outputs(metric, outputs, tests, Trials(chosen.samples, chosen.seed))


def _tokenizer(translator: "Translator | None") -> str:
    return "13a" if translator is None else translator.data.bleu_tokenize


def _print_comparison(comparison: "Comparison", markdown: bool, as_json: bool) -> None:
    from untold.metrics.comparison import comparison_markdown, comparison_record, print_comparison

    if as_json:
        print(json.dumps(comparison_record(comparison), ensure_ascii=False))
    elif markdown:
        print(comparison_markdown(comparison))
    else:
        print_comparison(comparison)


def _measure_separation(
    run: Path, test: "ParallelText", alignments: Path, settings: Any, as_json: bool
) -> None:
    """Compares past and future of a model with word alignments."""
    from untold.metrics.base import legend_lines
    from untold.metrics.separation import read_aligned_pairs, separation_report

    _refuse_further(len(test.further_references), "this measure")
    translator = load_translator(run, settings, ("batch_tokens",))
    pairs = read_aligned_pairs(list(test.sources), list(test.references), alignments)
    report = separation_report(translator, pairs)
    shown = [*report.lines(), *legend_lines(report.meanings())]
    print(json.dumps(asdict(report)) if as_json else "\n".join(shown))


def _make_metrics(names: list[str], options: "MetricOptions", further: int) -> list[Any]:
    """Makes all metrics before anything is translated, so that mistakes are found early."""
    from untold.metrics.base import make_metrics

    metrics = make_metrics(names, options)
    for name in names:
        if not metric_has(name, "multi_reference_scores"):
            _refuse_further(further, name)
    if options.aligner is not None and not any(
        getattr(METRICS[name], "needs_aligner", False) for name in names
    ):
        raise UntoldError(f"--aligner {options.aligner} is for cdr: add it to --metrics")
    return metrics


def _refuse_further(further: int, what: str) -> None:
    if further:
        raise UntoldError(
            f"{further + 1} --reference files, but {what} compares with one: give one, or "
            f"only metrics that take several: {', '.join(metrics_with('multi_reference_scores'))}"
        )


def _print_scores(scores: "list[Score]", as_json: bool) -> None:
    from untold.metrics.base import legend_lines, score_lines

    if as_json:
        records = [asdict(score) for score in scores]
        print(json.dumps([{k: v for k, v in each.items() if k != "meaning"} for each in records]))
        return
    aligned = sys.stdout is not None and sys.stdout.isatty()
    for line in score_lines(scores, aligned=aligned):
        print(line)
    for line in legend_lines((score.name, score.meaning) for score in scores):
        print(line)
