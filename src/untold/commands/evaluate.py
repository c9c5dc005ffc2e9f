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
Seed = Annotated[int, number_option(0, LARGEST_SEED, "Of the trials.")]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Ignore case.")]
AlignerPath = Annotated[Path | None, typer.Option(help="For cdr: what untold align --save wrote.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]


def evaluate(
    systems: Systems,
    source: Annotated[Path | None, typer.Option(help="Source text, a line each.")] = None,
    reference: References = None,
    test: Tests = None,
    against: Against = None,
    metrics: Metrics = None,
    tokenize: Tokenize = None,
    lowercase: Lowercase = False,
    aligner: AlignerPath = None,
    alignments: Alignments = None,
    samples: Samples = 1000,
    seed: Seed = 1,
    out: Out = None,
    settings: Settings = None,
    markdown: Markdown = False,
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
    scoring = _Scoring(metrics, tokenize, lowercase, aligner, settings)
    if against is not None or test or len(families[0].runs) > 1:
        _refuse_idle(aligner=aligner, alignments=alignments, out=out)
        comparison = _compare(families, tests, scoring, (samples, seed))
        _print_comparison(comparison, markdown, as_json)
    elif alignments is not None:
        _measure_separation(families[0].runs[0], tests[0], alignments, settings, as_json)
    else:
        _print_scores(_score(families[0].runs[0], tests[0], scoring, out), as_json)


def compare() -> None:
    """Say what took the place of this command."""
    raise UntoldError(
        "untold compare A B --test ... is now untold evaluate B --against A --test ..., with "
        "--metrics instead of --metric; untold reproduce speed measures speeds"
    )


@dataclass(frozen=True)
class _Scoring:
    """How translations are made and scored."""

    metrics: str | None
    tokenize: str | None
    lowercase: bool
    aligner: Path | None
    settings: Sequence[str] | None

    def options(self, names: Sequence[str], translator: "Translator | None") -> "MetricOptions":
        from untold.metrics.base import MetricOptions

        refuse_options_of_other_metrics(names, tokenize=self.tokenize, lowercase=self.lowercase)
        tokenize = "13a" if translator is None else translator.data.bleu_tokenize
        return MetricOptions(self.tokenize or tokenize, self.lowercase, self.aligner)


def _score(run: Path, test: "ParallelText", scoring: _Scoring, out: Path | None) -> "list[Score]":
    """Scores one model, or one file of translations."""
    names = [name.strip() for name in (scoring.metrics or "bleu,chrf,ter").split(",")]
    translator = None if run.is_file() else load_translator(run, scoring.settings)
    from untold.metrics.base import score_corpus

    metrics = _make_metrics(names, scoring.options(names, translator), test)
    hypotheses = read_outputs(run, test) if translator is None else translate_test(translator, test)
    if out is not None:
        from untold.files import write_file

        write_file(out, "".join(f"{line}\n" for line in hypotheses).encode())
    given = test.sources, test.references, hypotheses, test.further_references
    return score_corpus(metrics, *given)


def _refuse_idle(**options: Path | None) -> None:
    for name, value in options.items():
        if value is not None:
            raise UntoldError(
                f"--{name} {value} has no effect where systems are compared: leave it out"
            )


def _compare(
    families: Sequence[Family],
    tests: "Sequence[ParallelText]",
    scoring: _Scoring,
    trials: tuple[int, int],
) -> "Comparison":
    from untold.metrics.base import make_metric
    from untold.metrics.comparison import Trials, compare_outputs

    name, baseline = scoring.metrics or "bleu", families[0].runs[0]
    if not metric_has(name, "sacrebleu_metric"):
        known = ", ".join(metrics_with("sacrebleu_metric"))
        raise UntoldError(f"--metrics {name}: systems are compared by one metric of: {known}")
    translator = None if baseline.is_file() else load_translator(baseline, scoring.settings)
    metric = make_metric(name, scoring.options([name], translator)).sacrebleu_metric()
    outputs = system_outputs(families, tests, scoring.settings)
    return compare_outputs(metric, outputs, tests, Trials(*trials))


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

    _refuse_further(test, "this measure")
    translator = load_translator(run, settings, ("batch_tokens",))
    pairs = read_aligned_pairs(list(test.sources), list(test.references), alignments)
    report = separation_report(translator, pairs)
    shown = [*report.lines(), *legend_lines(report.meanings())]
    print(json.dumps(asdict(report)) if as_json else "\n".join(shown))


def _make_metrics(names: list[str], options: "MetricOptions", test: "ParallelText") -> list[Any]:
    """Makes all metrics before anything is translated, so that mistakes are found early."""
    from untold.metrics.base import make_metrics

    metrics = make_metrics(names, options)
    for name in names:
        if not metric_has(name, "multi_reference_scores"):
            _refuse_further(test, name)
    if options.aligner is not None and not any(
        getattr(METRICS[name], "needs_aligner", False) for name in names
    ):
        raise UntoldError(f"--aligner {options.aligner} is for cdr: add it to --metrics")
    return metrics


def _refuse_further(test: "ParallelText", what: str) -> None:
    if count := len(test.further_references):
        known = ", ".join(metrics_with("multi_reference_scores"))
        raise UntoldError(
            f"{count + 1} --reference files, but {what} compares with one: give one, or only "
            f"metrics that take several: {known}"
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
