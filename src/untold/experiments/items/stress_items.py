"""Long sources, and references that lack a part: these texts show how adequate a system is.

Captions are short and clean, so that little can be left out. `concat` joins k sentences on both
sides; `omission` trains on references from which spans were deleted. The weight of each penalty is
chosen on the development set alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from untold import durable
from untold.corpus.lines import read_parallel
from untold.evaluation.metrics import corpus_scores
from untold.experiments.corpora import FoundCorpus
from untold.experiments.evidence_parts import Evidence, EvidenceTable, over_seeds
from untold.experiments.items.evidence_item import SystemsItem
from untold.experiments.items.knowledge_items import coverage
from untold.experiments.systems import System
from untold.experiments.workshop import Job, Workshop

__all__ = ["ConcatItem", "OmissionItem", "join_lines"]

_JOINED = (1, 2, 3, 4)  # sentences that are joined
_NOISE = 0.15  # references that lose a span
_WEIGHTS = (0.1, 0.2, 0.4)  # of penalties, tried on the development set
_PENALTIES = ("attention", "past")


@dataclass(frozen=True)
class ConcatItem(SystemsItem):
    """Trains on single and joined sentences, and tests each number of them."""

    def make(self, workshop: Workshop) -> Evidence:
        """Tests k = 1 to 4 with each way of searching."""
        rows, figures = [], {}
        for system in self.systems:
            for way, jobs in _ways(workshop, system).items():
                each = [
                    [_score(workshop, job, decode, joined) for joined in _JOINED]
                    for job, decode in jobs
                ]
                steps = _JOINED[-1] - _JOINED[0]
                slopes = [(found[-1]["bleu"] - found[0]["bleu"]) / steps for found in each]
                title = f"{system.title}, {way}"
                figures[title] = {"by_sentences": each, "slope": slopes}
                rows += [
                    [title, str(k), *_cells(found), str(len(jobs))]
                    for k, found in zip(_JOINED, zip(*each, strict=True), strict=True)
                ]
                rows.append([title, "slope", over_seeds(slopes), "", "", "", "", str(len(jobs))])
        table = EvidenceTable(self.title, ["system", "sentences", *_COLUMNS, "seeds"], rows)
        return Evidence(self.name, self.title, self.claim, [table], (), _NOTES, figures)

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
class OmissionItem(SystemsItem):
    """Trains on references of which some lack a span, and tests on whole ones."""

    def make(self, workshop: Workshop) -> Evidence:
        """Tests each way of searching."""
        rows, figures = [], {}
        for system in self.systems:
            for way, jobs in _ways(workshop, system).items():
                found = [_score(workshop, job, decode, 1) for job, decode in jobs]
                title = f"{system.title}, {way}"
                figures[title] = found
                rows.append([title, *_cells(found), str(len(found))])
        table = EvidenceTable(self.title, ["system", *_COLUMNS, "seeds"], rows)
        return Evidence(self.name, self.title, self.claim, [table], (), _NOTES, figures)

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
    "first test set; plain: beam search alone; others add a coverage penalty, by "
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


def _ways(workshop: Workshop, system: System) -> dict[str, list[tuple[Job, list[str]]]]:
    """Returns the ways of searching, with their settings for each seed.

    They are plain search, and each penalty that the model allows, tuned on the development set.
    """
    jobs = workshop.seeds_of(system)
    ways: dict[str, list[tuple[Job, list[str]]]] = {"plain": [(job, []) for job in jobs]}
    for kind in _PENALTIES:
        if kind == "past" and "model.separator.kind" not in system.settings:
            continue
        ways[f"penalty by {kind}"] = [(job, _tuned(workshop, job, kind)) for job in jobs]
    return ways


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
