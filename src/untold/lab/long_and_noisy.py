"""Long sources, and references that lack a part: these texts show how adequate a system is.

Captions are short and clean, so that little can be left out. `concat` joins k sentences on both
sides; `omission` trains on references from which spans were deleted. The weight of each penalty is
chosen on the development set alone, a quarter of which `concat` joins by each number of sentences.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from untold import files as durable
from untold.corpus.text import read_parallel
from untold.lab.analysis import coverage
from untold.lab.corpora import FoundCorpus
from untold.lab.items import Evidence, EvidenceTable, SystemsItem, over_seeds
from untold.lab.runner import Job, TranslationJob, Workshop
from untold.lab.scores import compare_texts, count_size, pair_table, score_figures
from untold.lab.systems import SYSTEMS, System
from untold.metrics.base import corpus_scores
from untold.metrics.comparison import Comparison, ParallelText, SystemOutputs

_JOINED = (1, 2, 3, 4)  # sentences that are joined
_NOISE = 0.15  # references that lose a span
_WEIGHTS = {  # of each penalty, from the middle on; past varies less than attention
    "attention": (0.2, 0.4, 0.1, 0.8, 0.05),
    "past": (0.8, 1.6, 0.4, 3.2, 0.2),
}


@dataclass(frozen=True)
class _StressItem(SystemsItem):
    """Tests systems with each way of searching, all against plain search of the first system.

    The penalty by past is also tested against GNMT's penalty for the first system, and a system
    that has a control of its size is tested against that.
    """

    def _evidence(
        self,
        workshop: Workshop,
        table: EvidenceTable,
        ways: dict[str, Any],
        searches: "Searches",
        tests: Sequence[ParallelText],
    ) -> Evidence:
        corpus = workshop.plan.corpus
        compared = [
            _compare(workshop, {title: searches[title] for title in titles}, tests)
            for titles in (list(searches), *self._rivals(searches))
        ]
        size = len(corpus.read(corpus.known.tests[0])[0])
        scored = f"{size} sentences; {compared[0].metric}: {compared[0].signature}"
        weights = {title: [each.weight for each in seeds] for title, seeds in searches.items()}
        figures = {**score_figures(compared), "ways": ways, "weights": weights}
        tables = [table, pair_table(compared)]
        notes = [_note(workshop), scored]
        return Evidence(self.name, self.title, self.claim, tables, (), notes, figures)

    def _rivals(self, searches: "Searches") -> list[list[str]]:
        """Lists further comparisons by their titles; each first title is what others face."""
        titles = [[_way(self.systems[0], "attention"), *(_way(s, "past") for s in self.systems)]]
        for system in self.systems:
            if system.same_size_as is not None:
                other = SYSTEMS[system.same_size_as]
                titles.append([system.title, other.title, _way(other, "past")])
        found = [[title for title in each if title in searches] for each in titles]
        return [each for each in found if len(each) > 1]


@dataclass(frozen=True)
class ConcatItem(_StressItem):
    """Trains on single and joined sentences, and tests each number of them."""

    def make(self, workshop: Workshop) -> Evidence:
        rows, ways, tests = [], {}, _tests(workshop, _JOINED)
        searches = _searches(workshop, self.systems, tests)
        for title, seeds in searches.items():
            each = [[_score(workshop, search, test) for test in tests] for search in seeds]
            steps = _JOINED[-1] - _JOINED[0]
            slopes = [(found[-1]["bleu"] - found[0]["bleu"]) / steps for found in each]
            ways[title] = {"by_sentences": each, "slope": slopes}
            last = [_weights(seeds), str(len(seeds))]
            rows += [
                [title, str(k), *_cells(found), *last]
                for k, found in zip(_JOINED, zip(*each, strict=True), strict=True)
            ]
            rows.append([title, "slope", over_seeds(slopes), "", "", "", "", *last])
        table = EvidenceTable(self.title, ["system", "sentences", *_COLUMNS], rows)
        return self._evidence(workshop, table, ways, searches, tests)

    def prepare(self, workshop: Workshop) -> Workshop:
        """Returns a workshop whose training text also has joined sentences."""
        corpus = workshop.plan.corpus
        sides = read_parallel(*corpus.training_paths())
        mixed = _one_text(join_lines(*sides, joined, seed=joined) for joined in _JOINED)
        return workshop.with_corpus(_written(corpus, workshop.plan.out / "concat", mixed), "concat")


@dataclass(frozen=True)
class OmissionItem(_StressItem):
    """Trains on references of which some lack a span, and tests on whole ones."""

    def make(self, workshop: Workshop) -> Evidence:
        rows, ways, tests = [], {}, _tests(workshop, (1,))
        searches = _searches(workshop, self.systems, tests)
        for title, seeds in searches.items():
            found = ways[title] = [_score(workshop, search, tests[0]) for search in seeds]
            rows.append([title, *_cells(found), _weights(seeds), str(len(found))])
        table = EvidenceTable(self.title, ["system", *_COLUMNS], rows)
        return self._evidence(workshop, table, ways, searches, tests)

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


_COLUMNS = ("BLEU", "chrF", "length ratio", "CDR", "under-coverage", "weight", "seeds")


def _weights_to_try(workshop: Workshop) -> dict[str, list[float]]:
    """Returns the weights of each penalty that are tried on the development set."""
    number = workshop.plan.scale.penalty_weights
    return {kind: sorted(each[:number]) for kind, each in _WEIGHTS.items()}


def _note(workshop: Workshop) -> str:
    """Says how the systems were trained, searched and tuned."""
    tried = " and ".join(
        f"{', '.join(map(str, each))} ({kind})" for kind, each in _weights_to_try(workshop).items()
    )
    return (
        "first test set; beam search alone, or with a coverage penalty by "
        "attention (GNMT) or by the past of the capsules; each seed has the weight of its best "
        f"BLEU on the development set, joined as the test set is, among {tried}; slope: BLEU per "
        "joined sentence; all systems continue the plain model, which was trained on the "
        "unchanged text"
    )


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


@dataclass(frozen=True)
class _TunedSearch:
    """A trained model with the settings of its search."""

    job: Job
    penalty: str = ""  # its source; empty, there is none
    weight: float = 0.0

    def of(self, lines: Sequence[str]) -> TranslationJob:
        """Returns the search for translations of these lines."""
        settings = {"coverage_penalty": self.weight, "coverage_source": self.penalty}
        decode = [f"decode.{key}={value}" for key, value in settings.items()]
        return TranslationJob(self.job, lines, decode if self.penalty else [])


Searches = Mapping[str, Sequence[_TunedSearch]]  # one for each seed, by title


def _way(system: System, penalty: str) -> str:
    return f"{system.title}, penalty by {penalty}" if penalty else system.title


def _tests(workshop: Workshop, joined: Sequence[int]) -> list[ParallelText]:
    """Joins the first test set by each of these numbers."""
    corpus = workshop.plan.corpus
    sides = corpus.read(corpus.known.tests[0])
    return [ParallelText(str(k), *join_lines(*sides, k, seed=k)) for k in joined]


def _searches(
    workshop: Workshop, systems: Sequence[System], tests: Sequence[ParallelText]
) -> Searches:
    """Returns plain search, and each penalty that a model allows, tuned on the development set.

    All of them translate here, together, so that processes that make the same item can share this.
    """
    corpus, weights = workshop.plan.corpus, {"": [0.0], **_weights_to_try(workshop)}
    joined = [int(test.name) for test in tests]
    development = ParallelText("", *join_parts(*corpus.read(corpus.development()), joined))
    tried = {
        _way(system, kind): [
            [_TunedSearch(job, kind, weight) for weight in weights[kind]]
            for job in workshop.seeds_of(system)
        ]
        for system in systems
        for kind in weights
        if kind != "past" or "model.separator.kind" in system.settings
    }
    rivals = [each for seeds in tried.values() for each in seeds if len(each) > 1]
    workshop.translate([search.of(development.sources) for each in rivals for search in each])
    found = {
        title: [_best(workshop, each, development) for each in seeds]
        for title, seeds in tried.items()
    }
    chosen = [search for seeds in found.values() for search in seeds]
    workshop.translate([search.of(test.sources) for search in chosen for test in tests])
    return found


def _best(
    workshop: Workshop, searches: Sequence[_TunedSearch], development: ParallelText
) -> _TunedSearch:
    """Returns the search with the best BLEU on a development set."""

    def bleu(search: _TunedSearch) -> float:
        found = workshop.translate([search.of(development.sources)])[0]
        return _scores(workshop, found, development.references, ["bleu"])[0]

    return max(searches, key=bleu) if len(searches) > 1 else searches[0]


def _compare(workshop: Workshop, searches: Searches, tests: Sequence[ParallelText]) -> Comparison:
    """Tests all ways of searching against the first."""
    outputs = []
    for title, seeds in searches.items():
        texts = [workshop.translate([each.of(test.sources) for test in tests]) for each in seeds]
        outputs.append(SystemOutputs(title, count_size(workshop, seeds[0].job), texts))
    return compare_texts(workshop, outputs, tests)


def join_parts(
    sources: Sequence[str], targets: Sequence[str], joined: Sequence[int]
) -> tuple[list[str], list[str]]:
    """Cuts a text into as many parts as there are numbers, and joins each part by its number."""
    ends = [len(sources) * k // len(joined) for k in range(len(joined) + 1)]
    return _one_text(
        join_lines(sources[first:last], targets[first:last], number, seed=number)
        for number, first, last in zip(joined, ends, ends[1:], strict=False)
    )


def _one_text(parts: Iterable[tuple[list[str], list[str]]]) -> tuple[list[str], list[str]]:
    """Puts parallel texts one after the other."""
    sources, targets = zip(*parts, strict=True)
    return list(chain(*sources)), list(chain(*targets))


def _score(workshop: Workshop, search: _TunedSearch, test: ParallelText) -> dict[str, Any]:
    sources, references = list(test.sources), list(test.references)
    found = workshop.translate([search.of(sources)])[0]
    bleu, chrf = _scores(workshop, found, references, ["bleu", "chrf"])
    words = [sum(len(line.split()) for line in side) for side in (found, references)]
    covered = coverage(workshop, sources, references, found)
    return {
        "bleu": bleu,
        "chrf": chrf,
        "length_ratio": words[0] / words[1],
        "cdr": covered["macro"],
        "under": covered["under"],
    }


def _scores(
    workshop: Workshop, found: Sequence[str], references: Sequence[str], metrics: Sequence[str]
) -> list[float]:
    tokenize = workshop.plan.corpus.known.bleu_tokenize
    return [each.value for each in corpus_scores(found, references, metrics, tokenize=tokenize)]


def _weights(seeds: Sequence[_TunedSearch]) -> str:
    return ", ".join(f"{each.weight:g}" for each in seeds if each.penalty)


def _cells(seeds: Sequence[dict[str, Any]]) -> list[str]:
    places = {"bleu": 2, "chrf": 2, "length_ratio": 3, "cdr": 3, "under": 3}
    return [over_seeds([each[key] for each in seeds], places[key]) for key in places]
