"""Figures of omissions against plain forms, test sets by hand, and the scorers of a toy model."""

import json
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toys import toy_trained, write_corpus
from untold.alignment.aligners import Aligner
from untold.config import AlignerConfig
from untold.corpus.alignments import Alignment
from untold.decoding.scoring import PairReader
from untold.errors import UntoldError
from untold.lab.omission_benchmark import (
    OmissionCase,
    OmissionReport,
    OmissionScorer,
    OmissionSet,
    PairScores,
    aligner_scorer,
    average_precision,
    damaged_sets,
    measure_omissions,
    natural_set,
    omission_report,
    omission_scorers,
    read_once,
    recall_at,
)
from untold.metrics.separation import AlignedPair
from untold.storage.calibration import (
    SEGMENT_EVIDENCE,
    SHARE_EVIDENCE,
    SOURCE_EVIDENCE,
    TARGET_EVIDENCE,
    Calibration,
    Regression,
)
from untold.storage.model_directory import TrainedModel
from untold.translator import Translator


def aligned(source: str, target: str, *links: tuple[int, int]) -> AlignedPair:
    return AlignedPair(source, target, Alignment(frozenset(links), frozenset(links)))


ITEMS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=9)


def columns(items: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([float(s) for s, _ in items]), np.array([t for _, t in items], bool)


@given(ITEMS)
def test_average_precision_is_the_mean_over_true_items_ties_read_together(
    items: list[tuple[int, bool]],
) -> None:
    expected = []
    for score, true in items:
        if true:
            read = [other for above, other in items if above >= score]
            expected.append(sum(read) / len(read))
    found = average_precision(*columns(items))
    assert found == pytest.approx(sum(expected) / len(expected) if expected else 0.0)


@given(ITEMS, st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.99]))
def test_recall_is_the_largest_with_so_many_false_alarms(
    items: list[tuple[int, bool]], alarms: float
) -> None:
    scores, truth = columns(items)
    if truth.all() or not truth.any():
        return
    recall, threshold = recall_at(alarms, scores, truth)
    assert (scores[~truth] > threshold).mean() <= alarms
    assert recall == (scores[truth] > threshold).mean()
    allowed = [t for t in np.arange(-0.5, 5) if (scores[~truth] > t).mean() <= alarms]
    assert recall == max((scores[truth] > t).mean() for t in allowed)


def scores_of(rows: list[list[float]] | None = None) -> OmissionScorer:
    """Gives the scores that it was made with."""

    def score(pairs: Any) -> list[PairScores]:
        return [
            PairScores(np.array(row, float), float(max(row, default=0)))
            for row, _ in zip(rows or [[0.0]] * len(pairs), pairs, strict=True)
        ]

    return OmissionScorer("given", "0", score)


def case(omitted: list[bool], counted: list[bool] | None = None) -> OmissionCase:
    words = " ".join(f"w{k}" for k in range(len(omitted)))
    known = [True] * len(omitted) if counted is None else counted
    return OmissionCase(words, "x", np.array(omitted, bool), np.array(known, bool))


CASES = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=4),
    min_size=1,
    max_size=5,
)


def best_f1(learnt: list[tuple[int, bool]]) -> float:
    """The lowest threshold of those with the highest F1; words from it on are called omitted."""

    def f1(threshold: float) -> float:
        right = sum(t for s, t in learnt if s >= threshold)
        wrong = sum(not t for s, t in learnt if s >= threshold)
        missed = sum(t for s, t in learnt if s < threshold)
        return 2 * right / max(1, 2 * right + wrong + missed)

    thresholds = sorted({s for s, _ in learnt}, reverse=True)
    return max(thresholds, key=f1)


