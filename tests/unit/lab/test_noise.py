"""Clauses are deleted from the right references, and everything else stays."""

import itertools

import pytest

from untold.corpus.text import read_lines
from untold.errors import UntoldError
from untold.lab.grammars.sampling import (
    Sample,
    clause_spans,
    delete_clauses,
    load_grammar,
    remove_span,
    write_sample,
)


def sample(source, target, links):
    pairs = tuple(tuple(map(int, link.split("-"))) for link in links.split())
    return Sample(tuple(source.split()), tuple(target.split()), pairs)


FIRST = sample(
    "if it rains we sleep .", "Wenn es regnet , schlafen wir .", "0-0 1-1 2-2 3-5 4-4 5-6"
)
INNER = sample(
    "he sees the cat that sleeps here now .",
    "Er sieht die Katze , die hier schläft , jetzt immer .",
    "0-0 1-1 2-2 3-3 4-5 5-7 6-6 7-9 8-11",
)


def test_a_clause_goes_with_its_commas_and_its_links():
    found = {" ".join(remove_span(INNER, *place).target) for place in clause_spans(INNER)}
    assert found == {
        "Die hier schläft , jetzt immer .",
        "Er sieht die Katze jetzt immer .",
        "Er sieht die Katze , die hier schläft .",
    }
    shorter = remove_span(INNER, 4, 9)
    assert shorter.alignment == ((0, 0), (1, 1), (2, 2), (3, 3), (7, 4), (8, 6))
    assert shorter.source == INNER.source


def test_the_next_word_takes_over_a_capital():
    found = [" ".join(remove_span(FIRST, *place).target) for place in clause_spans(FIRST)]
    assert found == ["Wenn es regnet ."], "more than half of the sentence stays"
    assert remove_span(FIRST, 0, 4).target == ("Schlafen", "wir", ".")
    assert remove_span(FIRST, 0, 4).alignment == ((3, 1), (4, 0), (5, 2))


@pytest.mark.parametrize(
    "pair",
    [
        sample("a b c d .", "A , b c , d .", "0-0 1-2 1-5 2-3 3-5 4-6"),  # b is linked outside
        sample("a b c d .", "A b c d .", "0-0 1-1 2-2 3-3 4-4"),  # no comma
        sample("a b c d .", "A c , b , d .", "0-0 1-3 2-1 3-5 4-6"),  # one word alone
        sample("a .", "A b , c d .", "0-0 1-5"),  # no source word is lost
    ],
)
def test_what_is_no_clause(pair):
    assert [place for place in clause_spans(pair) if place[0] > 0] == []


def test_the_share_is_exact_and_the_rest_untouched():
    samples = list(itertools.islice(load_grammar("en-de").stream(5), 100))
    noisy = delete_clauses(samples, 0.2, 7, set())
    changed = [(a, b) for a, b in zip(samples, noisy, strict=True) if a != b]
    assert len(changed) == 20
    for before, after in changed:
        assert after.source == before.source
        assert len(before.target) / 2 <= len(after.target) <= len(before.target) - 3
        lost = {i for i, _ in before.alignment} - {i for i, _ in after.alignment}
        assert lost, "some source words are told no more"
        kept = [(before.source[i], after.target[j].lower()) for i, j in after.alignment]
        links = [(before.source[i], before.target[j].lower()) for i, j in before.alignment]
        assert len(kept) == len(after.alignment) and set(kept) <= set(links)
    assert delete_clauses(samples, 0.2, 7, set()) == noisy != delete_clauses(samples, 0.2, 8, set())


def test_no_target_becomes_a_held_out_one():
    reserved = {" ".join(remove_span(INNER, *place).target) for place in clause_spans(INNER)}
    one = sorted(reserved)[0]
    (noisy,) = delete_clauses([INNER], 1.0, 1, {one})
    assert " ".join(noisy.target) in reserved - {one}
    with pytest.raises(UntoldError, match=r"noise 1\.0: only 0 of 1 references have a clause"):
        delete_clauses([INNER], 1.0, 1, reserved)


def test_a_noisy_corpus_is_the_clean_one_but_for_training_targets(tmp_path):
    for name, noise in (("clean", 0.0), ("noisy", 0.2)):
        write_sample("en-de", 100, 3, tmp_path / name, noise=noise)
    differing = {
        path.name
        for path in (tmp_path / "clean").iterdir()
        if path.read_bytes() != (tmp_path / "noisy" / path.name).read_bytes()
    }
    assert differing == {"train.de", "train.align"}
    texts = [list(read_lines(tmp_path / name / "train.de")) for name in ("clean", "noisy")]
    assert sum(a != b for a, b in zip(*texts, strict=True)) == 20
    for line, links in zip(texts[1], read_lines(tmp_path / "noisy" / "train.align"), strict=True):
        assert all(int(link.split("-")[1]) < len(line.split()) for link in links.split())


@pytest.mark.parametrize("noise", [-0.1, 1.0])
def test_a_share_that_is_none_is_refused(tmp_path, noise):
    with pytest.raises(UntoldError, match="give a share of at least 0 and below 1"):
        write_sample("en-de", 5, 1, tmp_path, noise=noise)
