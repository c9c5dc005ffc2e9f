"""`untold evaluate` scores a model on a test set."""

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from untold.commands.options import (
    AsJson,
    Model,
    Settings,
    check_output,
    load_translator,
    print_notice,
    refuse_options_of_other_metrics,
    say_outputs_if_stopped,
)
from untold.errors import UntoldError
from untold.feedback import task
from untold.metric_registry import metric_has, metrics_with

if TYPE_CHECKING:
    from untold.evaluation.metrics import MetricOptions, Score
    from untold.translator import Translator

__all__ = ["evaluate"]

References = Annotated[
    list[Path], typer.Option(help="Reference translations, a line each; may be given again.")
]
Metrics = Annotated[
    str, typer.Option(help="Names, such as bleu,rouge,cdr; a wrong name prints all that there are.")
]
Tokenize = Annotated[
    str | None, typer.Option(help="BLEU's tokenizer: 13a, char, intl, none, zh [the model's].")
]
Alignments = Annotated[
    Path | None, typer.Option(help="Word alignments: measure past, future and redundant instead.")
]
OmissionsFlag = Annotated[
    bool, typer.Option("--omissions", help="With alignments: measure how omissions are found.")
]
Diagram = Annotated[
    Path | None, typer.Option(help="With omissions: draw said against true, as .png or .svg.")
]
OverlapFlag = Annotated[
    bool, typer.Option("--overlap", help="Measure what past and future bags know instead.")
]
Out = Annotated[
    Path | None, typer.Option(help="Write the translations to this file, even if it exists.")
]