@given(CASES)
def test_f1_is_that_of_the_other_halfs_best_threshold(
    drawn: list[list[tuple[int, bool, bool]]],
) -> None:
    """Words are (score, omitted, counted), and an omitted word is counted."""
    own = OmissionSet(
        "x", tuple(case([o for _, o, _ in p], [o or c for _, o, c in p]) for p in drawn), ()
    )
    scorer = scores_of([[float(s) for s, _, _ in p] for p in drawn])
    found = measure_omissions(own, scorer, scorer.score(own.pairs), [])
    pairs = [[(s, o) for s, o, c in p if o or c] for p in drawn]
    words = [word for pair in pairs for word in pair]
    assert found.omitted == pytest.approx(sum(o for _, o in words) / len(words) if words else 0)
    if len({o for _, o in words}) < 2:
        assert found.word_auc is found.f1 is found.recall is found.unlinked is None
        return
    halves = [[word for pair in pairs[k::2] for word in pair] for k in (0, 1)]
    right = wrong = missed = 0
    if not all(halves):
        assert found.f1 is None
        return
    for learnt, held_out in (halves, halves[::-1]):
        threshold = best_f1(learnt)
        right += sum(o for s, o in held_out if s >= threshold)
        wrong += sum(not o for s, o in held_out if s >= threshold)
        missed += sum(o for s, o in held_out if s < threshold)
    assert found.f1 == pytest.approx(2 * right / max(1, 2 * right + wrong + missed))


def test_figures_by_hand() -> None:
    own = OmissionSet(
        "x", (case([True, False, False]), case([False, True], [False, True])), (("a", "b"),) * 2
    )
    scorer = scores_of([[3, 1, 0], [5, 2]])
    found = measure_omissions(
        own, scorer, scorer.score(own.pairs), scores_of([[4], [0]]).score(own.intact)
    )
    assert found.omitted == 0.5
    assert (found.word_auc, found.average_precision, found.recall) == (1.0, 1.0, 1.0)
    assert found.unlinked == 1.0, "the word of score 5 has no link"
    assert found.segment_auc == 0.75  # 3 and 5 against 4 and 0
    assert (found.kind, found.scorer, found.passes, found.pairs) == ("x", "given", "0", 2)


def test_segments_of_models_are_told_apart_by_whether_they_lack_anything() -> None:
    own = OmissionSet("natural", (case([True, False]), case([False])), ())
    scorer = scores_of([[3, 0], [1]])
    assert measure_omissions(own, scorer, scorer.score(own.pairs), []).segment_auc == 1.0


PAIRS = [
    aligned("abcd ef g", "g ef abcd", (0, 2), (1, 1), (2, 0)),
    aligned("hg fe", "hg hh", (0, 0)),
    aligned("a b c d e f g h ab", "ab h g f e d c b a", *((i, 8 - i) for i in range(9))),
    aligned("a bc d", "a d bc", (0, 0), (1, 2), (2, 1), (1, 1)),
]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str, frozenset[tuple[int, int]]]:
    size, length = draw(st.integers(1, 8)), draw(st.integers(0, 12))
    links = st.tuples(st.integers(0, size - 1), st.integers(0, max(0, length - 1)))
    drawn = draw(st.frozensets(links, max_size=12)) if length else frozenset()
    target = " ".join(f"v{j}" for j in range(length))
    return " ".join(f"w{i}" for i in range(size)), target, drawn


@given(st.lists(pairs(), max_size=4), st.integers(0, 99))
def test_only_words_whose_links_are_all_deleted_are_omitted(
    drawn: list[tuple[str, str, frozenset[tuple[int, int]]]], seed: int
) -> None:
    given_pairs = [AlignedPair(s, t, Alignment(links, links)) for s, t, links in drawn]
    sets = damaged_sets(given_pairs, seed)
    assert [each.kind for each in sets] == ["word", "phrase", "clause", "end"]
    for own in sets:
        assert len(own.cases) == len(own.intact) <= len(drawn)
        for each, (source, target) in zip(own.cases, own.intact, strict=True):
            assert each.source == source
            before, after = target.split(), each.target.split()
            gone = [j for j, word in enumerate(before) if word not in after]
            assert gone == list(range(gone[0], gone[-1] + 1)) and 0 < len(gone) < len(before)
            candidates = [links for s, t, links in drawn if (s, t) == (source, target)]
            assert any(
                each.omitted.tolist()
                == [any((i, j) in links for j in gone) for i in range(len(each.omitted))]
                and not any(each.omitted[i] and j not in gone for i, j in links)
                and each.counted.tolist()
                == [any(i == k for i, _ in links) for k in range(len(each.counted))]
                for links in candidates
            )
            assert each.omitted.any()


