"""Measures how well omissions are found: kinds of omissions against ways to find them.

    python -m untold.lab.omission_benchmark MODEL --source S --reference R --alignments A

The omissions are good translations with something deleted, and what a model left out itself. The
links of the good translation say which source words are omitted; a word without a link is neither
omitted nor told, and such words are counted apart. A word stands between spaces. A way to find
omissions scores words and pairs, the higher the more likely something is missing.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from untold.alignment.aligners import Aligner, load_aligner, split_pairs
from untold.checking.evidence import (
    lexicon_evidence,
    segment_evidence,
    share_evidence,
    source_evidence,
)
from untold.checking.synthetic_errors import DAMAGE_KINDS, candidate_spans, frequent_words
from untold.corpus.text import read_test_set
from untold.corpus.words import merge_values, words_between_spaces
from untold.decoding.scoring import CANNOT_TELL, PairReader, ReadPair
from untold.errors import UntoldError
from untold.files import write_file
from untold.lab.figures import reliability_diagram
from untold.metrics.base import legend_lines
from untold.metrics.separation import AlignedPair, auc, check_words, read_aligned_pairs
from untold.progress_bar import task
from untold.storage.calibration import (
    Calibration,
    ReliabilityBin,
    calibration_error,
    probability,
    reliability,
)
from untold.translator import Translation, Translator, load

TextPairs: TypeAlias = Sequence[tuple[str, str]]
Read = TypeVar("Read")


@dataclass(frozen=True)
class PairScores:
    """The scores of one pair; a way that judges whole pairs alone has no scores of words."""

    words: Float[np.ndarray, " i"] | None
    segment: float


@dataclass(frozen=True)
class OmissionScorer:
    """A way to find omissions: scores the source words of each pair, and the pair."""

    name: str
    passes: str  # of the model over a pair: what it costs
    score: Callable[[TextPairs], list[PairScores]]


def omission_scorers(translator: Translator, aligner: Aligner | None) -> list[OmissionScorer]:
    """Makes every way that the model allows; the first is the model's own best."""
    trained = next((each for each in translator.models if each.model.past_future), None)
    if trained is None:
        raise UntoldError(CANNOT_TELL)
    past_future, calibration = trained.model.past_future, trained.calibration
    assert past_future is not None
    reader = PairReader(trained, translator.decode.batch_tokens)
    read = read_once(partial(_read_pairs, reader))
    attend = read_once(partial(translator.score, attention=True))
    scorers = [_by_pair("future", read, _future)]
    if calibration is not None:
        scorers.insert(0, _by_pair("account", read, partial(_calibrated, calibration)))
    if past_future.heads.lexicon is not None:
        scorers.append(_by_pair("lexicon", read, _lexicon))
    return [
        *scorers,
        _by_pair("attention coverage", attend, partial(_unseen, np.sum)),
        _by_pair("attention maximum", attend, partial(_unseen, np.max)),
        _by_pair("log-probability", read, lambda pair: _by_probability(pair, np.mean)),
        _by_pair("p(EOS)", read, lambda pair: _by_probability(pair, lambda row: row[-1])),
        *([] if aligner is None else [aligner_scorer(aligner)]),
        # By contrastive conditioning (Vamvas and Sennrich, 2022).
        OmissionScorer("contrastive", "1 a word", partial(_contrast, translator)),
    ]


def read_once(read: Callable[[TextPairs], list[Read]]) -> Callable[[TextPairs], list[Read]]:
    """Remembers what the last list of pairs was read as, for all that ask for the same list."""
    remembered = lru_cache(maxsize=1)(read)
    return lambda pairs: remembered(tuple(pairs))


def _by_pair(
    name: str, read: Callable[[TextPairs], list[Read]], score: Callable[[Read], PairScores]
) -> OmissionScorer:
    return OmissionScorer(name, "1", lambda pairs: [score(pair) for pair in read(pairs)])


def _read_pairs(reader: PairReader, pairs: TextPairs) -> list[ReadPair]:
    """Reads pairs whose source words are those that the scores are for."""
    read = reader.read(reader.encode(pairs))
    for (source, _), pair in zip(pairs, read, strict=True):
        check_words(source.split(), _words(pair))
    return read