def evaluate(
    model: Model,
    source: Annotated[Path, typer.Option(help="Source text, a line each.")],
    reference: References,
    metrics: Metrics = "bleu,chrf,ter",
    tokenize: Tokenize = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    aligner: Annotated[
        Path | None, typer.Option(help="For cdr, omissions: what untold align --save wrote.")
    ] = None,
    alignments: Alignments = None,
    omissions: OmissionsFlag = False,
    diagram: Diagram = None,
    overlap: OverlapFlag = False,
    out: Out = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Translate a test set and score it: BLEU, chrF, TER, ROUGE, coverage, with signatures.

    With alignments or overlap nothing is translated: the references are read word by word, and what
    the model takes for said and for untold is compared with the truth.
    """
    from untold.corpus.lines import read_references
    from untold.evaluation.metrics import MetricOptions, score_corpus

    check_output(out)
    say_outputs_if_stopped(out, diagram)
    _refuse_idle_aligner(aligner, alignments, omissions)
    _check_diagram(diagram, omissions)
    used = None if alignments is None or omissions else ("batch_tokens",)
    translator = load_translator(model, settings, used)
    sources, (references, *further) = read_references(source, reference, print_notice)
    texts = (sources, references)
    if alignments is not None or overlap or omissions:
        _refuse_further_references(further, "this measure")
        measure = partial(_measure_omissions, aligner) if omissions else _measure_separation
        _print_report(measure(translator, texts, alignments), diagram, as_json)
        return
    options = MetricOptions(tokenize or translator.data.bleu_tokenize, lowercase, aligner)
    names = [name.strip() for name in metrics.split(",")]
    made = _make_metrics(names, options, further)
    refuse_options_of_other_metrics(names, tokenize=tokenize, lowercase=lowercase)
    hypotheses = _translate(translator, sources, out)
    _print_scores(score_corpus(made, *texts, hypotheses, further), as_json)


def _refuse_idle_aligner(aligner: Path | None, alignments: Path | None, omissions: bool) -> None:
    if aligner is not None and alignments is not None and not omissions:
        raise UntoldError(
            f"--aligner {aligner} has no effect beside --alignments, unless --omissions are "
            "measured: leave out one of them"
        )


def _refuse_further_references(further: list[list[str]], what: str) -> None:
    if further:
        raise UntoldError(
            f"{len(further) + 1} --reference files, but {what} compares with one: give one, or "
            f"only metrics that take several: {', '.join(metrics_with('multi_reference_scores'))}"
        )


def _check_diagram(diagram: Path | None, omissions: bool) -> None:
    """Finds mistakes before minutes of work."""
    if diagram is None:
        return
    from untold.report.reliability_figure import check_diagram

    if not omissions:
        raise UntoldError(f"--diagram {diagram} shows --omissions: give that, too")
    check_output(diagram)
    check_diagram(diagram)


def _print_report(report: Any, diagram: Path | None, as_json: bool) -> None:
    from untold.report.score_table import legend_lines

    if diagram is not None:
        _draw(diagram, report)
    shown = [*report.lines(), *legend_lines(report.meanings())]
    print(json.dumps(asdict(report)) if as_json else "\n".join(shown))


def _draw(diagram: Path, report: Any) -> None:
    from untold.durable import write_file
    from untold.report.reliability_figure import check_diagram, reliability_diagram

    if report.calibration_error is None:
        raise UntoldError("the model has no probabilities to draw: run untold calibrate first")
    kind = check_diagram(diagram)
    write_file(diagram, reliability_diagram(report.reliability, report.calibration_error, kind))


def _measure_separation(
    translator: "Translator", texts: tuple[list[str], list[str]], alignments: Path | None
) -> Any:
    """Compares past and future with word alignments or, without them, with bags of words."""
    if alignments is not None:
        from untold.evaluation.separation_report import read_aligned_pairs, separation_report

        return separation_report(translator, read_aligned_pairs(*texts, alignments))
    from untold.evaluation.bow_overlap import measure_overlap

    return measure_overlap(translator.models[0], list(zip(*texts, strict=True)))


def _measure_omissions(
    aligner: Path | None,
    translator: "Translator",
    texts: tuple[list[str], list[str]],
    alignments: Path | None,
) -> Any:
    """Finds omissions that are made, and those of the model's own translations, in all ways."""
    from untold.alignment.aligner import load_aligner
    from untold.evaluation.omission_report import omission_report
    from untold.evaluation.omission_scorers import omission_scorers
    from untold.evaluation.omission_sets import damaged_sets, natural_set
    from untold.evaluation.separation_report import read_aligned_pairs

    if alignments is None:
        raise UntoldError("--omissions needs --alignments: links say which words were left out")
    links = None if aligner is None else load_aligner(aligner)
    pairs = read_aligned_pairs(*texts, alignments)
    scorers = omission_scorers(translator, links)
    natural = natural_set(pairs, _translate(translator, texts[0], None), links)
    return omission_report([*damaged_sets(pairs), natural], scorers)


def _make_metrics(
    names: list[str], options: "MetricOptions", further: list[list[str]]
) -> list[Any]:
    """Makes all metrics before anything is translated, so that mistakes are found early."""
    from untold.evaluation.metrics import METRICS, make_metrics

    made = make_metrics(names, options)
    for name in names:
        if not metric_has(name, "multi_reference_scores"):
            _refuse_further_references(further, name)
    if options.aligner is not None and not any(
        getattr(METRICS[name], "needs_aligner", False) for name in names
    ):
        raise UntoldError(f"--aligner {options.aligner} is for cdr: add it to --metrics")
    return made


def _translate(translator: "Translator", sources: list[str], out: Path | None) -> list[str]:
    from untold.durable import write_file

    with task("translating", len(sources)) as begun:
        translations = translator.with_progress(begun.advance).translate(sources)
    hypotheses = [each.text for each in translations]
    if out is not None:
        write_file(out, "".join(f"{text}\n" for text in hypotheses).encode())
    return hypotheses


def _print_scores(scores: "list[Score]", as_json: bool) -> None:
    from untold.report.score_table import legend_lines, score_lines

    if as_json:
        records = [asdict(each) for each in scores]
        print(json.dumps([{k: v for k, v in each.items() if k != "meaning"} for each in records]))
        return
    aligned = sys.stdout is not None and sys.stdout.isatty()
    for line in score_lines(scores, aligned=aligned):
        print(line)
    for line in legend_lines((each.name, each.meaning) for each in scores):
        print(line)