def test_natural_omissions_by_hand() -> None:
    """Told if all linked words are there, omitted if none is, and nothing if some are."""
    pair = aligned("w0 w1 w2 w3", "a b c d", (0, 0), (1, 1), (1, 2), (2, 3))
    (found,) = natural_set([pair], ["a c x"], None).cases
    assert found.omitted.tolist() == [False, False, True, False]
    assert found.counted.tolist() == [True, False, True, False]
    assert (found.source, found.target) == (pair.source, "a c x")
    own = natural_set([pair, aligned("", "a")], ["", ""], None)
    assert own.cases[0].omitted.tolist() == [True, True, True, False]
    assert len(own.cases[1].omitted) == 0 and own.intact == ()


class Linker:
    """Links words that are equal, and "d" with "x", its synonym."""

    def links(self, pairs: Any) -> list[frozenset[tuple[int, int]]]:
        same = {("w2", "x"), ("w0", "a")}
        return [
            frozenset(
                (i, j) for (i, s), (j, t) in product(enumerate(a), enumerate(b)) if (s, t) in same
            )
            for a, b in pairs
        ]

    def translates(self, source: str, target: str) -> float:
        return float(source == target)

    def save(self, folder: Path) -> None:
        raise NotImplementedError


def test_with_an_aligner_both_must_agree() -> None:
    aligner = Aligner(AlignerConfig(source_words="blank", target_words="blank"), Linker())
    pair = aligned("w0 w1 w2 w3", "a b d e", (0, 0), (1, 1), (2, 2), (3, 3))
    (found,) = natural_set([pair], ["a b x"], aligner).cases
    assert found.omitted.tolist() == [False, False, False, True], "x stands for d"
    assert found.counted.tolist() == [True, False, False, True], "b is there, but has no link"
    scores = aligner_scorer(aligner).score([("w0 w1", "a"), ("", "a")])
    assert scores[0].words is not None and scores[0].words.tolist() == [0.0, 1.0]
    assert (scores[0].segment, scores[1].segment) == (0.5, 0.0)


def test_an_aligner_of_other_words_is_refused() -> None:
    aligner = Aligner(AlignerConfig(source_words="character", target_words="character"), Linker())
    with pytest.raises(UntoldError, match=r"counts words as 'character'.*--source-words blank"):
        aligner_scorer(aligner)


def plain(names: tuple[str, ...]) -> Regression:
    ones = (1.0,) * len(names)
    return Regression(names, (0.0,) * len(names), ones, tuple(x / 3 for x in ones), -1.0, 0.2)