def _words(pair: ReadPair) -> Any:
    return words_between_spaces("", pair.source)


def _by_highest(words: Float[np.ndarray, " i"]) -> PairScores:
    """Scores a pair by its most suspicious word."""
    return PairScores(words, float(words.max()) if len(words) else 0.0)


def _calibrated(known: Calibration, pair: ReadPair) -> PairScores:
    """Scores by log-odds: all evidence of one pass, weighed by its regression."""
    words = known.omitted.log_odds(source_evidence(pair, _words(pair)), known.omitted.prior)
    row = segment_evidence(pair, words)[None]
    return PairScores(words, float(known.has_omission.log_odds(row, known.damaged)[0]))


def _future(pair: ReadPair) -> PairScores:
    return _by_highest(share_evidence(pair, _words(pair))[:, 0])


def _lexicon(pair: ReadPair) -> PairScores:
    return _by_highest(lexicon_evidence(pair, _words(pair)))


def _unseen(merge: Callable[..., np.ndarray], scored: Translation) -> PairScores:
    """Scores words that no target word looked at: by cross-attention over all steps."""
    assert scored.attention is not None
    seen = merge(scored.attention, axis=0)
    words = words_between_spaces("", scored.source_tokens)
    return _by_highest(-merge_values(seen, words, np.max))


def _by_probability(pair: ReadPair, merge: Callable[[np.ndarray], Any]) -> PairScores:
    return PairScores(None, -float(merge(pair.log_probabilities)))


def aligner_scorer(aligner: Aligner) -> OmissionScorer:
    """Scores 1 for a word without a link, and a pair by the share of such words."""
    if aligner.config.source_words != "blank":
        raise UntoldError(
            f"the aligner counts words as {aligner.config.source_words!r}, and alignments of "
            'omissions as "blank": train one with untold align --source-words blank'
        )

    def score(pairs: TextPairs) -> list[PairScores]:
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        missing = [1.0 - linked for linked in _linked_words(sources, targets, aligner)]
        return [PairScores(row, float(row.mean()) if len(row) else 0.0) for row in missing]

    return OmissionScorer("aligner", "0", score)


