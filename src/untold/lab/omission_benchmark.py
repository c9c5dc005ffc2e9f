"""Measures how well omissions are found: kinds of omissions against ways to find them.

    python -m untold.lab.omission_benchmark MODEL --source S --reference R --alignments A

needs a test set with word alignments, which say which words were left out.

Ways to find omitted source words behind one interface, with what they cost: ours and rivals.

Each gives every source word of a pair a score, the higher the more likely it was omitted, and every
pair a score. Only orders count. A word stands between blanks. Ways of one pass share it.

Test sets of omissions: good translations with something deleted, and what models left out.

The links of the good translation say which source words are omitted. A word without a link is
neither omitted nor told; such words are counted apart.
"""

import argparse
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

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
from untold.explain.figures import MARGIN, Canvas, render
from untold.files import write_file
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


class ReadOnce(Generic[Read]):
    """Keeps what the last list of pairs was read as, for all scorers that ask for the same list."""

    def __init__(self, read: Callable[[TextPairs], list[Read]]) -> None:
        self._read = read
        self._pairs: TextPairs = ()
        self._found: list[Read] = []

    def __call__(self, pairs: TextPairs) -> list[Read]:
        """Reads the pairs, unless it was the last thing that it did."""
        if tuple(pairs) != self._pairs:
            self._found, self._pairs = self._read(pairs), tuple(pairs)
        return self._found


@dataclass(frozen=True)
class PairScores:
    """The scores of one pair; a way that judges whole pairs alone has no scores of words."""

    words: Float[np.ndarray, " i"] | None
    segment: float


class OmissionScorer(ABC):
    """A way to find omissions."""

    name: str
    passes: str  # of the model over a pair

    @abstractmethod
    def score(self, pairs: TextPairs) -> list[PairScores]:
        """Scores the source words of each pair, and the pair."""


class AccountScorer(OmissionScorer):
    """Scores by the calibrated account: all evidence of one pass, weighed by its regression."""

    name, passes = "account", "1"

    def __init__(self, accounts: ReadOnce[ReadPair], calibration: Calibration) -> None:
        self.accounts, self.calibration = accounts, calibration

    def score(self, pairs: TextPairs) -> list[PairScores]:
        return [self._score(each) for each in self.accounts(pairs)]

    def _score(self, account: ReadPair) -> PairScores:
        known = self.calibration
        evidence = source_evidence(account, words_between_spaces("", account.source))
        words = known.omitted.log_odds(evidence, known.omitted.prior)
        row = segment_evidence(account, words)[None]
        return PairScores(words, float(known.has_omission.log_odds(row, known.damaged)[0]))


class EvidenceScorer(OmissionScorer):
    """Scores by one kind of evidence alone: FUTURE at the end, or the lexicon."""

    passes = "1"

    def __init__(self, accounts: ReadOnce[ReadPair], *, by_lexicon: bool) -> None:
        self.accounts, self.by_lexicon = accounts, by_lexicon
        self.name = "lexicon" if by_lexicon else "future"

    def score(self, pairs: TextPairs) -> list[PairScores]:
        return [_by_highest(self._words(each)) for each in self.accounts(pairs)]

    def _words(self, account: ReadPair) -> Float[np.ndarray, " i"]:
        words = words_between_spaces("", account.source)
        if self.by_lexicon:
            return lexicon_evidence(account, words)
        return share_evidence(account, words)[:, 0]


class AttentionScorer(OmissionScorer):
    """Scores by cross-attention: words that no target word looked at."""

    passes = "1"

    def __init__(self, scored: ReadOnce[Translation], *, by_maximum: bool) -> None:
        self.scored = scored
        self.name = "attention maximum" if by_maximum else "attention coverage"
        self.merge: Callable[..., np.ndarray] = np.max if by_maximum else np.sum

    def score(self, pairs: TextPairs) -> list[PairScores]:
        return [_by_highest(self._words(each)) for each in self.scored(pairs)]

    def _words(self, scored: Translation) -> Float[np.ndarray, " i"]:
        assert scored.attention is not None
        seen = self.merge(scored.attention, axis=0)
        return -merge_values(seen, words_between_spaces("", scored.source_tokens), np.max)


