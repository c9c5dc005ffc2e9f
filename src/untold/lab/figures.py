"""The paper's figures: lengths, separators, sweeps and heat-maps, and the charts of all items."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import ClassVar, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from untold.errors import UntoldError
from untold.explain.explanation import Explanation, explain
from untold.explain.figures import MARGIN, Canvas, draw_shares, render
from untold.lab.analysis import interesting_pairs
from untold.lab.items import Evidence, EvidenceItem, EvidenceTable, Picture, SystemsItem, number
from untold.lab.runner import Workshop
from untold.lab.scores import compare_systems, pair_table, score_figures, score_notes, score_table
from untold.lab.systems import System
from untold.metrics.base import corpus_scores
from untold.storage.calibration import ReliabilityBin

_WIDTH, _HEIGHT = 5.0, 3.2  # inches of the axes
_MARKS = "osD^vPX*"


class ChartLine(NamedTuple):
    """One line of a chart; a value of None leaves a gap."""

    name: str
    values: Sequence[float | None]


def line_chart(
    places: Sequence[str], lines: Sequence[ChartLine], labels: tuple[str, str], kind: str
) -> bytes:
    """Draws lines over named places; `labels` are those of both axes."""

    def draw() -> Figure:
        canvas, axes = _axes()
        for place, line in enumerate(lines):
            points = [(k, value) for k, value in enumerate(line.values) if value is not None]
            axes.plot(
                [k for k, _ in points],
                [value for _, value in points],
                marker=_MARKS[place % len(_MARKS)],
                label=line.name,
            )
        axes.set_xticks(range(len(places)), places)
        axes.set(xlabel=labels[0], ylabel=labels[1])
        axes.legend(fontsize=8)
        return canvas.figure

    return render(draw, [*places, *(line.name for line in lines)], kind)


def bar_chart(names: Sequence[str], values: Sequence[float], label: str, kind: str) -> bytes:
    """Draws one bar for each name; the axis begins near the smallest value."""

    def draw() -> Figure:
        canvas, axes = _axes()
        axes.bar(range(len(names)), values, color=[f"C{k}" for k in range(len(names))])
        spread = max(values) - min(values) or abs(max(values)) or 1.0
        axes.set_ylim(min(values) - spread, max(values) + 0.2 * spread)
        for place, value in enumerate(values):
            axes.annotate(f"{value:.2f}", (place, value), ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(len(names)), names, rotation=15, ha="right", fontsize=8)
        axes.set(ylabel=label)
        return canvas.figure

    return render(draw, names, kind)


def _axes() -> tuple[Canvas, Axes]:
    canvas = Canvas(Figure(figsize=(_WIDTH + 5 * MARGIN, _HEIGHT + 6 * MARGIN)))
    return canvas, canvas.axes(4 * MARGIN, MARGIN, _WIDTH, _HEIGHT)


_SIDE = 3.2  # inches of the square


def reliability_diagram(bins: Sequence[ReliabilityBin], error: float, kind: str) -> bytes:
    """Draws one point for each bin, as large as it has words, and the line of perfection."""

    def draw() -> Figure:
        size = _SIDE + 4 * MARGIN
        canvas = Canvas(Figure(figsize=(size, size + 2 * MARGIN)))
        axes = canvas.axes(3 * MARGIN, 2.5 * MARGIN, _SIDE, _SIDE)
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=1.0, linestyle="--")
        said, true = [part.said for part in bins], [part.true for part in bins]
        most = max((part.count for part in bins), default=1)
        sizes = [20 + 180 * (part.count / most) ** 0.5 for part in bins]
        axes.plot(said, true, color="C0", linewidth=1.0)
        axes.scatter(said, true, s=sizes, color="C0", alpha=0.8, clip_on=False, zorder=3)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability said", ylabel="share omitted")
        axes.set_aspect("equal")
        words = sum(part.count for part in bins)
        title = f"{words:,} words, expected calibration error {error:.4f}"
        canvas.text(MARGIN, MARGIN, title, size=9.0)
        return canvas.figure

    return render(draw, [], kind)


_EDGES = (10, 20, 30, 40, 50, 60)  # source words: the paper's buckets


@dataclass(frozen=True)
class BarItem(SystemsItem):
    """Compares systems by BLEU, as bars; the first one is the baseline, and the last the best."""

    def make(self, workshop: Workshop) -> Evidence:
        comparison = compare_systems(workshop, self.systems)
        table = score_table(workshop, self.systems, comparison, self.title)
        names = [row.name for row in comparison.rows]
        values = [row.average.mean for row in comparison.rows]
        picture = Picture(self.name, self.title, partial(bar_chart, names, values, "BLEU"))
        further = [compare_systems(workshop, [each, self.systems[-1]]) for each in self.rivals]
        tables = [table, pair_table(further)] if further else [table]
        figures = score_figures([comparison, *further])
        notes = score_notes(workshop, comparison)
        return Evidence(self.name, self.title, self.claim, tables, [picture], notes, figures)

    @property
    def rivals(self) -> Sequence[System]:
        """Returns the systems between the baseline and the last; the last is tested on them."""
        return self.systems[1:-1]


@dataclass(frozen=True)
class Sweep:
    """One setting with several values, each a system."""

    setting: str
    values: Sequence[str]
    systems: Sequence[System]


@dataclass(frozen=True)
class SweepItem(EvidenceItem):
    """Draws BLEU over the values of settings, a chart for each."""

    baseline: System
    sweeps: Sequence[Sweep]

    @property
    def trained(self) -> list[System]:
        return [self.baseline, *(each for sweep in self.sweeps for each in sweep.systems)]

    def make(self, workshop: Workshop) -> Evidence:
        tables, pictures, figures = [], [], {}
        for sweep in self.sweeps:
            own = [self.baseline, *sweep.systems]
            comparison = compare_systems(workshop, own)
            tables.append(score_table(workshop, own, comparison, sweep.setting))
            values = [row.average.mean for row in comparison.rows[1:]]
            figures[sweep.setting] = dict(zip(sweep.values, values, strict=True))
            lines = [
                ChartLine("both losses", values),
                ChartLine(self.baseline.title, [comparison.rows[0].average.mean] * len(values)),
            ]
            draw = partial(line_chart, sweep.values, lines, (sweep.setting, "BLEU"))
            pictures.append(Picture(f"{self.name}-{sweep.setting}", sweep.setting, draw))
        notes = score_notes(workshop, comparison)
        return Evidence(self.name, self.title, self.claim, tables, pictures, notes, figures)


@dataclass(frozen=True)
class LengthItem(SystemsItem):
    """Scores translations by the length of their source: BLEU and length of the output."""

    def make(self, workshop: Workshop) -> Evidence:
        corpus = workshop.plan.corpus
        texts = [corpus.read(test) for test in corpus.known.tests]
        sources = [line for own, _ in texts for line in own]
        references = [line for _, own in texts for line in own]
        buckets = _buckets(sources)
        names, tokenize = list(buckets), corpus.known.bleu_tokenize
        reference = ChartLine("reference", [_words(references, buckets[b]) for b in names])
        bleu, lengths, figures = [], [reference], {}
        for system in self.systems:
            outputs = self._outputs(workshop, system)
            scores = [
                [_bleu(references, own, buckets[b], tokenize) for b in names] for own in outputs
            ]
            words = [[_words(own, buckets[b]) for b in names] for own in outputs]
            bleu.append(ChartLine(system.title, _means(scores)))
            lengths.append(ChartLine(system.title, _means(words)))
            figures[system.title] = {"bleu": scores, "words": words}
        sizes = ["", *(str(len(buckets[b])) for b in names)]
        tables = [
            _table("BLEU by source words", names, bleu, sizes),
            _table("mean output words by source words", names, lengths, sizes),
        ]
        pictures = [
            Picture(
                f"{self.name}-{what}", title, partial(line_chart, names, lines, (_WORDS, label))
            )
            for what, title, lines, label in (
                ("bleu", "BLEU by length", bleu, "BLEU"),
                ("length", "output length by length", lengths, "words"),
            )
        ]
        seeds = min(len(workshop.seeds_of(system)) for system in self.systems)
        notes = [
            f"sentences of all test sets of {corpus.name}; buckets of source words; means of "
            f"{seeds} seeds or more"
        ]
        return Evidence(self.name, self.title, self.claim, tables, pictures, notes, figures)

    def _outputs(self, workshop: Workshop, system: System) -> list[list[str]]:
        """Returns the translations of each seed."""
        tests = workshop.plan.corpus.known.tests
        return [
            [line for test in tests for line in workshop.translations(job, test)]
            for job in workshop.seeds_of(system)
        ]


_WORDS = "source words"


def _buckets(sources: Sequence[str]) -> dict[str, list[int]]:
    """Sorts sentences by length; buckets without any are left out."""
    found: dict[str, list[int]] = {}
    names = [f"{low + 1}-{high}" for low, high in zip((0, *_EDGES), _EDGES, strict=False)]
    for place, source in enumerate(sources):
        words = len(source.split())
        number_ = next((k for k, edge in enumerate(_EDGES) if words <= edge), len(_EDGES))
        found.setdefault((*names, f">{_EDGES[-1]}")[number_], []).append(place)
    return {name: found[name] for name in (*names, f">{_EDGES[-1]}") if name in found}


def _means(seeds: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(each) for each in zip(*seeds, strict=True)]


def _words(texts: Sequence[str], places: Sequence[int]) -> float:
    return sum(len(texts[place].split()) for place in places) / len(places)


def _bleu(
    references: Sequence[str],
    found: Sequence[str],
    places: Sequence[int],
    tokenize: str,
) -> float:
    chosen = [[texts[place] for place in places] for texts in (references, found)]
    return corpus_scores(chosen[1], chosen[0], ["bleu"], tokenize=tokenize)[0].value


def _table(
    title: str, names: Sequence[str], lines: Sequence[ChartLine], sizes: Sequence[str]
) -> EvidenceTable:
    rows = [[line.name, *(number(value) for value in line.values)] for line in lines]
    return EvidenceTable(title, ["system", *names], [*rows, ["sentences", *sizes[1:]]])


@dataclass(frozen=True)
class HeatmapItem(SystemsItem):
    """Draws what is past and future before each word of a few sentences."""

    one_seed: ClassVar[bool] = True
    sentences: int  # that it finds
    lines: Sequence[int] = ()  # of the first test set, from 1: those that a user chose

    def of_sentences(self, lines: Sequence[int]) -> "EvidenceItem":
        return replace(self, lines=lines)

    def prepare(self, workshop: Workshop) -> Workshop:
        """Refuses a sentence that the test set does not have, before anything is trained."""
        known = len(_first_test(workshop))
        if missing := [line for line in self.lines if line > known]:
            raise UntoldError(f"--sentences {missing[0]}: the first test set has {known} sentences")
        return workshop

    def make(self, workshop: Workshop) -> Evidence:
        if self.lines:
            pairs = _first_test(workshop)
            chosen = [pairs[line - 1] for line in self.lines]
            note = f"lines {', '.join(map(str, self.lines))} of the first test set"
        else:
            chosen = interesting_pairs(workshop, self.sentences)
            note = "sentences with the most crossing or shared links of the first test set"
        sources, targets = [list(side) for side in zip(*chosen, strict=True)]
        pictures = []
        for system in self.systems:
            translator = workshop.load(workshop.seeds_of(system)[0])
            found = explain(translator, sources, targets)
            name = f"{self.name}-{system.name}"
            pictures.append(Picture(name, system.title, partial(_heatmap, found)))
        rows = [[source, target] for source, target in chosen]
        table = EvidenceTable("sentences", ["source", "reference"], rows)
        return Evidence(self.name, self.title, self.claim, [table], pictures, [note])


def _first_test(workshop: Workshop) -> list[tuple[str, str]]:
    corpus = workshop.plan.corpus
    return list(zip(*corpus.read(corpus.known.tests[0]), strict=True))


def _heatmap(explanations: Sequence[Explanation], kind: str) -> bytes:
    return draw_shares(explanations, kind, "panels")
