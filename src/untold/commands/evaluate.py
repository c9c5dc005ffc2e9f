"""`untold evaluate` scores a model on a test set.

`untold compare` compares runs on test sets.

The runs and test sets of `untold compare`: reads them, translates with them and times them.

Words the scores of `untold evaluate` for a person: a line each, and a legend below them.

Draws the reliability diagram: what probabilities said, against what was true.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from matplotlib.figure import Figure

from untold.commands.options import (
    LARGEST_SEED,
    AsJson,
    Model,
    Settings,
    check_output,
    load_translator,
    number_option,
    print_notice,
    refuse_options_of_other_metrics,
    say_outputs_if_stopped,
)
from untold.corpus.text import read_references
from untold.errors import UntoldError
from untold.explain.figures import MARGIN, Canvas, render
from untold.lab.speed import race_runs
from untold.metrics.base import Score
from untold.metrics.significance import Comparison, ParallelText, SystemOutputs
from untold.progress_bar import Task, task
from untold.registry import metric_has, metrics_with
from untold.storage.calibration import ReliabilityBin
from untold.storage.summary import Parameters, count_parameters
from untold.translator import Translator

if TYPE_CHECKING:
    from untold.metrics.base import MetricOptions, Score
    from untold.translator import Translator


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
    from untold.corpus.text import read_references
    from untold.metrics.base import MetricOptions, score_corpus

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

    if not omissions:
        raise UntoldError(f"--diagram {diagram} shows --omissions: give that, too")
    check_output(diagram)
    check_diagram(diagram)


def _print_report(report: Any, diagram: Path | None, as_json: bool) -> None:

    if diagram is not None:
        _draw(diagram, report)
    shown = [*report.lines(), *legend_lines(report.meanings())]
    print(json.dumps(asdict(report)) if as_json else "\n".join(shown))


def _draw(diagram: Path, report: Any) -> None:
    from untold.files import write_file

    if report.calibration_error is None:
        raise UntoldError("the model has no probabilities to draw: run untold calibrate first")
    kind = check_diagram(diagram)
    write_file(diagram, reliability_diagram(report.reliability, report.calibration_error, kind))


def _measure_separation(
    translator: "Translator", texts: tuple[list[str], list[str]], alignments: Path | None
) -> Any:
    """Compares past and future with word alignments or, without them, with bags of words."""
    if alignments is not None:
        from untold.metrics.separation import read_aligned_pairs, separation_report

        return separation_report(translator, read_aligned_pairs(*texts, alignments))
    from untold.lab.analysis import measure_overlap

    return measure_overlap(translator.models[0], list(zip(*texts, strict=True)))


def _measure_omissions(
    aligner: Path | None,
    translator: "Translator",
    texts: tuple[list[str], list[str]],
    alignments: Path | None,
) -> Any:
    """Finds omissions that are made, and those of the model's own translations, in all ways."""
    from untold.alignment.aligners import load_aligner
    from untold.lab.omission_benchmark import (
        damaged_sets,
        natural_set,
        omission_report,
        omission_scorers,
    )
    from untold.metrics.separation import read_aligned_pairs

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
    from untold.metrics.base import make_metrics
    from untold.registry import METRICS

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
    from untold.files import write_file

    with task("translating", len(sources)) as begun:
        translations = translator.with_progress(begun.advance).translate(sources)
    hypotheses = [each.text for each in translations]
    if out is not None:
        write_file(out, "".join(f"{text}\n" for text in hypotheses).encode())
    return hypotheses


def _print_scores(scores: "list[Score]", as_json: bool) -> None:

    if as_json:
        records = [asdict(each) for each in scores]
        print(json.dumps([{k: v for k, v in each.items() if k != "meaning"} for each in records]))
        return
    aligned = sys.stdout is not None and sys.stdout.isatty()
    for line in score_lines(scores, aligned=aligned):
        print(line)
    for line in legend_lines((each.name, each.meaning) for each in scores):
        print(line)


Runs = Annotated[
    list[str], typer.Argument(help="RUN, NAME=RUN or NAME=RUN,RUN (seeds); the baseline first.")
]
Tests = Annotated[
    list[str], typer.Option(help="NAME=SOURCE,REFERENCE[,REFERENCE...]; may be given again.")
]
Tokenize_compare = Annotated[
    str | None, typer.Option(help="BLEU's tokenizer, as in evaluate [the baseline's].")
]

Samples = Annotated[int, number_option(1, 1_000_000, "Trials of each significance test.")]


