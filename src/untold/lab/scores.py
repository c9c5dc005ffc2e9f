"""Tables of BLEU and ROUGE: systems beside each other, with the paper's statistics."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace

from untold.lab.items import Evidence, EvidenceItem, EvidenceTable, SystemsItem, number, over_seeds
from untold.lab.runner import Job, TranslationJob, Workshop
from untold.lab.statistics import compare_seeds
from untold.lab.systems import SYSTEMS, System
from untold.metrics.base import MetricOptions, corpus_scores, make_metric
from untold.metrics.comparison import (
    Comparison,
    ParallelText,
    Row,
    SystemOutputs,
    Trials,
    compare_outputs,
)
from untold.storage.summary import Parameters, count_parameters

_TRIALS = Trials(1000, 1)


@dataclass(frozen=True)
class ScoreItem(EvidenceItem):
    """Compares systems by BLEU. The others of a group are tested against its first."""

    groups: Sequence[Sequence[System]]
    pairs: Sequence[tuple[System, System]] = ()  # each second one is tested against the first, too

    @property
    def trained(self) -> list[System]:
        return [system for group in self.groups for system in group]

    def only(self, names: Collection[str]) -> "ScoreItem":
        """Returns the item with some of its systems, and the first of each group that is left."""
        self.check_names(names)
        groups = [
            [first, *(each for each in others if each.name in names)]
            for first, *others in self.groups
            if any(each.name in names for each in [first, *others])
        ]
        pairs = [pair for pair in self.pairs if {each.name for each in pair} <= set(names)]
        return replace(self, groups=groups, pairs=pairs)

    def make(self, workshop: Workshop) -> Evidence:
        compared = [compare_systems(workshop, group) for group in self.groups]
        tables = [
            score_table(workshop, group, comparison, self.title)
            for group, comparison in zip(self.groups, compared, strict=True)
        ]
        further = [compare_systems(workshop, pair) for pair in self.pairs]
        if further:
            tables.append(pair_table(further))
        figures = score_figures([*compared, *further])
        notes = score_notes(workshop, compared[0])
        return Evidence(self.name, self.title, self.claim, tables, (), notes, figures)


def compare_systems(workshop: Workshop, systems: Sequence[System]) -> Comparison:
    """Scores systems on all test sets; each is tested against the first."""
    corpus = workshop.plan.corpus
    tests = [
        ParallelText(test.name, *corpus.read(test), corpus.read_further(test))
        for test in corpus.known.tests
    ]
    searches = [
        [[TranslationJob(job, test.sources) for test in tests] for job in workshop.seeds_of(system)]
        for system in systems
    ]
    # Together first, so that processes that make the same item can share this.
    workshop.translate([each for runs in searches for run in runs for each in run])
    outputs = [
        SystemOutputs(
            system.title,
            count_size(workshop, runs[0][0].job),
            [workshop.translate(run) for run in runs],
        )
        for system, runs in zip(systems, searches, strict=True)
    ]
    return compare_texts(workshop, outputs, tests)


def compare_texts(
    workshop: Workshop, outputs: Sequence[SystemOutputs], tests: Sequence[ParallelText]
) -> Comparison:
    """Scores translations by the metric of the corpus; each system is tested against the first."""
    known = workshop.plan.corpus.known
    options = MetricOptions(known.bleu_tokenize, lowercase=known.ignores_case)
    metric = make_metric(known.metric, options).sacrebleu_metric()
    return _pair_by_seed(
        compare_outputs(metric, outputs, tests, _TRIALS),
        outputs,
        lambda some: compare_outputs(metric, some, tests, _TRIALS),
    )


def count_size(workshop: Workshop, job: Job) -> Parameters:
    """Counts the parameters of a trained model, once."""

    def count() -> dict[str, int]:
        return asdict(count_parameters(workshop.load(job).models[0].model))

    return Parameters(**workshop.measure("parameters", job, [], count))


@dataclass(frozen=True)
class SeedPairedComparison(Comparison):
    """A comparison whose differences are those of the seeds that both systems have."""

    differences: Mapping[str, float] = field(default_factory=dict)  # by row

    def difference(self, row: Row) -> float:
        return self.differences[row.name]


def _pair_by_seed(
    comparison: Comparison,
    outputs: Sequence[SystemOutputs],
    compare: Callable[[Sequence[SystemOutputs]], Comparison],
) -> SeedPairedComparison:
    """Tests systems with fewer seeds against the same seeds of the baseline alone."""
    baseline, *others = outputs
    differences, rows = {}, [comparison.rows[0]]
    for own, row in zip(others, comparison.rows[1:], strict=True):
        seeds = min(len(baseline.texts), len(own.texts))
        if seeds == len(baseline.texts) == len(own.texts):
            difference = comparison.difference(row)
        else:
            same = [replace(each, texts=each.texts[:seeds]) for each in (baseline, own)]
            paired = compare(same)
            difference = paired.difference(paired.rows[1])
            row = replace(row, average_p_values=paired.rows[1].average_p_values)
        differences[row.name] = difference
        rows.append(row)
    values = {each.name: getattr(comparison, each.name) for each in fields(Comparison)}
    return SeedPairedComparison(**values | {"rows": tuple(rows)}, differences=differences)


def score_table(
    workshop: Workshop, systems: Sequence[System], comparison: Comparison, title: str
) -> EvidenceTable:
    """Puts scores, differences and their significance into a table."""
    columns = ["system", "parameters", *comparison.tests]
    if len(comparison.tests) > 1:
        columns.append("average")
    columns += [
        "seeds",
        "difference",
        "p bootstrap",
        "p randomisation",
        "over seeds",
        "configuration",
    ]
    rows = []
    for system, row in zip(systems, comparison.rows, strict=True):
        jobs = workshop.seeds_of(system)
        over_seeds = _over_seeds(comparison.rows[0], row)
        rows.append([*_scores(comparison, row), over_seeds, workshop.hash(jobs[0])])
    return EvidenceTable(title, columns, rows)


def pair_table(comparisons: Sequence[Comparison]) -> EvidenceTable:
    """Puts tests into a table: of each other system against the first of its comparison."""
    columns = ["system", "against", "difference", "p bootstrap", "p randomisation", "over seeds"]
    rows = [
        [row.name, baseline.name, *_tested(comparison, row), _over_seeds(baseline, row)]
        for comparison in comparisons
        for baseline, *others in [comparison.rows]
        for row in others
    ]
    return EvidenceTable("other differences of the average", columns, rows)


def score_figures(comparisons: Sequence[Comparison]) -> dict[str, object]:
    """Returns the scores of all systems, a number for each seed, and all tests."""
    systems = {
        row.name: {"bleu": list(row.average.values), "parameters": _total(row)}
        for comparison in comparisons
        for row in comparison.rows
    }
    tests = [
        {
            "system": row.name,
            "against": comparison.rows[0].name,
            "difference": comparison.difference(row),
            "p_bootstrap": row.average_p_values.bootstrap,
            "p_randomisation": row.average_p_values.randomisation,
        }
        for comparison in comparisons
        for row in comparison.rows[1:]
        if row.average_p_values is not None
    ]
    return {"systems": systems, "tests": tests}


def _total(row: Row) -> int:
    assert row.parameters is not None  # every system of an item is a model
    return row.parameters.total


def _over_seeds(baseline: Row, row: Row) -> str:
    """Compares two systems by the seeds that both have: mean, interval, exact sign-flip test."""
    pairs = list(zip(baseline.average.values, row.average.values, strict=False))
    if row is baseline or len(pairs) < 2:
        return ""
    before, after = (dict(enumerate(each)) for each in zip(*pairs, strict=True))
    return str(compare_seeds(before, after))


def _scores(comparison: Comparison, row: Row) -> list[str]:
    scores = [*row.scores, row.average] if len(row.scores) > 1 else list(row.scores)
    cells = [
        number(score.mean) + ("" if score.deviation is None else f" ± {score.deviation:.2f}")
        for score in scores
    ]
    seeds = str(len(row.average.values))
    return [row.name, f"{_total(row):,}", *cells, seeds, *_tested(comparison, row)]


def _tested(comparison: Comparison, row: Row) -> list[str]:
    p_values = row.average_p_values
    if p_values is None:
        return [""] * 3
    difference = f"{comparison.difference(row):+.2f}"
    return [difference, f"{p_values.bootstrap:.4f}", f"{p_values.randomisation:.4f}"]


def score_notes(workshop: Workshop, comparison: Comparison) -> list[str]:
    """Says how scores were made."""
    corpus, scale = workshop.plan.corpus, workshop.plan.scale
    sizes = ", ".join(f"{test.name} {len(corpus.read(test)[0])}" for test in corpus.known.tests)
    return [
        f"{comparison.metric}: {comparison.signature}",
        f"corpus {corpus.name}; sentences: {sizes}; scale {scale.name}: base {scale.base.updates} "
        f"updates, {scale.further.updates} on top of it",
        f"differences and p-values are those of the average, against {comparison.rows[0].name}, of "
        "the seeds that both have; "
        "± is the standard deviation over seeds; over seeds: the difference paired by the seeds "
        "that both have, its t-interval and the exact sign-flip test; configuration is a hash of "
        "all settings",
    ]


def find_systems(*names: str) -> list[System]:
    """Looks systems up."""
    return [SYSTEMS[name] for name in names]


@dataclass(frozen=True)
class SummaryItem(SystemsItem):
    """Scores systems by ROUGE; Chinese text is compared character by character."""

    def make(self, workshop: Workshop) -> Evidence:
        corpus = workshop.plan.corpus
        test = corpus.known.tests[0]
        _, references = corpus.read(test)
        rows, figures = [], {}
        for system in self.systems:
            jobs = workshop.seeds_of(system)
            found = [
                corpus_scores(workshop.translations(job, test), references, ["rouge"])
                for job in jobs
            ]
            names, signature = [score.name for score in found[0]], found[0][0].signature
            figures[system.title] = [{s.name: s.value for s in scores} for scores in found]
            cells = [over_seeds([s.value for s in each]) for each in zip(*found, strict=True)]
            rows.append([system.title, *cells, str(len(jobs))])
        table = EvidenceTable(self.title, ["system", *names, "seeds"], rows)
        notes = [
            f"{signature}; {len(references)} texts of {test.name} ({corpus.name})",
            "RNMT, continued, is the paper's row RNN+context: a recurrent model that attends",
        ]
        return Evidence(self.name, self.title, self.claim, [table], (), notes, figures)
