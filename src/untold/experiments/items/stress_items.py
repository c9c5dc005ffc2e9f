"""Long sources, and references that lack a part: these texts show how adequate a system is.

Captions are short and clean, so that little can be left out. `concat` joins k sentences on both
sides; `omission` trains on references from which spans were deleted. The weight of each penalty is
chosen on the development set alone.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from untold import durable
from untold.corpus.lines import read_parallel
from untold.evaluation.metrics import corpus_scores
from untold.evaluation.system_comparison import Comparison, ParallelText, SystemOutputs
from untold.experiments.corpora import FoundCorpus
from untold.experiments.evidence_parts import Evidence, EvidenceTable, over_seeds
from untold.experiments.items.evidence_item import SystemsItem
from untold.experiments.items.knowledge_items import coverage
from untold.experiments.items.score_items import (
    compare_texts,
    count_size,
    pair_table,
    score_figures,
)
from untold.experiments.systems import System
from untold.experiments.workshop import Job, Workshop

__all__ = ["ConcatItem", "OmissionItem", "join_lines"]

_JOINED = (1, 2, 3, 4)  # sentences that are joined
_NOISE = 0.15  # references that lose a span
_WEIGHTS = (0.1, 0.2, 0.4)  # of penalties, tried on the development set
_PENALTIES = ("attention", "past")


@dataclass(frozen=True)
class _StressItem(SystemsItem):
    """Tests systems with each way of searching, all against plain search of the first system."""

    def _evidence(
        self, workshop: Workshop, table: EvidenceTable, ways: Any, comparison: Comparison
    ) -> Evidence:
        corpus = workshop.plan.corpus
        size = len(corpus.read(corpus.known.tests[0])[0])
        notes = [*_NOTES, f"{size} sentences; {comparison.metric}: {comparison.signature}"]
        figures = {**score_figures([comparison]), "ways": ways}
        tables = [table, pair_table([comparison])]
        return Evidence(self.name, self.title, self.claim, tables, (), notes, figures)


@dataclass(frozen=True)
class ConcatItem(_StressItem):
    """Trains on single and joined sentences, and tests each number of them."""

    def make(self, workshop: Workshop) -> Evidence:
        """Tests k = 1 to 4 with each way of searching."""
        rows, ways = [], {}
        searches = _searches(workshop, self.systems)
        for title, jobs in searches.items():
            each = [
                [_score(workshop, job, decode, joined) for joined in _JOINED]
                for job, decode in jobs
            ]
            steps = _JOINED[-1] - _JOINED[0]
            slopes = [(found[-1]["bleu"] - found[0]["bleu"]) / steps for found in each]
            ways[title] = {"by_sentences": each, "slope": slopes}
            rows += [
                [title, str(k), *_cells(found), str(len(jobs))]
                for k, found in zip(_JOINED, zip(*each, strict=True), strict=True)
            ]
            rows.append([title, "slope", over_seeds(slopes), "", "", "", "", str(len(jobs))])
        table = EvidenceTable(self.title, ["system", "sentences", *_COLUMNS, "seeds"], rows)
        return self._evidence(workshop, table, ways, _compare(workshop, searches, _JOINED))

    def prepare(self, workshop: Workshop) -> Workshop:
        """Returns a workshop whose training text also has joined sentences."""
        corpus = workshop.plan.corpus
        sides = read_parallel(*corpus.training_paths())
        mixed: tuple[list[str], list[str]] = ([], [])
        for joined in _JOINED:
            for own, found in zip(mixed, join_lines(*sides, joined, seed=joined), strict=True):
                own.extend(found)
        return workshop.with_corpus(_written(corpus, workshop.plan.out / "concat", mixed), "concat")


@dataclass(frozen=True)
class OmissionItem(_StressItem):
    """Trains on references of which some lack a span, and tests on whole ones."""

    def make(self, workshop: Workshop) -> Evidence:
        """Tests each way of searching."""
        rows, ways = [], {}
        searches = _searches(workshop, self.systems)
        for title, jobs in searches.items():
            found = ways[title] = [_score(workshop, job, decode, 1) for job, decode in jobs]
            rows.append([title, *_cells(found), str(len(found))])
        table = EvidenceTable(self.title, ["system", *_COLUMNS, "seeds"], rows)
        return self._evidence(workshop, table, ways, _compare(workshop, searches, (1,)))

    def prepare(self, workshop: Workshop) -> Workshop:
        """Returns a workshop whose training references lack a linked span now and then."""
        corpus, aligner = workshop.plan.corpus, workshop.aligner()
        sources, targets = read_parallel(*corpus.training_paths())
        dice = random.Random(1)
        chosen = [place for place in range(len(sources)) if dice.random() < _NOISE]
        split = aligner.split([sources[k] for k in chosen], [targets[k] for k in chosen])
        for place, links in zip(chosen, aligner.align(split), strict=True):
            targets[place] = _cut(targets[place], {target for _, target in links.sure}, dice)
        folder = workshop.plan.out / "omission"
        return workshop.with_corpus(_written(corpus, folder, (sources, targets)), "omission")


_COLUMNS = ("BLEU", "chrF", "length ratio", "CDR", "under-coverage")
_NOTES = [
    "first test set; beam search alone, or with a coverage penalty by "
    "attention (GNMT) or by the past of the capsules; each seed has the weight of its best BLEU on "
    f"the development set among {', '.join(map(str, _WEIGHTS))}; slope: BLEU per joined sentence; "
    "all systems continue the plain model, which was trained on the unchanged text"
]


def join_lines(
    sources: Sequence[str], targets: Sequence[str], joined: int, seed: int
) -> tuple[list[str], list[str]]:
    """Joins sentences that a shuffle put beside each other; those left over are dropped."""
    order = list(range(len(sources)))
    if joined > 1:
        random.Random(seed).shuffle(order)
    groups = [order[k : k + joined] for k in range(0, len(order) - joined + 1, joined)]
    both = tuple(
        [" ".join(side[k] for k in group) for group in groups] for side in (sources, targets)
    )
    return both[0], both[1]


def _cut(target: str, linked: set[int], dice: random.Random) -> str:
    """Deletes a span that begins at a linked word: up to a third of the words, never all."""
    words = target.split()
    begins = [place for place in linked if place < len(words)]
    if len(words) < 3 or not begins:
        return target
    first = dice.choice(sorted(begins))
    length = dice.randint(1, max(1, len(words) // 3))
    return " ".join([*words[:first], *words[first + length :]]) or target


def _written(corpus: FoundCorpus, folder: Path, sides: tuple[list[str], list[str]]) -> FoundCorpus:
    """Writes another training text beside the corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for side, lines in zip(("source", "target"), sides, strict=True):
        paths.append(folder / f"train.{side}")
        durable.write_file(paths[-1], "".join(f"{line}\n" for line in lines).encode())
    return replace(corpus, train=(str(paths[0]), str(paths[1])))