class SequenceScorer(OmissionScorer):
    """Scores whole pairs: by the mean log-probability of the target, or by that of its end."""

    passes = "1"

    def __init__(self, accounts: ReadOnce[ReadPair], *, by_end: bool) -> None:
        self.accounts, self.by_end = accounts, by_end
        self.name = "p(EOS)" if by_end else "log-probability"

    def score(self, pairs: TextPairs) -> list[PairScores]:
        found = [each.log_probabilities for each in self.accounts(pairs)]
        return [PairScores(None, -float(p[-1] if self.by_end else p.mean())) for p in found]


class AlignerScorer(OmissionScorer):
    """Scores by a word aligner: words without a link."""

    name, passes = "aligner", "0"

    def __init__(self, aligner: Aligner) -> None:
        if aligner.config.source_words != "blank":
            raise UntoldError(
                f"the aligner counts words as {aligner.config.source_words!r}, and alignments of "
                'omissions as "blank": train one with untold align --source-words blank'
            )
        self.aligner = aligner

    def score(self, pairs: TextPairs) -> list[PairScores]:
        texts = [source for source, _ in pairs], [target for _, target in pairs]
        words = split_pairs(self.aligner.config, *texts)
        found = []
        for links, (source, _) in zip(self.aligner.align(words), words, strict=True):
            linked = {i for i, _ in links.sure}
            missing = np.array([float(i not in linked) for i in range(len(source))])
            found.append(PairScores(missing, float(missing.mean()) if len(missing) else 0.0))
        return found


class ContrastiveScorer(OmissionScorer):
    """Scores by contrastive conditioning (Vamvas and Sennrich, 2022): a pass for every word.

    A word was probably omitted if the target is likelier as a translation of the source without it.
    """

    name, passes = "contrastive", "1 a word"

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    def score(self, pairs: TextPairs) -> list[PairScores]:
        asked: list[tuple[str, str]] = []
        for source, target in pairs:
            words = source.split()
            rests = [" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))]
            asked += [(source, target), *((rest, target) for rest in rests)]
        found = iter(self.translator.score(asked))
        scored = []
        for source, _ in pairs:
            whole = next(found).log_probability
            gains = [next(found).log_probability - whole for _ in source.split()]
            scored.append(_by_highest(np.array(gains)))
        return scored


def omission_scorers(translator: Translator, aligner: Aligner | None) -> list[OmissionScorer]:
    """Makes every way that the model allows; the first is the model's own best."""
    trained = next((each for each in translator.models if each.model.past_future), None)
    if trained is None:
        raise UntoldError(CANNOT_TELL)
    past_future = trained.model.past_future
    assert past_future is not None
    reader = PairReader(trained, translator.decode.batch_tokens)
    accounts = ReadOnce(partial(_read_accounts, reader))
    scored = ReadOnce(partial(translator.score, attention=True))
    found: list[OmissionScorer] = []
    if trained.calibration is not None:
        found.append(AccountScorer(accounts, trained.calibration))
    found.append(EvidenceScorer(accounts, by_lexicon=False))
    if past_future.heads.lexicon is not None:
        found.append(EvidenceScorer(accounts, by_lexicon=True))
    found += [AttentionScorer(scored, by_maximum=each) for each in (False, True)]
    found += [SequenceScorer(accounts, by_end=each) for each in (False, True)]
    if aligner is not None:
        found.append(AlignerScorer(aligner))
    return [*found, ContrastiveScorer(translator)]


def _read_accounts(reader: PairReader, pairs: TextPairs) -> list[ReadPair]:
    """Reads pairs whose source words are those that the scores are for."""
    found = reader.read(reader.encode(pairs))
    for (source, _), account in zip(pairs, found, strict=True):
        check_words(source.split(), words_between_spaces("", account.source))
    return found


def _by_highest(words: Float[np.ndarray, " i"]) -> PairScores:
    return PairScores(words, float(words.max()) if len(words) else 0.0)


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
        linked = _linked_words(pairs, outputs, aligner)
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
    pairs: Sequence[AlignedPair], outputs: Sequence[str], aligner: Aligner
) -> list[Bool[np.ndarray, " i"]]:
    """Tells which source words have a link in the output."""
    split = split_pairs(aligner.config, [pair.source for pair in pairs], list(outputs))
    return [
        np.array([bool(found.targets(i)) for i in range(len(source))], bool)
        for (source, _), found in zip(split, aligner.align(split), strict=True)
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