CALIBRATION = Calibration(
    plain(SOURCE_EVIDENCE),
    plain(TARGET_EVIDENCE),
    plain(SEGMENT_EVIDENCE),
    plain(SEGMENT_EVIDENCE),
    plain(SHARE_EVIDENCE),
    damaged=0.5,
    segments=20,
    error=0.1,
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    root = write_corpus(tmp_path_factory.mktemp("corpus"))
    made = toy_trained(root, model={"separator": {"kind": "gdr", "lexicon": 5}})
    return TrainedModel(made.model, made.config, made.tokenizers, CALIBRATION)


NAMES = ["account", "future", "lexicon", "attention coverage", "attention maximum"]
NAMES += ["log-probability", "p(EOS)", "contrastive"]


def test_every_scorer_scores_every_word(trained: TrainedModel) -> None:
    texts = [(pair.source, pair.target) for pair in PAIRS] + [("", "a"), ("a  b", "")]
    scorers = omission_scorers(Translator([trained]), None)
    assert [each.name for each in scorers] == NAMES
    for scorer in scorers:
        for (source, target), found in zip(texts, scorer.score(texts), strict=True):
            assert np.isfinite(found.segment)
            whole = scorer.name in ("log-probability", "p(EOS)")
            assert (found.words is None) == whole
            if found.words is not None:
                assert found.words.shape == (len(source.split()),)
                assert np.isfinite(found.words).all()
            (alone,) = scorer.score([(source, target)])
            assert alone.segment == pytest.approx(found.segment, abs=1e-3)


def test_what_the_model_lacks_is_left_out(trained: TrainedModel, tmp_path: Path) -> None:
    bare = TrainedModel(trained.model, trained.config, trained.tokenizers)
    assert [each.name for each in omission_scorers(Translator([bare]), None)] == NAMES[1:]
    root = write_corpus(tmp_path)
    with pytest.raises(UntoldError, match="cannot tell what is untold"):
        omission_scorers(Translator([toy_trained(root)]), None)


def test_a_report_reads_every_pair_once_for_all_ways_of_a_pass(
    trained: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read, scores = PairReader.read, []
    score = Translator.score
    monkeypatch.setattr(
        PairReader, "read", lambda self, pairs: reads.append(len(pairs)) or read(self, pairs)
    )
    monkeypatch.setattr(
        Translator,
        "score",
        lambda self, pairs, **wanted: scores.append(wanted) or score(self, pairs, **wanted),
    )
    sets = [*damaged_sets(PAIRS), natural_set(PAIRS, [pair.target for pair in PAIRS], None)]
    report = omission_report(sets, omission_scorers(Translator([trained]), None))
    filled = [each for each in sets if each.cases]
    assert reads == [len(each.cases) + len(each.intact) for each in filled]
    assert sum("attention" in each for each in scores) == len(filled)
    assert len(report.figures) == len(filled) * len(NAMES)


def test_one_list_is_kept_and_no_more() -> None:
    asked: list[list[tuple[str, str]]] = []
    once = read_once(lambda pairs: asked.append(list(pairs)) or [s for s, _ in pairs])
    one, other = [("a", "b")], [("c", "d")]
    assert [once(each) for each in (one, list(one), other, one)] == [["a"], ["a"], ["c"], ["a"]]
    assert asked == [one, other, one]
    assert once([]) == []


@pytest.fixture(scope="module")
def report(trained: TrainedModel) -> OmissionReport:
    sets = [*damaged_sets(PAIRS), natural_set(PAIRS, ["g", "", "ab bc", "a"], None)]
    return omission_report(sets, omission_scorers(Translator([trained]), None))


def test_the_report_is_a_table_and_json(report: OmissionReport) -> None:
    header, *lines = report.lines()
    kinds = {each.kind: each for each in report.figures}
    assert kinds.keys() == {"phrase", "clause", "end", "natural"}, "all words are frequent here"
    for kind, each in kinds.items():
        assert f"{kind}: {each.pairs} pairs, {each.omitted:.1%} of words omitted" in lines
    named = [name for name, _ in report.meanings()]
    assert all(name in header for name in named)
    rows = [line for line in lines if line.startswith("  account")]
    own = [each for each in report.figures if each.scorer == "account"]
    for row, each in zip(rows, own, strict=True):
        cells = row[28:].split()
        assert cells[0] == ("-" if each.word_auc is None else f"{each.word_auc:.3f}")
        assert cells[-1] == each.passes == "1"
    assert report.calibration_error is not None and len(report.reliability) > 0
    assert sum(each.count for each in report.reliability) > 0
    assert json.loads(json.dumps(asdict(report), allow_nan=False))["figures"][0]["kind"] == "phrase"


def test_nothing_to_measure_is_a_report_too(trained: TrainedModel) -> None:
    scorers = omission_scorers(Translator([trained]), None)
    blank = [
        aligned(
            "a",
            "",
        ),
        aligned("", "b"),
    ]
    found = omission_report([*damaged_sets(blank), natural_set(blank, ["", ""], None)], scorers)
    assert {each.kind for each in found.figures} == {"natural"}
    assert all(each.word_auc is None and each.omitted == 0 for each in found.figures)
    assert found.calibration_error is None and found.lines()
    assert omission_report([], scorers) == OmissionReport((), None, ())


def test_words_that_the_tokenizer_does_not_see(trained: TrainedModel) -> None:
    scorers = omission_scorers(Translator([trained]), None)
    sets = [natural_set([aligned("a\u00a0b c", "a", (0, 0))], ["a"], None)]
    with pytest.raises(UntoldError, match="has 3 words, but 2 for the tokenizer"):
        omission_report(sets, scorers)