Searches = Mapping[str, Sequence[tuple[Job, list[str]]]]  # settings for each seed, by title


def _searches(workshop: Workshop, systems: Sequence[System]) -> Searches:
    """Returns plain search, and each penalty that a model allows, tuned on the development set."""
    found: dict[str, list[tuple[Job, list[str]]]] = {}
    for system in systems:
        jobs = workshop.seeds_of(system)
        found[system.title] = [(job, []) for job in jobs]
        for kind in _PENALTIES:
            if kind == "past" and "model.separator.kind" not in system.settings:
                continue
            tuned = [(job, _tuned(workshop, job, kind)) for job in jobs]
            found[f"{system.title}, penalty by {kind}"] = tuned
    return found


def _compare(workshop: Workshop, searches: Searches, joined: Sequence[int]) -> Comparison:
    """Tests all ways of searching against the first."""
    corpus = workshop.plan.corpus
    sides = corpus.read(corpus.known.tests[0])
    tests = [ParallelText(str(k), *join_lines(*sides, k, seed=k)) for k in joined]
    outputs = []
    for title, jobs in searches.items():
        texts = [
            [workshop.translate_lines(job, list(test.sources), decode) for test in tests]
            for job, decode in jobs
        ]
        outputs.append(SystemOutputs(title, count_size(workshop, jobs[0][0]), texts))
    return compare_texts(workshop, outputs, tests)


def _tuned(workshop: Workshop, job: Job, kind: str) -> list[str]:
    """Returns the settings of a penalty with the best weight on the development set."""
    tried = [
        [f"decode.coverage_penalty={weight}", f"decode.coverage_source={kind}"]
        for weight in _WEIGHTS
    ]
    return max(tried, key=lambda decode: _dev_bleu(workshop, job, decode))


def _dev_bleu(workshop: Workshop, job: Job, decode: list[str]) -> float:
    corpus = workshop.plan.corpus
    _, references = corpus.read(corpus.development())
    found = workshop.translations(job, corpus.development(), decode)
    tokenize = corpus.known.bleu_tokenize
    return corpus_scores(found, references, ["bleu"], tokenize=tokenize)[0].value


def _score(workshop: Workshop, job: Job, decode: list[str], joined: int) -> dict[str, Any]:
    corpus = workshop.plan.corpus
    sources, references = join_lines(*corpus.read(corpus.known.tests[0]), joined, seed=joined)
    found = workshop.translate_lines(job, sources, decode)
    tokenize = corpus.known.bleu_tokenize
    bleu, chrf = (
        score.value
        for score in corpus_scores(found, references, ["bleu", "chrf"], tokenize=tokenize)
    )
    words = [sum(len(line.split()) for line in side) for side in (found, references)]
    covered = coverage(workshop, sources, references, found)
    return {
        "bleu": bleu,
        "chrf": chrf,
        "length_ratio": words[0] / words[1],
        "cdr": covered["macro"],
        "under": covered["under"],
    }


def _cells(seeds: Sequence[dict[str, Any]]) -> list[str]:
    places = {"bleu": 2, "chrf": 2, "length_ratio": 3, "cdr": 3, "under": 3}
    return [over_seeds([each[key] for each in seeds], places[key]) for key in places]
