"""Measures what models know: words of bags, turns of words, covered words; and how fast they are.

Word links of test sets are those of a file, or else of an aligner trained on the training text.
For r_OL, the head of the past (future) capsules ranks the vocabulary at each step. Its likeliest
types are compared with the bag of target words before (from) this step:

    r = |top 5 |bag| types  &  types of the bag| / |types of the bag|

r is averaged over the steps that have a bag, then over sentences. The baseline ranks the vocabulary
by frequency in the same references, without looking at the sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.corpus.alignments import Alignment, read_alignments
from untold.decoding.scoring import ForwardPass, encode_pairs, forward_passes
from untold.errors import UntoldError
from untold.lab.corpora import TestFiles
from untold.lab.items import Evidence, EvidenceItem, EvidenceTable, SystemsItem, number, over_seeds
from untold.lab.runner import Job, Workshop
from untold.lab.scores import compare_systems, score_figures, score_notes, score_table
from untold.lab.sheets import SheetTexts, draw_sheet, key_json, sheet_csv
from untold.lab.speed import Speed, race_runs
from untold.lab.systems import System
from untold.metrics.cdr import align_texts, cdr_of_links
from untold.metrics.comparison import ParallelText
from untold.metrics.separation import AlignedPair, separation_report
from untold.progress_bar import task
from untold.storage.model_directory import TrainedModel

_SHORTEST, _LONGEST = 5, 12  # words of a sentence that is shown


def aligned_pairs(workshop: Workshop, test: TestFiles) -> list[AlignedPair]:
    """Returns the pairs of a test set with their links."""
    corpus = workshop.plan.corpus
    sources, references = corpus.read(test)
    path = corpus.alignments(test)
    if path is not None:
        links: Sequence[Alignment] = read_alignments(path)[: len(sources)]
    else:
        aligner = workshop.aligner()
        links = aligner.align(aligner.split(sources, references))
    return [AlignedPair(*each) for each in zip(sources, references, links, strict=True)]


def links_note(workshop: Workshop, test: TestFiles) -> str:
    """Says where the links come from."""
    is_given = workshop.plan.corpus.alignments(test) is not None
    return "links: the corpus's own" if is_given else "links: an aligner trained on the same text"


def interesting_pairs(workshop: Workshop, count: int) -> list[tuple[str, str]]:
    """Chooses short pairs whose words change their order, or share a word of the other side."""
    pairs = aligned_pairs(workshop, workshop.plan.corpus.known.tests[0])
    short = [p for p in pairs if _SHORTEST <= len(p.source.split()) <= _LONGEST]
    ranked = sorted(short or pairs, key=lambda pair: -_interest(pair))
    return [(pair.source, pair.target) for pair in ranked[:count]]


def _interest(pair: AlignedPair) -> float:
    """Counts crossing links and words with several, by the length of the sentence."""
    links = sorted(pair.alignment.sure)
    crossing = sum(a[0] < b[0] and a[1] > b[1] for a in links for b in links)
    several = len(links) - len({target for _, target in links})
    return (crossing + several) / (1 + len(pair.source.split()))


_DEPTH = 5  # number of top types for each word of a bag
_BATCH_TOKENS = 2048


@dataclass(frozen=True)
class Overlap:
    """Holds the mean hit rates of the two heads and of the baseline."""

    past: float
    future: float
    past_by_frequency: float
    future_by_frequency: float


@torch.inference_mode()
def measure_overlap(trained: TrainedModel, pairs: Sequence[tuple[str, str]]) -> Overlap:
    """Measures a model on given pairs. The decoder reads the references; nothing is searched."""
    if trained.model.past_future is None:
        raise UntoldError("the overlap is one of past and future bags, which this model has not")
    codec, eos = trained.codec, trained.tokenizers.target.special_ids.eos
    encoded = encode_pairs(codec, pairs)
    counts = torch.zeros(len(trained.tokenizers.target))
    for pair in encoded:  # a bag includes EOS
        counts += torch.bincount(torch.tensor([*pair.ids[1], eos]), minlength=len(counts))
    sums, number = torch.zeros(4), 0
    with task("reading the references", len(encoded)) as begun:
        for forward in forward_passes(trained.model, codec, encoded, _BATCH_TOKENS):
            for figures in _sentences(trained, forward, counts):
                sums, number = sums + figures, number + 1
            begun.advance(len(forward.rows))
    return Overlap(*(sums / max(1, number)).tolist())


def hit_rate(scores: Float[Tensor, " v"], bag: Int[Tensor, " n"]) -> float:
    """Returns the share of the bag's types that are among the 5 n highest scores."""
    types = bag.unique()
    top = scores.topk(min(_DEPTH * len(bag), len(scores))).indices
    return float(torch.isin(types, top).float().mean())


def _sentences(
    trained: TrainedModel, forward: ForwardPass, counts: Float[Tensor, " v"]
) -> list[Float[Tensor, " 4"]]:
    """Returns four rates for each sentence: past, future, and both of the baseline."""
    model, batch, separated = trained.model, forward.batch, forward.outputs.separated
    assert model.past_future is not None
    heads, embedding = model.past_future.heads, model.output_embedding()
    past = heads.bow_past(separated.past) @ embedding.T  # bags have no bias
    future = heads.bow_future(separated.future) @ embedding.T
    past, future, labels = past.cpu(), future.cpu(), batch.labels.cpu()
    found = []
    for row, length in enumerate(batch.target_mask.sum(1).tolist()):
        words = labels[row, :length]
        rates: list[list[float]] = [[], [], [], []]
        for step in range(length):
            if step:
                rates[0].append(hit_rate(past[row, step], words[:step]))
                rates[2].append(hit_rate(counts, words[:step]))
            rates[1].append(hit_rate(future[row, step], words[step:]))
            rates[3].append(hit_rate(counts, words[step:]))
        if length > 1:
            found.append(torch.tensor([sum(each) / len(each) for each in rates]))
    return found


_ROUNDS = 3  # of a race for speed
_RATED = 200  # sentences of a sheet


@dataclass(frozen=True)
class OverlapItem(SystemsItem):
    """Measures r_OL: which words the heads of past and future predict."""

    def make(self, workshop: Workshop) -> Evidence:
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
        return [system for group in self.groups for system in group]

    def make(self, workshop: Workshop) -> Evidence:
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
