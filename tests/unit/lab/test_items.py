"""Every item is made, with models that are too small to learn anything."""

import json
from dataclasses import replace

import pytest

from tiny_scale import SCALE
from untold.errors import UntoldError
from untold.lab.claims import CLAIMS, read_result_set
from untold.lab.corpora import find_corpus
from untold.lab.pages import write_evidence
from untold.lab.registry import ITEMS
from untold.lab.runner import Plan, Workshop


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """Lets all items share their trained systems."""
    out = tmp_path_factory.mktemp("reproduced")
    corpus = find_corpus("grammar-en-de", None, out, pairs=SCALE.pairs, sentences=SCALE.sentences)
    said = []
    made = Workshop(Plan(corpus, SCALE, 1, out), said.append)
    made.said = said
    return made


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_is_made_and_written(name, workshop, tmp_path):
    item = ITEMS[name]
    inner = item.prepare(workshop)
    inner.train(item.trained)
    evidence = item.make(inner)
    paths = write_evidence(evidence, tmp_path)
    names = {path.name for path in paths}
    assert {f"{name}.md", f"{name}.json"} <= names
    assert len([n for n in names if n.endswith(".tex")]) == len(evidence.tables) > 0
    for picture in evidence.pictures:
        assert (tmp_path / f"{picture.name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (tmp_path / f"{picture.name}.svg").read_bytes()
    for table in evidence.tables:
        assert table.rows and all(len(row) == len(table.columns) for row in table.rows)
    titles = {system.title for system in item.trained}
    text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert all(title in text for title in titles) or name.startswith("figure")
    assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["name"] == name
    results = read_result_set(tmp_path)
    for claim in CLAIMS:
        if claim.item == name != "figure5":  # whose buckets are too small here
            assert all(judge(results) is not None for judge in claim.judges), claim.statement


def test_separation_is_measured_on_further_test_sets(workshop):
    corpus = workshop.plan.corpus
    own = corpus.known.tests[0]
    keys = "source", "reference", "alignments"
    absolute = {key: str(corpus.root / getattr(own, key)) for key in keys}
    other = replace(own, name="other", **absolute)
    plan = replace(workshop.plan, corpus=replace(corpus, linked=(other,)))
    item = ITEMS["separation"].only(["ours"])
    evidence = item.make(Workshop(plan, print))
    assert [table.title.rpartition(" ")[2] for table in evidence.tables] == ["test", "other"]
    first, second = (table.rows for table in evidence.tables)
    assert first == second  # the same pairs


def test_an_item_may_have_some_of_its_systems():
    found = ITEMS["table1"].only(["both", "gdr"])
    assert [s.name for s in found.trained] == ["control", "gdr", "both"]
    assert found.pairs == []
    with pytest.raises(UntoldError, match="--systems nobody: table1 has no such system"):
        ITEMS["table1"].only(["nobody"])
    with pytest.raises(UntoldError, match="needs all its systems"):
        ITEMS["speed"].only(["both"])


def test_a_heat_map_shows_sentences_that_a_user_chose(workshop):
    corpus = workshop.plan.corpus
    sources, references = corpus.read(corpus.known.tests[0])
    item = ITEMS["figure4"].of_sentences([3, 1])
    workshop.train(item.trained)
    evidence = item.make(item.prepare(workshop))
    pairs = [[sources[k], references[k]] for k in (2, 0)]
    assert evidence.tables[0].rows == pairs and "lines 3, 1" in evidence.notes[0]
    beyond = ITEMS["figure8"].of_sentences([1, len(sources) + 1])
    with pytest.raises(UntoldError, match=f"the first test set has {len(sources)} sentences"):
        beyond.prepare(workshop)
    with pytest.raises(UntoldError, match="--sentences 1 has no effect on table1"):
        ITEMS["table1"].of_sentences([1])
