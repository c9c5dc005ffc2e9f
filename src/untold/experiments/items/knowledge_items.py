"""Measures what a model knows: overlap of bags, separation, coverage; and how fast it is."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, ClassVar

from untold.evaluation.adequacy_sheet import SheetTexts, draw_sheet, key_json, sheet_csv
from untold.evaluation.bow_overlap import measure_overlap
from untold.evaluation.cdr import align_texts, cdr_of_links
from untold.evaluation.separation_report import separation_report
from untold.evaluation.speed_race import Speed
from untold.evaluation.system_comparison import ParallelText
from untold.experiments.corpora import TestFiles
from untold.experiments.evidence_parts import Evidence, EvidenceTable, number, over_seeds
from untold.experiments.items.evidence_item import EvidenceItem, SystemsItem
from untold.experiments.items.known_links import aligned_pairs, links_note
from untold.experiments.items.score_items import (
    compare_systems,
    score_figures,
    score_notes,
    score_table,
)
from untold.experiments.run_speeds import race_runs
from untold.experiments.systems import System
from untold.experiments.workshop import Job, Workshop
from untold.report.sheets.sheet_page import sheet_page

__all__ = [
    "CoverageItem",
    "OursItem",
    "OverlapItem",
    "SeparationItem",
    "SpeedItem",
    "coverage",
]

_ROUNDS = 3  # of a race for speed
_RATED = 200  # sentences of a sheet


@dataclass(frozen=True)
class OverlapItem(SystemsItem):
    """Measures r_OL: which words the heads of past and future predict."""

    def make(self, workshop: Workshop) -> Evidence:
        """Reads the references of the first test set."""
        test = workshop.plan.corpus.known.tests[0]
        pairs = list(zip(*workshop.plan.corpus.read(test), strict=True))
        rows, figures = [], {}
        for system in self.systems:
            figures[system.title] = found = [
                workshop.measure(
                    "overlap", job, pairs, lambda job=job: _overlap(workshop, job, pairs)
                )
                for job in workshop.seeds_of(system)
            ]
            cells = [over_seeds([each[key] for each in found], 3) for key in ("past", "future")]
            rows.append([system.title, *cells, str(len(found))])
        frequent = [number(found[0][f"{key}_by_frequency"], 3) for key in ("past", "future")]
        rows.append(["the most frequent words", *frequent, ""])
        table = EvidenceTable("r_OL", ["system", "past", "future", "seeds"], rows)
        notes = [f"{len(pairs)} references of {test.name} ({workshop.plan.corpus.name})"]
        return Evidence(self.name, self.title, self.claim, [table], (), notes, figures)


def _overlap(workshop: Workshop, job: Any, pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    return asdict(measure_overlap(workshop.load(job).models[0], pairs))


@dataclass(frozen=True)
class SeparationItem(SystemsItem):
    """Measures past and future against word links, beside the position rule."""

    def make(self, workshop: Workshop) -> Evidence:
        """Reads the references of the first test set, and of those that were added."""
        corpus, tables, notes, figures = workshop.plan.corpus, [], [], {}
        for test in (corpus.known.tests[0], *corpus.linked):
            found = {s.title: _separation(workshop, s, test) for s in self.systems}
            tables.append(_separation_table(found, test))
            notes.append(f"{test.name}: {links_note(workshop, test)}")
            figures |= found if test not in corpus.linked else {test.name: found}
        return Evidence(self.name, self.title, self.claim, tables, (), notes, figures)


def _separation(workshop: Workshop, system: System, test: TestFiles) -> list[dict[str, Any]]:
    """Measures every seed of a system on a test set."""

    def make(job: Job) -> dict[str, Any]:
        return asdict(separation_report(workshop.load(job), aligned_pairs(workshop, test)))

    text = workshop.plan.corpus.read(test)
    return [
        workshop.measure(f"separation/{test.name}", job, text, partial(make, job))
        for job in workshop.seeds_of(system)
    ]


def _separation_table(
    found: Mapping[str, Sequence[dict[str, Any]]], test: TestFiles
) -> EvidenceTable:
    """Puts the figures of systems, and of the position rule, beside each other."""
    first = next(iter(found.values()))[0]
    names = [key for key, value in first["model"].items() if not isinstance(value, list)]
    rows = [
        [
            name.replace("_", " "),
            *(over_seeds([each["model"][name] for each in seeds], 3) for seeds in found.values()),
            number(first["rule"][name], 3),
        ]
        for name in names
    ]
    omissions = [
        over_seeds([each["omission_auc"] for each in seeds], 3) for seeds in found.values()
    ]
    last = ["omission word auc", *omissions, ""]
    columns = ["figure", *(f"{name} (n = {len(seeds)})" for name, seeds in found.items())]
    columns.append("position rule")
    return EvidenceTable(f"past and future against links, {test.name}", columns, [*rows, last])


@dataclass(frozen=True)
class OursItem(SystemsItem):
    """Compares this project's default with the paper's form: BLEU and separation."""

    def make(self, workshop: Workshop) -> Evidence:
        """Trains, translates, compares, and measures the separation."""
        comparison = compare_systems(workshop, self.systems)
        scores = score_table(workshop, self.systems, comparison, "BLEU")
        test = workshop.plan.corpus.known.tests[0]
        found = {system.title: _separation(workshop, system, test) for system in self.systems[1:]}
        notes = [*score_notes(workshop, comparison), links_note(workshop, test)]
        figures = score_figures([comparison])
        tables = [scores, _separation_table(found, test)]
        return Evidence(self.name, self.title, self.claim, tables, (), notes, figures | found)


@dataclass(frozen=True)
class CoverageItem(SystemsItem):
    """Measures CDR: which source words of the reference a translation covers, too."""

    def make(self, workshop: Workshop) -> Evidence:
        """Links references and translations by one aligner."""
        corpus, rows, figures = workshop.plan.corpus, [], {}
        test, outputs = corpus.known.tests[0], {}
        sources, references = corpus.read(test)
        for system in self.systems:
            found = [workshop.translations(job, test) for job in workshop.seeds_of(system)]
            outputs[system.name] = found[0]
            measured = [coverage(workshop, sources, references, each) for each in found]
            figures[system.title] = measured
            cells = [over_seeds([each[key] for each in measured], 3) for key in _COVERAGE]
            rows.append([system.title, *cells, str(len(found))])
        table = EvidenceTable("coverage of source words", ["system", *_COVERAGE, "seeds"], rows)
        notes = [
            f"{len(sources)} sentences of {test.name} ({corpus.name}); one aligner, "
            "trained on the training text, for references and translations",
            "sheet/raters has a sheet of the first seeds' translations for people to fill in; "
            "untold sheet --aggregate sheet/key.json counts their ratings",
        ]
        files = _sheet(SheetTexts(sources, outputs, references))
        return Evidence(self.name, self.title, self.claim, [table], (), notes, figures, files)


def _sheet(texts: SheetTexts) -> dict[str, bytes]:
    """Draws a sheet on which people rate the systems."""
    real = sum(bool(line.strip()) for line in texts.source)
    sheet = draw_sheet(texts, min(_RATED, real), 1)
    return {
        "sheet/raters/sheet.csv": sheet_csv(sheet),
        "sheet/raters/sheet.html": sheet_page(sheet),
        "sheet/key.json": key_json(sheet),
    }


_COVERAGE = ("macro", "micro", "under", "over", "repeated")


def coverage(
    workshop: Workshop, sources: list[str], references: list[str], found: list[str]
) -> dict[str, Any]:
    """Measures CDR and its kin, once."""

    def measure() -> dict[str, Any]:
        links = align_texts(workshop.aligner(), sources, found)
        return asdict(cdr_of_links(workshop.reference_links(sources, references), links))

    made_from = [sources, references, found]
    return workshop.kept.get(f"coverage/{workshop.fingerprint(made_from)}", made_from, measure)


@dataclass(frozen=True)
class SpeedItem(EvidenceItem):
    """Races systems in training and in translating."""

    one_seed: ClassVar[bool] = True
    groups: Sequence[Sequence[System]]

    @property
    def trained(self) -> list[System]:
        """Returns all systems."""
        return [system for group in self.groups for system in group]

    def make(self, workshop: Workshop) -> Evidence:
        """Lets the systems of each group take turns; the first of a group is its baseline."""
        test = workshop.plan.corpus.known.tests[0]
        text = ParallelText(test.name, *workshop.plan.corpus.read(test))
        rows, figures = [], {}
        for group in self.groups:
            racers = {s.title: workshop.load(workshop.seeds_of(s)[0]) for s in group}
            speeds = race_runs(racers, text, _ROUNDS)
            for name in racers:
                both = speeds.training[name], speeds.decoding[name]
                figures[name] = [each.ratio for each in both]
                rows.append([name, *(_ratio(each) for each in both)])
        table = EvidenceTable("speed", ["system", "training", "decoding"], rows)
        notes = [
            f"target tokens a second in training, words a second in decoding, as ratios to the "
            f"first system of each backbone; median of {_ROUNDS} rounds in turns (least to most)",
        ]
        return Evidence(self.name, self.title, self.claim, [table], (), notes, figures)


def _ratio(speed: Speed) -> str:
    if speed.ratio is None:
        return ""
    return f"{speed.ratio:.2f} ({min(speed.ratios):.2f} to {max(speed.ratios):.2f})"
