"""Judges a claim by results: what was measured, and a plain verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from untold.experiments.claims.result_set import ResultSet

__all__ = [
    "HOLDS",
    "NO",
    "Judge",
    "Outcome",
    "costs_at_most",
    "gains",
    "grows_with_length",
    "is_best_in_the_middle",
    "keeps",
    "knows_words",
    "rises",
    "separates",
]

Verdict = Literal["holds", "does not hold at this size"]
_FEWEST = 50  # sentences of a bucket
HOLDS: Verdict = "holds"
NO: Verdict = "does not hold at this size"


@dataclass(frozen=True)
class Outcome:
    """Says what was measured, and whether the claim holds there."""

    verdict: Verdict
    numbers: str


Judge = Callable[[ResultSet], Outcome | None]  # None: it was not measured there


def _outcome(is_true: bool, numbers: str) -> Outcome:
    return Outcome(HOLDS if is_true else NO, numbers)


def gains(item: str, system: str, *against: str) -> Judge:
    """Judges that a system has a better BLEU than each of some others, above chance."""

    def judge(results: ResultSet) -> Outcome | None:
        found = {other: results.test(item, system, other) for other in against}
        tests = {name: test for name, test in found.items() if test is not None}
        if len(tests) < len(against):
            return None
        numbers = "; ".join(f"over {name}: {test}" for name, test in tests.items())
        return _outcome(all(test.is_better for test in tests.values()), numbers)

    return judge


def keeps(item: str, system: str, against: str) -> Judge:
    """Judges that a system is not worse than another; a loss counts if it is above chance."""

    def judge(results: ResultSet) -> Outcome | None:
        test = results.test(item, system, against)
        if test is None:
            return None
        return _outcome(not test.is_worse, f"over {against}: {test}")

    return judge


def rises(item: str, key: str, pairs: Sequence[tuple[str, str]], places: int = 3) -> Judge:
    """Judges that a figure is higher for each second system on every seed that both have."""

    def judge(results: ResultSet) -> Outcome | None:
        parts, is_true = [], True
        for before, after in pairs:
            both = [results.measured(item, name) for name in (before, after)]
            if None in both:
                return None
            low, high = ([each[key] for each in seeds or ()] for seeds in both)
            is_true &= all(x < y for x, y in zip(low, high, strict=False))
            means = (f"{fmean(values):.{places}f} (n = {len(values)})" for values in (low, high))
            parts.append(f"{before} {next(means)}, {after} {next(means)}")
        return _outcome(is_true, f"{key}: {'; '.join(parts)}")

    return judge


def separates(system: str, item: str = "separation") -> Judge:
    """Judges that past and future are right more often than word order alone tells."""

    def judge(results: ResultSet) -> Outcome | None:
        seeds = results.measured(item, system)
        if seeds is None:
            return None
        parts, is_true = [], True
        for key in ("auc", "flips"):
            own = fmean(each["model"][key] for each in seeds)
            rule = seeds[0]["rule"][key]
            is_true &= own > rule
            parts.append(f"{_LABELS[key]} {own:.3f}, the position rule {rule:.3f}")
        off = fmean(each["model"]["accuracy_off_rule"] for each in seeds)
        parts.append(f"right where the rule is wrong {off:.3f} (n = {len(seeds)})")
        return _outcome(is_true, "; ".join(parts))

    return judge


_LABELS = {"auc": "AUC", "flips": "words that turn in time"}


def knows_words(system: str, margin: float) -> Judge:
    """Judges that the bags predict more words than the most frequent ones are."""

    def judge(results: ResultSet) -> Outcome | None:
        seeds = results.measured("overlap", system)
        if seeds is None:
            return None
        own = {key: fmean(each[key] for each in seeds) for key in ("past", "future")}
        plain = {key: seeds[0][f"{key}_by_frequency"] for key in own}
        numbers = "; ".join(
            f"{key} {own[key]:.3f}, the most frequent words {plain[key]:.3f}" for key in own
        )
        is_true = all(own[key] > plain[key] + margin for key in own)
        return _outcome(is_true, f"{numbers} (n = {len(seeds)})")

    return judge


def grows_with_length(before: str, after: str) -> Judge:
    """Judges that the longest sources gain, and more than the shortest.

    Buckets with few sentences tell nothing, and are left out.
    """

    def judge(results: ResultSet) -> Outcome | None:
        record = results.items.get("figure5")
        plain, own = (results.measured("figure5", name) for name in (before, after))
        if record is None or plain is None or own is None:
            return None
        table = record["tables"][0]
        full = [place for place, size in enumerate(table["rows"][-1][1:]) if int(size) >= _FEWEST]
        buckets = [table["columns"][1 + place] for place in full]
        gaps = {
            key: [_means(own[key])[place] - _means(plain[key])[place] for place in full]
            for key in ("bleu", "words")
        }
        numbers = ", ".join(
            f"{bucket} words {bleu:+.2f} BLEU and {words:+.2f} words"
            for bucket, bleu, words in zip(buckets, gaps["bleu"], gaps["words"], strict=True)
        )
        is_true = gaps["bleu"][-1] > max(0.0, gaps["bleu"][0]) and gaps["words"][-1] > 0
        return _outcome(is_true, numbers)

    return judge


def _means(seeds: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(each) for each in zip(*seeds, strict=True)]


def is_best_in_the_middle(setting: str) -> Judge:
    """Judges that a sweep has its best BLEU between its ends."""

    def judge(results: ResultSet) -> Outcome | None:
        figures = results.figures("figure7")
        if figures is None:
            return None
        values: Mapping[str, float] = figures[setting]
        first, *_, last = values
        best = max(values, key=lambda name: values[name])
        numbers = ", ".join(f"{name}: {bleu:.2f}" for name, bleu in values.items())
        return _outcome(best not in (first, last), f"{setting} {numbers}")

    return judge


def costs_at_most(expected: Mapping[str, tuple[float, float]]) -> Judge:
    """Judges that training and decoding keep the shares of the plain speed that were claimed."""

    def judge(results: ResultSet) -> Outcome | None:
        found = {name: results.measured("speed", name) for name in expected}
        speeds = {name: each for name, each in found.items() if each is not None}
        if len(speeds) < len(expected):
            return None
        numbers = "; ".join(
            f"{name} {both[0]:.2f} of the plain speed in training, {both[1]:.2f} in decoding"
            for name, both in speeds.items()
        )
        is_true = all(
            own >= claimed
            for name, both in speeds.items()
            for own, claimed in zip(both, expected[name], strict=True)
        )
        return _outcome(is_true, numbers)

    return judge