def compare(
    runs: Runs,
    test: Tests,
    metric: Annotated[str, typer.Option(help="bleu, chrf or multi-bleu.")] = "bleu",
    tokenize: Tokenize_compare = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    samples: Samples = 1000,
    seed: Annotated[int, number_option(0, LARGEST_SEED, "Of the trials.")] = 1,
    rounds: Annotated[int, number_option(1, 1000, "Of the race for speed.")] = 5,
    no_speed: Annotated[bool, typer.Option("--no-speed", help="Leave speeds out.")] = False,
    settings: Settings = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs: sizes, speeds, scores on test sets, and significance against the first."""
    from untold.lab.statistics import comparison_markdown, comparison_record, print_comparison
    from untold.metrics.base import MetricOptions, make_metric
    from untold.metrics.significance import Trials, compare_outputs

    say_outputs_if_stopped()
    compared = ComparedRuns(read_families(runs), read_tests(test), tuple(settings or ()))
    _check_metric(metric)
    refuse_options_of_other_metrics([metric], tokenize=tokenize, lowercase=lowercase)
    options = MetricOptions(tokenize or compared.load_baseline().data.bleu_tokenize, lowercase)
    scorer = make_metric(metric, options).sacrebleu_metric()
    trials = Trials(samples, seed)
    comparison = compare_outputs(scorer, compared.translate(), compared.tests, trials)
    if not no_speed:
        comparison = with_speeds(comparison, compared, rounds)
    if as_json:
        print(json.dumps(comparison_record(comparison), ensure_ascii=False))
    elif markdown:
        print(comparison_markdown(comparison))
    else:
        print_comparison(comparison)


def _check_metric(name: str) -> None:
    """Refuses a metric that has no statistics for the significance tests."""
    from untold.registry import metric_has, metrics_with

    if not metric_has(name, "sacrebleu_metric"):
        known = ", ".join(metrics_with("sacrebleu_metric"))
        raise UntoldError(f"unknown metric {name}; known: {known}")


@dataclass(frozen=True)
class Family:
    """A row of the table: one run, or several runs that differ in their seeds."""

    name: str
    runs: tuple[Path, ...]


@dataclass(frozen=True)
class ComparedRuns:
    """Families of runs, the test sets that all of them translate, and values of --set for all."""

    families: Sequence[Family]
    tests: Sequence[ParallelText]
    settings: tuple[str, ...] = ()

    def load_baseline(self) -> Translator:
        """Loads the first run of the first family."""
        return self.load(self.families[0].runs[0])

    def load(self, run: Path) -> Translator:
        """Loads a run with the settings that are common to all."""
        return load_translator(run, self.settings)

    def translate(self) -> list[SystemOutputs]:
        """Translates every test set with every run, once all runs have been loaded and checked."""
        sizes = [self._size(family) for family in self.families]
        runs = sum(len(family.runs) for family in self.families)
        with task("comparing", runs * len(self.tests)) as begun:
            return [
                SystemOutputs(
                    family.name, size, [self._translations(run, begun) for run in family.runs]
                )
                for family, size in zip(self.families, sizes, strict=True)
            ]

    def _size(self, family: Family) -> Parameters:
        """Counts the parameters of a family, whose runs must agree."""
        sizes = [count_parameters(self.load(run).models[0].model) for run in family.runs]
        if len(set(sizes)) > 1:
            raise UntoldError(
                f"{family.name}: its runs have {', '.join(f'{size.total:,}' for size in sizes)} "
                "parameters, but the runs of one row differ in nothing but their seeds"
            )
        return sizes[0]

    def _translations(self, run: Path, comparing: Task) -> list[list[str]]:
        translator, texts = self.load(run), []
        for test in self.tests:
            with task(f"translating {test.name} with {run}", len(test.sources)) as begun:
                found = translator.with_progress(begun.advance).translate(test.sources)
            texts.append([each.text for each in found])
            comparing.advance()
        return texts


def with_speeds(comparison: Comparison, compared: ComparedRuns, rounds: int) -> Comparison:
    """Adds speeds to a comparison; the first run of each family races on the first test set."""
    racers = {family.name: compared.load(family.runs[0]) for family in compared.families}
    speeds = race_runs(racers, compared.tests[0], rounds)
    return replace(comparison, training=speeds.training, decoding=speeds.decoding)


def read_families(given: Sequence[str]) -> list[Family]:
    """Parses RUN, which is named after its directory, NAME=RUN and NAME=RUN,RUN."""
    found: dict[str, Family] = {}
    for text in given:
        family = _family(text)
        if family.name in found:
            raise UntoldError(
                f"two rows are called {family.name}: call one of them otherwise, as in "
                f"OTHER={','.join(map(str, family.runs))}"
            )
        found[family.name] = family
    return list(found.values())


def read_tests(given: Sequence[str]) -> list[ParallelText]:
    """Parses NAME=SOURCE,REFERENCE and reads the files; no name may occur twice.

    More references of the same sentences may follow the first.
    """
    if not given:
        raise UntoldError("no test set: give one as --test NAME=SOURCE,REFERENCE")
    found: dict[str, ParallelText] = {}
    for text in given:
        name, _, files = text.partition("=")
        paths = files.split(",")
        if not name or len(paths) < 2 or not all(paths):
            raise UntoldError(f"--test {text}: write it as NAME=SOURCE,REFERENCE")
        if name in found:
            raise UntoldError(f"--test {text}: two test sets are called {name}: rename one")
        source, *references = map(Path, paths)
        sources, (first, *further) = read_references(source, references, print_notice)
        found[name] = ParallelText(name, sources, first, further)
    return list(found.values())


def _family(text: str) -> Family:
    name, equals, runs = text.partition("=")
    if not equals or Path(text).exists():
        return Family(Path(text).resolve().name, (Path(text),))
    paths = tuple(Path(run) for run in runs.split(",") if run)
    if not name or not paths:
        raise UntoldError(f"{text}: write a row as RUN, NAME=RUN or NAME=RUN,RUN")
    if len(set(paths)) < len(paths):
        raise UntoldError(f"{text}: names the same run twice")
    return Family(name, paths)


def score_lines(scores: Sequence[Score], *, aligned: bool) -> list[str]:
    """Formats a line for each score; `aligned` makes columns, which a terminal shows best."""
    name = max((len(each.name) for each in scores), default=0) if aligned else 0
    value = 6 if aligned else 0
    details = max((len(each.details) for each in scores), default=0) if aligned else 0
    return [
        f"{each.name:<{name}} {each.value:>{value}.2f} {each.details:<{details}}"
        f"  [{each.signature}]"
        for each in scores
    ]


def legend_lines(meanings: Iterable[tuple[str, str]]) -> list[str]:
    """Formats a legend of names and what they mean; names with the same meaning share a line.

    "higher is better: words that fit" becomes "NAME (higher is better): words that fit". The lines
    are indented, so that a search for a name at the start of a line finds its figures.
    """
    rows: dict[str, list[str]] = {}
    for name, meaning in meanings:
        if meaning:
            rows.setdefault(meaning, []).append(name)
    lines = []
    for meaning, names in rows.items():
        better, colon, text = meaning.partition(": ")
        row = f"  {', '.join(names)}"
        lines.append(f"{row} ({better}): {text}" if colon else f"{row}: {meaning}")
    return ["", *lines] if lines else []


_SIDE = 3.2  # inches of the square
_KINDS = ("png", "svg")


def check_diagram(path: Path) -> str:
    """Returns the format that the suffix names; refuses others."""
    kind = path.suffix.removeprefix(".").lower()
    if kind not in _KINDS:
        raise UntoldError(f"{path}: a diagram is a .png or .svg file: choose one of them")
    return kind


def reliability_diagram(bins: Sequence[ReliabilityBin], error: float, kind: str) -> bytes:
    """Draws one point for each bin, as large as it has words, and the line of perfection."""

    def draw() -> Figure:
        size = _SIDE + 4 * MARGIN
        canvas = Canvas(Figure(figsize=(size, size + 2 * MARGIN)))
        axes = canvas.axes(3 * MARGIN, 2.5 * MARGIN, _SIDE, _SIDE)
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=1.0, linestyle="--")
        said, true = [each.said for each in bins], [each.true for each in bins]
        most = max((each.count for each in bins), default=1)
        sizes = [20 + 180 * (each.count / most) ** 0.5 for each in bins]
        axes.plot(said, true, color="C0", linewidth=1.0)
        axes.scatter(said, true, s=sizes, color="C0", alpha=0.8, clip_on=False, zorder=3)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability said", ylabel="share omitted")
        axes.set_aspect("equal")
        words = sum(each.count for each in bins)
        title = f"{words:,} words, expected calibration error {error:.4f}"
        canvas.text(MARGIN, MARGIN, title, size=9.0)
        return canvas.figure

    return render(draw, [], kind)
