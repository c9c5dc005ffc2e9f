"""Traces of given pairs: their words and rows, phrases that are left out, and the report."""

import re
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.corpus.alignments import Alignment
from untold.errors import UntoldError
from untold.metrics.separation import (
    AlignedPair,
    Omission,
    SeparationReport,
    measure_separation,
    omission_auc,
    omit_phrase,
    position_rule,
    separation_report,
    trace_pairs,
)
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel
from untold.translator import Translator

NONE = Alignment(frozenset(), frozenset())


def aligned(source: str, target: str, *links: tuple[int, int]) -> AlignedPair:
    return AlignedPair(source, target, Alignment(frozenset(links), frozenset(links)))


def make_translator(root: Path, kind: str, **data: object) -> Translator:
    shape = toy_config(root).model.model_dump() | {"separator": {"kind": kind}}
    base = toy_config(root).data.model_dump()
    config = toy_config(root, model=shape, data=base | data)
    tokenizers = toy_tokenizers(root, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    model = fill(build_model(config.model, sizes, shared=tokenizers.joint)).eval()
    return Translator([TrainedModel(model, config, tokenizers)])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def translator(root: Path) -> Translator:
    return make_translator(root, "gdr")


PAIRS = [
    aligned("abcd ef g", "g ef abcd", (0, 2), (1, 1), (2, 0)),
    aligned("hgfe", "hgfe hh", (0, 0)),
    aligned("a  bcda", "dcba bcd a ", (0, 0), (1, 1), (1, 2)),  # more blanks are still blanks
]


@st.composite
def pairs(draw: st.DrawFn) -> AlignedPair:
    size, length = draw(st.integers(1, 5)), draw(st.integers(0, 7))
    links = st.tuples(st.integers(0, size - 1), st.integers(0, max(0, length - 1)))
    drawn = draw(st.sets(links, max_size=7)) if length else set()
    words = " ".join(f"v{j}" for j in range(length))
    return aligned(" ".join(f"w{i}" for i in range(size)), words, *drawn)


@given(pairs(), st.integers(0, 2**32))
def test_a_phrase_goes_with_all_that_its_words_say(pair: AlignedPair, seed: int) -> None:
    found = omit_phrase(pair, np.random.default_rng(seed))
    links, before = pair.alignment.sure, pair.target.split()
    if found is None:
        return
    after = found.pair.target.split()
    gone = [j for j, word in enumerate(before) if word not in after]
    assert gone == list(range(gone[0], gone[-1] + 1)), "one stretch"
    assert 1 <= len(gone) <= max(1, len(before) // 2)
    assert after == [word for word in before if word not in {before[j] for j in gone}]
    assert before[-1] == after[-1], "a target without its end would be a true prefix"
    omitted = {i for i, flag in enumerate(found.omitted) if flag}
    assert omitted and omitted == {i for i, j in links if j in gone}
    assert all(j in gone for i, j in links if i in omitted)
    named = {(i, before[j]) for i, j in links if i not in omitted}
    assert {(i, after[j]) for i, j in found.pair.alignment.sure} == named
    assert found.pair.alignment.possible == found.pair.alignment.sure
    assert found.pair.source == pair.source and len(found.omitted) == len(pair.source.split())


@given(pairs())
def test_only_pairs_without_such_a_phrase_have_none(pair: AlignedPair) -> None:
    """All phrases of one or more words, tried one by one; several seeds draw several lengths."""
    links, length = pair.alignment.sure, len(pair.target.split())
    phrases = []
    for first in range(length):
        for last in range(first, min(length - 1, first + max(1, length // 2))):
            inside = {i for i, j in links if first <= j <= last}
            if inside and all(first <= j <= last for i, j in links if i in inside):
                phrases.append((first, last))
    found = [omit_phrase(pair, np.random.default_rng(seed)) for seed in range(60)]
    assert any(found) == bool(phrases)


def test_a_phrase_by_hand() -> None:
    """w1 is said by v0 and v2, so neither can go alone; v3 is the last; v1 is all that may go."""
    pair = aligned("w0 w1 w2", "v0 v1 v2 v3", (0, 1), (1, 0), (1, 2), (2, 3))
    found = [omit_phrase(pair, np.random.default_rng(seed)) for seed in range(20)]
    made = [each for each in found if each is not None]
    assert made and len(made) < len(found), "no phrase of two words may go"
    for each in made:
        assert each.pair == aligned(pair.source, "v0 v2 v3", (1, 0), (1, 1), (2, 2))
        assert each.omitted.tolist() == [True, False, False]


def test_rows_and_columns_are_those_of_words(translator: Translator) -> None:
    """Before its first piece; redundant as all its pieces. The toy vocabulary cuts words."""
    several = 0
    for pair, trace in zip(PAIRS, trace_pairs(translator, PAIRS), strict=True):
        source = [translator.tokenizers.source.encode([w])[0] for w in pair.source.split()]
        target = [translator.tokenizers.target.encode([w])[0] for w in pair.target.split()]
        (scored,) = translator.score([(pair.source, pair.target)])
        if "  " not in pair.source + pair.target and not pair.target.endswith(" "):
            several += sum(len(word) > 1 for word in source + target)
            rows = [0, *np.cumsum([len(word) for word in target])]
            assert len(scored.assignments) == rows[-1] + 1
            first = 0
            for i, word in enumerate(source):
                pieces = scored.assignments[rows, first : first + len(word)]
                past, future, redundant = trace.shares[:, i].T
                told = pieces[..., :2].sum(1)
                np.testing.assert_allclose(redundant, pieces[..., 2].prod(1), rtol=1e-4)
                np.testing.assert_allclose(past + future + redundant, 1, rtol=1e-4)
                np.testing.assert_allclose(past * told[:, 1], future * told[:, 0], rtol=1e-3)
                first += len(word)
        assert trace.source == tuple(pair.source.split())
        assert trace.target == tuple(pair.target.split())
        assert trace.alignment == pair.alignment
        assert trace.shares.shape == (len(target) + 1, len(source), 3)
        np.testing.assert_allclose(trace.shares.sum(-1), 1, rtol=1e-5)
    assert several > 3


def test_the_company_of_a_pair_does_not_matter(translator: Translator) -> None:
    together = trace_pairs(translator, PAIRS)
    for pair, trace in zip(PAIRS, together, strict=True):
        (alone,) = trace_pairs(translator, [pair])
        np.testing.assert_allclose(alone.shares, trace.shares, rtol=1e-4)
    assert trace_pairs(translator, []) == []


def test_words_have_no_share_of_the_case_that_the_model_does_not_see(root: Path) -> None:
    lowercase = make_translator(root, "gdr", lowercase=True)
    upper = replace(PAIRS[0], source=PAIRS[0].source.upper(), target=PAIRS[0].target.upper())
    lower, same = trace_pairs(lowercase, [PAIRS[0], upper])
    np.testing.assert_allclose(lower.shares, same.shares, rtol=1e-5)
    assert same.source == ("ABCD", "EF", "G")


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\u00a0b c", "a", r"'a b c' has 3 words, but 2 for the tokenizer"),
        ("a", "b\tc", r"'b c' has 2 words, but 1 for the tokenizer"),
        ("a\u3000b", "c d", r"'a b' has 2 words, but 1 for the tokenizer"),
    ],
)
def test_words_that_the_tokenizer_does_not_see(
    translator: Translator, source: str, target: str, message: str
) -> None:
    with pytest.raises(UntoldError, match=f"{message}: alignments need text whose words stand"):
        trace_pairs(translator, [*PAIRS, AlignedPair(source, target, NONE)])


def test_a_link_beyond_the_words_is_an_error(translator: Translator) -> None:
    with pytest.raises(UntoldError, match=r"the link 1-2 leads out of a pair of 2 and 2 words"):
        trace_pairs(translator, [aligned("a b", "c d", (1, 2))])


def test_a_model_without_past_and_future_says_so(root: Path) -> None:
    with pytest.raises(UntoldError, match=re.escape('train one with model.separator.kind = "gdr"')):
        trace_pairs(make_translator(root, "none"), PAIRS)


def test_blank_sides(translator: Translator) -> None:
    blank = [AlignedPair("", "a b", NONE), AlignedPair("a b", "", NONE), AlignedPair("", "", NONE)]
    shapes = [trace.shares.shape for trace in trace_pairs(translator, blank)]
    assert shapes == [(3, 0, 3), (1, 2, 3), (1, 0, 3)]
    assert separation_report(translator, blank).omission_auc is None


def test_the_report_is_of_the_pairs_and_of_the_pairs_cut(translator: Translator) -> None:
    report = separation_report(translator, PAIRS)
    traces = trace_pairs(translator, PAIRS)
    assert report.model == measure_separation(traces)
    assert report.rule == measure_separation([position_rule(trace) for trace in traces])
    assert report.model != report.rule
    assert separation_report(translator, PAIRS) == report, "the same phrases are deleted each time"
    generator = np.random.default_rng(1)
    cut = [omission for pair in PAIRS if (omission := omit_phrase(pair, generator))]
    assert cut and all(isinstance(each, Omission) for each in cut)
    expected = omission_auc(
        trace_pairs(translator, [each.pair for each in cut]), [each.omitted for each in cut]
    )
    assert report.omission_auc == expected is not None


def test_the_table_has_a_line_for_each_figure(translator: Translator) -> None:
    report = separation_report(translator, PAIRS)
    header, *lines = report.lines()
    assert header.split() == ["model", "rule"]
    assert len(lines) == len(astuple(report.model)) + 1
    shown = {line[:30].strip(): line[30:].split() for line in lines}
    assert shown["accuracy off rule"] == [
        f"{each.accuracy_off_rule:.3f}" for each in (report.model, report.rule)
    ]
    assert shown["past at t/T = 0 .. 1"] == [f"{x:.2f}" for x in report.model.past_course]
    assert shown["omission word auc"] == [f"{report.omission_auc:.3f}"]
    nothing = measure_separation([])
    empty = SeparationReport(nothing, nothing, None).lines()
    assert [line[30:].split() for line in empty[1:]].count(["-", "-"]) == len(lines) - 2
