"""Test sets in SGML and XML, made here: sentences meet their translations whatever the order."""

import itertools
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.errors import UntoldError
from untold.lab.paper_data import read_sgm

PLACES = [(doc, number) for doc in ("B", "A") for number in range(1, 4)]


def segments(doc, who):
    return "".join(f'<seg id="{n}"> {who} {d}{n} </seg>\n' for d, n in PLACES if d == doc)


def source_file():
    docs = "".join(f'<DOC docid="{d}" sysid="source">\n{segments(d, "src")}</DOC>\n' for d in "BA")
    return f'<srcset setid="t" srclang="Chinese">\n{docs}</srcset>\n'


def old_references(order):
    """One refset; each document names its translator."""
    docs = "".join(f"<doc docid={d} sysid={who}>\n{segments(d, who)}</doc>\n" for d, who in order)
    return f'<refset setid="t" trglang="English">\n{docs}</refset>\n'


def new_references(translators):
    """One refset for each translator, as XML."""
    sets = "".join(
        f'<refset setid="t" refid="{who}">'
        + "".join(f'<doc docid="{d}" genre="nw">\n{segments(d, who)}</doc>\n' for d in "AB")
        + "</refset>\n"
        for who in translators
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<mteval>{sets}</mteval>\n'


def written(folder, source, reference):
    for name, text in (("s.sgm", source), ("r.sgm", reference)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "s.sgm", folder / "r.sgm"


ORDER = list(itertools.product("AB", ("E01", "E02", "E03", "E04")))
SHUFFLED = random.Random(2).sample(ORDER, len(ORDER))


@pytest.mark.parametrize(
    "reference",
    [
        old_references(ORDER),
        old_references(SHUFFLED),
        old_references(ORDER).replace("<seg", "<SEG").replace("</seg", "</SEG"),
        old_references(ORDER).replace("\n", "\r\n"),
        old_references(ORDER).replace("> E", ">\n   E"),
        new_references(("E01", "E02", "E03", "E04")),
    ],
)
def test_every_translation_meets_its_sentence(tmp_path, reference):
    test = read_sgm(*written(tmp_path, source_file(), reference))
    assert test.sources == [f"src {d}{n}" for d, n in PLACES]
    assert set(test.references) == {"E01", "E02", "E03", "E04"}
    for who, texts in test.references.items():
        assert texts == [f"{who} {d}{n}" for d, n in PLACES]


def test_entities_are_characters(tmp_path):
    reference = old_references(ORDER).replace("E01 B1", "AT&amp;T &lt;b&gt; &quot;x&quot;")
    test = read_sgm(*written(tmp_path, source_file(), reference))
    assert test.references["E01"][0] == 'AT&T <b> "x"'


@pytest.mark.parametrize(
    ("source", "reference", "message"),
    [
        (source_file(), "", r"r\.sgm: holds no <seg>"),
        ("", old_references(ORDER), r"s\.sgm: 0 systems have sentences here"),
        (old_references(ORDER), old_references(ORDER), r"s\.sgm: 4 systems .* file of the referen"),
        (source_file(), old_references(ORDER[1:]), r"translator 'E01' has no sentence 1 of docum"),
        (source_file(), old_references([*ORDER, ORDER[0]]), r"r\.sgm: sentence '1' .* comes twice"),
        (
            source_file().replace(' id="2"', ""),
            old_references(ORDER),
            r"s\.sgm: sentence '' of doc",
        ),
        (
            source_file().replace("docid", "name"),
            old_references(ORDER),
            r"of document '' has no docid",
        ),
        (
            source_file().replace("</seg>", "", 1),
            old_references(ORDER),
            r"sentence '1' of document 'B'",
        ),
        (source_file(), old_references(ORDER)[:-20], r"r\.sgm: sentence '3' .* no id or no end"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(tmp_path, source, reference, message):
    with pytest.raises(UntoldError, match=message):
        read_sgm(*written(tmp_path, source, reference))


@given(st.data())
def test_any_damage_is_an_error_of_one_line_or_leaves_as_many_sentences(tmp_path_factory, data):
    texts = [source_file(), old_references(ORDER)]
    spoilt = data.draw(st.integers(0, 1))
    start, size = data.draw(st.integers(0, len(texts[spoilt]))), data.draw(st.integers(0, 30))
    put = data.draw(st.sampled_from(["", "<seg id=1>", "</seg>", "<doc docid=A>", "\x1b[31m", '"']))
    texts[spoilt] = texts[spoilt][:start] + put + texts[spoilt][start + size :]
    try:
        test = read_sgm(*written(tmp_path_factory.mktemp("spoilt"), *texts))
    except UntoldError as error:
        assert "\n" not in str(error) and "\x1b" not in str(error)
    else:
        assert {len(each) for each in test.references.values()} == {len(test.sources)}


def test_many_sentences_without_an_end_are_refused_at_once(tmp_path):
    begun = time.process_time()
    with pytest.raises(UntoldError, match="no end"):
        read_sgm(*written(tmp_path, "<doc docid=A>" + "<seg id=1> x " * 200_000, ""))
    assert time.process_time() - begun < 5