def _contrast(translator: Translator, pairs: TextPairs) -> list[PairScores]:
    """Scores how much likelier the target is as a translation of the source without a word."""
    asked: list[tuple[str, str]] = []
    for source, target in pairs:
        words = source.split()
        rests = [" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))]
        asked += [(rest, target) for rest in [source, *rests]]
    scored = iter(translator.score(asked))
    scores = []
    for source, _ in pairs:
        whole = next(scored).log_probability
        gains = [next(scored).log_probability - whole for _ in source.split()]
        scores.append(_by_highest(np.array(gains)))
    return scores


@dataclass(frozen=True)
class OmissionCase:
    """A pair whose target lacks something, with a label for every source word."""

    source: str
    target: str
    omitted: Bool[np.ndarray, " i"]
    counted: Bool[np.ndarray, " i"]  # omitted or told; the others have no link


@dataclass(frozen=True)
class OmissionSet:
    """Cases of one kind. `intact` are the same pairs before the damage, if there was any."""

    kind: str
    cases: tuple[OmissionCase, ...]
    intact: tuple[tuple[str, str], ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(case.source, case.target) for case in self.cases]


def damaged_sets(pairs: Sequence[AlignedPair], seed: int = 1) -> list[OmissionSet]:
    """Deletes one content word, a phrase, a clause and the end of each target, if it has such."""
    frequent = frequent_words(pair.target.split() for pair in pairs)
    sets = []
    for kind in DAMAGE_KINDS:
        generator = np.random.default_rng(seed)
        made = [(pair, _delete(kind, pair, frequent, generator)) for pair in pairs]
        kept = [(pair, case) for pair, case in made if case is not None]
        intact = tuple((pair.source, pair.target) for pair, _ in kept)
        sets.append(OmissionSet(kind, tuple(case for _, case in kept), intact))
    return sets


def natural_set(
    pairs: Sequence[AlignedPair], outputs: Sequence[str], aligner: Aligner | None
) -> OmissionSet:
    """Finds what a model left out of its own translations of the same sources.

    A word is omitted if no word that it is linked to in the reference occurs in the output, and
    told if all of them do. On real text a synonym may have taken their place: with an aligner, an
    omitted word has no link in the output either, and a told word has one.
    """
    cases = [_by_words(pair, output) for pair, output in zip(pairs, outputs, strict=True)]
    if aligner is not None:
        linked = _linked_words([pair.source for pair in pairs], outputs, aligner)
        cases = [_confirmed(case, own) for case, own in zip(cases, linked, strict=True)]
    return OmissionSet("natural", tuple(cases), ())


def _delete(
    kind: str, pair: AlignedPair, frequent: frozenset[str], generator: np.random.Generator
) -> OmissionCase | None:
    """Deletes a span whose source words have no link outside of it."""
    words, size, links = pair.target.split(), len(pair.source.split()), pair.alignment.sure
    for start, stop in candidate_spans(kind, words, frequent, generator):
        inside = {i for i, j in links if start <= j < stop}
        if not inside or any(i in inside and not start <= j < stop for i, j in links):
            continue
        linked = {i for i, _ in links}
        return OmissionCase(
            pair.source,
            " ".join(words[:start] + words[stop:]),
            np.array([i in inside for i in range(size)]),
            np.array([i in linked for i in range(size)]),
        )
    return None


def _linked_words(
    sources: Sequence[str], targets: Sequence[str], aligner: Aligner
) -> list[Bool[np.ndarray, " i"]]:
    """Tells which source words have a link."""
    split = split_pairs(aligner.config, list(sources), list(targets))
    return [
        np.array([bool(links.targets(i)) for i in range(len(source))], bool)
        for (source, _), links in zip(split, aligner.align(split), strict=True)
    ]


def _confirmed(case: OmissionCase, linked: Bool[np.ndarray, " i"]) -> OmissionCase:
    """Keeps the labels that the links agree with."""
    omitted = case.omitted & ~linked
    told = case.counted & ~case.omitted & linked
    return OmissionCase(case.source, case.target, omitted, omitted | told)


def _by_words(pair: AlignedPair, output: str) -> OmissionCase:
    words, said = pair.target.split(), set(output.split())
    omitted, counted = [], []
    for i in range(len(pair.source.split())):
        wanted = {words[j] for j in pair.alignment.targets(i)}
        omitted.append(bool(wanted) and not wanted & said)
        counted.append(bool(wanted) and (omitted[-1] or wanted <= said))
    return OmissionCase(pair.source, output, np.array(omitted, bool), np.array(counted, bool))


_FALSE_ALARMS = 0.01  # words
_MEANINGS = {
    "word auc": "higher is better, 0.5 is chance: omitted words rank above told ones",
    "ap": "higher is better: average precision, when words are read from the most suspicious on",
    "f1": "higher is better: at the threshold that is best on the other half of the pairs",
    "recall@1%": "higher is better: omitted words found with 1 false alarm in 100 told words",
    "segment auc": "higher is better, 0.5 is chance: damaged pairs rank above intact ones, or "
    "pairs with omissions above those without",
    "unlinked": "lower is better: words without a link that are called omitted at that threshold",
    "passes": "what it costs: passes of the model over a pair",
}


@dataclass(frozen=True)
class OmissionFigures:
    """How well one way finds one kind of omissions; None means that it cannot be measured."""

    kind: str
    scorer: str
    passes: str
    pairs: int
    omitted: float  # the share of counted words
    word_auc: float | None
    average_precision: float | None
    f1: float | None
    recall: float | None  # with one false alarm in a hundred told words
    segment_auc: float | None
    unlinked: float | None  # the share of words without a link that are called omitted there


@dataclass(frozen=True)
class OmissionReport:
    """All figures, and how well the probabilities of the account are calibrated."""

    figures: tuple[OmissionFigures, ...]
    calibration_error: float | None
    reliability: tuple[ReliabilityBin, ...]

    def lines(self) -> list[str]:
        """Formats the figures as a table for the terminal."""
        names = ("word auc", "ap", "f1", "recall@1%", "segment auc", "unlinked", "passes")
        shown = [f"{'':28}" + "".join(f"{name:>12}" for name in names)]
        kind = ""
        for each in self.figures:
            if each.kind != kind:
                kind = each.kind
                shown.append(f"{kind}: {each.pairs} pairs, {each.omitted:.1%} of words omitted")
            values = (each.word_auc, each.average_precision, each.f1, each.recall)
            cells = [_cell(value) for value in (*values, each.segment_auc, each.unlinked)]
            shown.append(f"  {each.scorer:26}" + "".join(cells) + f"{each.passes:>12}")
        if self.calibration_error is not None:
            shown += ["", f"expected calibration error of words: {self.calibration_error:.4f}"]
            shown.append(f"{'said':>8}{'true':>8}{'words':>8}")
            shown += [f"{b.said:8.3f}{b.true:8.3f}{b.count:8}" for b in self.reliability]
        return shown

    def meanings(self) -> list[tuple[str, str]]:
        return list(_MEANINGS.items())


def omission_report(
    sets: Sequence[OmissionSet], scorers: Sequence[OmissionScorer]
) -> OmissionReport:
    """Measures every way on every set."""
    figures, chances, truth = [], [], []
    sets = [each for each in sets if each.cases]
    with task("finding omissions", len(sets) * len(scorers)) as begun:
        for own in sets:
            for scorer in scorers:
                # One list, so that scorers that need the same pass share it.
                scores = scorer.score([*own.pairs, *own.intact])
                damaged, intact = scores[: len(own.cases)], scores[len(own.cases) :]
                figures.append(measure_omissions(own, scorer, damaged, intact))
                if scorer.name == "account" and own.intact:
                    for said, true in _probabilities(own, damaged, intact):
                        chances.append(said)
                        truth.append(true)
                begun.advance(1)
    if not chances:
        return OmissionReport(tuple(figures), None, ())
    said, true = np.concatenate(chances), np.concatenate(truth)
    bins = tuple(reliability(said, true))
    return OmissionReport(tuple(figures), calibration_error(said, true), bins)


def measure_omissions(
    own: OmissionSet,
    scorer: OmissionScorer,
    damaged: Sequence[PairScores],
    intact: Sequence[PairScores],
) -> OmissionFigures:
    """Computes the figures of one way on one set from its scores."""
    omitted = np.concatenate([case.omitted[case.counted] for case in own.cases])
    word = ap = f1 = recall = unlinked = None
    rows = [each.words for each in damaged]
    known = [row for row in rows if row is not None]
    if len(known) == len(rows) and omitted.any() and not omitted.all():
        pairs = list(zip(known, own.cases, strict=True))
        by_pair = [(row[case.counted], case.omitted[case.counted]) for row, case in pairs]
        scores = np.concatenate([row for row, _ in by_pair])
        rest = np.concatenate([row[~case.counted] for row, case in pairs])
        word, ap = auc(scores[omitted], scores[~omitted]), average_precision(scores, omitted)
        f1 = _f1_of_halves(by_pair)
        recall, threshold = recall_at(_FALSE_ALARMS, scores, omitted)
        unlinked = float((rest > threshold).mean()) if len(rest) else None
    whole = np.array([each.segment for each in damaged])
    if intact:
        segment = auc(whole, np.array([each.segment for each in intact]))
    else:
        lacking = np.array([bool(case.omitted.any()) for case in own.cases])
        segment = auc(whole[lacking], whole[~lacking])
    share = float(omitted.mean()) if len(omitted) else 0.0
    return OmissionFigures(
        own.kind, scorer.name, scorer.passes, len(own.cases), share,
        word, ap, f1, recall, segment, unlinked,
    )  # fmt: skip


def average_precision(scores: Float[np.ndarray, " n"], truth: Bool[np.ndarray, " n"]) -> float:
    """Computes the mean precision at each true item; items of equal score share their precision."""
    order = np.argsort(-scores, kind="stable")
    ordered, hits = scores[order], truth[order]
    last = np.searchsorted(-ordered, -ordered, side="right")  # items down to the end of the tie
    precision = np.cumsum(hits)[last - 1] / last
    return float(precision[hits].mean()) if hits.any() else 0.0


def recall_at(
    alarms: float, scores: Float[np.ndarray, " n"], truth: Bool[np.ndarray, " n"]
) -> tuple[float, float]:
    """Finds the lowest threshold with at most this share of false alarms: recall, threshold.

    A score is an alarm if it is above the threshold.
    """
    false = np.sort(scores[~truth])[::-1]
    threshold = float(false[min(len(false) - 1, int(alarms * len(false)))])
    return float((scores[truth] > threshold).mean()), threshold


def _f1_of_halves(by_pair: Sequence[tuple[np.ndarray, np.ndarray]]) -> float | None:
    """Chooses the best threshold on every other pair and measures F1 on the rest, both ways."""
    right = wrong = missed = 0
    for first in (0, 1):
        learnt, held_out = by_pair[first::2], by_pair[1 - first :: 2]
        if not any(len(scores) for scores, _ in learnt) or not held_out:
            return None
        threshold = _best_threshold(*(np.concatenate(each) for each in zip(*learnt, strict=True)))
        scores, truth = (np.concatenate(each) for each in zip(*held_out, strict=True))
        right += int((truth & (scores >= threshold)).sum())
        wrong += int((~truth & (scores >= threshold)).sum())
        missed += int((truth & (scores < threshold)).sum())
    return 2 * right / max(1, 2 * right + wrong + missed)


def _best_threshold(scores: np.ndarray, truth: np.ndarray) -> float:
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(truth[order])
    values = 2 * hits / (np.arange(1, len(order) + 1) + max(1, int(truth.sum())))
    last = np.append(scores[order][1:] != scores[order][:-1], True)  # the end of each tie
    return float(scores[order][int(np.argmax(np.where(last, values, -1.0)))])


def _probabilities(
    own: OmissionSet, damaged: Sequence[PairScores], intact: Sequence[PairScores]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns said and true of the words of damaged pairs and of as many intact ones.

    A word without a link in a damaged pair may have been omitted or not: it is left out.
    """
    found = []
    for case, bad, good in zip(own.cases, damaged, intact, strict=True):
        assert bad.words is not None and good.words is not None
        found.append((probability(bad.words)[case.counted], case.omitted[case.counted]))
        found.append((probability(good.words), np.zeros(len(good.words), bool)))
    return found


def _cell(value: float | None) -> str:
    return f"{'-':>12}" if value is None else f"{value:12.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures a model by omissions that are made, and by those of its own translations."""
    parser = argparse.ArgumentParser(prog="python -m untold.lab.omission_benchmark")
    parser.add_argument("model")
    for name in ("source", "reference", "alignments"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--aligner", type=Path, help="a rival: what untold align --save wrote")
    parser.add_argument("--diagram", type=Path, help="draw said against true, as .png or .svg")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    kind = "" if given.diagram is None else given.diagram.suffix.removeprefix(".")
    if kind not in ("", "png", "svg"):
        parser.error(f"--diagram {given.diagram}: name a .png or .svg file")
    translator = load(given.model)
    links = None if given.aligner is None else load_aligner(given.aligner)
    texts = read_test_set(given.source, given.reference, print)
    pairs = read_aligned_pairs(*texts, given.alignments)
    scorers = omission_scorers(translator, links)
    outputs = [translation.text for translation in translator.translate(texts[0])]
    report = omission_report([*damaged_sets(pairs), natural_set(pairs, outputs, links)], scorers)
    if given.diagram is not None:
        error = report.calibration_error
        if error is None:
            parser.error("the model has no probabilities to draw: run untold calibrate first")
        write_file(given.diagram, reliability_diagram(report.reliability, error, kind))
    shown = "\n".join([*report.lines(), *legend_lines(report.meanings())])
    print(json.dumps(asdict(report)) if given.json else shown)


if __name__ == "__main__":
    main()
