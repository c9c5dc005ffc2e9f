"""The reader of LCSTS on files that are made here: the text is invented, the scores are counted."""

import gzip
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.config import CorpusConfig
from untold.corpus.corpora import fingerprint_corpus, read_pairs
from untold.errors import UntoldError
from untold.lab.paper_data import LEAST_SCORE, read_lcsts

# How many documents of the toy parts have which score. The sums are those of the paper: all of a
# part, and those with a score of 3 or more. How they spread over single scores is ours.
PART_II = {1: 942, 2: 1039, 3: 2019, 4: 3128, 5: 3538}
PART_III = {1: 165, 2: 216, 3: 227, 4: 301, 5: 197}
PUBLISHED = {"PART_II": (10_666, 8685), "PART_III": (1106, 725)}


def document(number, score=None, text="一二三", summary="一"):
    label = "" if score is None else f"    <human_label>{score}</human_label>\n"
    return (
        f"<doc id={number}>\n{label}    <summary>\n        {summary}\n    </summary>\n"
        f"    <short_text>\n        {text}\n    </short_text>\n</doc>\n"
    )


def write_part(path, histogram, seed=1):
    """Writes documents with as many scores of each kind as the histogram says, shuffled."""
    scores = [score for score, count in histogram.items() for _ in range(count)]
    random.Random(seed).shuffle(scores)
    texts = (document(n, s, f"文{n}分{s}", f"题{n}分{s}") for n, s in enumerate(scores))
    path.write_text("".join(texts), encoding="utf-8")
    return scores


@pytest.mark.parametrize(("name", "histogram"), [("PART_II", PART_II), ("PART_III", PART_III)])
def test_as_many_documents_are_kept_as_the_paper_counts(tmp_path, name, histogram):
    path = tmp_path / f"{name}.lcsts"
    scores = write_part(path, histogram)
    pairs = list(read_pairs(CorpusConfig(path=path.name), tmp_path))
    assert (len(scores), len(pairs)) == PUBLISHED[name]
    kept = [(n, score) for n, score in enumerate(scores) if score >= LEAST_SCORE]
    assert [pair.source for pair in pairs] == [f"文{n}分{s}" for n, s in kept]
    assert [pair.target for pair in pairs] == [f"题{n}分{s}" for n, s in kept]
    assert [pair.line for pair in pairs] == [1 + 9 * n for n, _ in kept]


@pytest.mark.parametrize("least", [1, 2, 3, 4, 5, 6])
def test_every_score_can_be_the_least(tmp_path, least):
    path = tmp_path / "part.lcsts"
    write_part(path, PART_III)
    expected = sum(count for score, count in PART_III.items() if score >= least)
    assert len(list(read_lcsts(path, None, least))) == expected


def test_documents_without_scores_are_kept_and_gz_is_unpacked(tmp_path):
    content = "".join(document(number) for number in range(7)).encode()
    (tmp_path / "PART_I.lcsts").write_bytes(content)
    (tmp_path / "PART_I.lcsts.gz").write_bytes(gzip.compress(content))
    plain, packed = (CorpusConfig(path=f"PART_I.lcsts{end}") for end in ("", ".gz"))
    pairs = [list(read_pairs(corpus, tmp_path)) for corpus in (plain, packed)]
    texts = [[(pair.source, pair.target) for pair in each] for each in pairs]
    assert texts == [[("一二三", "一")] * 7] * 2
    assert fingerprint_corpus(plain, tmp_path) != fingerprint_corpus(packed, tmp_path)


def test_columns_may_be_exchanged_but_not_invented(tmp_path):
    path = tmp_path / "x.lcsts"
    path.write_text(document(0, 5), encoding="utf-8")
    (pair,) = read_lcsts(path, ("summary", "short_text"))
    assert (pair.source, pair.target) == ("一", "一二三")
    with pytest.raises(UntoldError, match=r"no column 'title'; set columns to two of: 'short_text"):
        list(read_lcsts(path, ("short_text", "title")))


odd_text = st.text(st.sampled_from("一 <>&;\"'/\u2028a\x85"), max_size=12)


@given(text=odd_text, summary=odd_text, joined=st.booleans())
def test_text_is_taken_as_it_is_on_one_line(tmp_path_factory, text, summary, joined):
    """Signs of XML are text, and a document may stand on one line, beside others."""
    path = tmp_path_factory.mktemp("odd") / "x.lcsts"
    content = document(0, 4, text, summary) + document(1, 2) + document(2, None, summary, text)
    path.write_text(content.replace("\n", "") if joined else content, encoding="utf-8", newline="")
    found = [(pair.source, pair.target) for pair in read_lcsts(path, None)]
    assert found == [(text.strip(), summary.strip()), (summary.strip(), text.strip())]


def test_line_ends_of_windows_and_a_byte_order_mark_are_no_text(tmp_path):
    path = tmp_path / "x.lcsts"
    path.write_bytes(b"\xef\xbb\xbf" + document(0, 3).replace("\n", "\r\n").encode())
    (pair,) = read_lcsts(path, None)
    assert (pair.source, pair.target, pair.line) == ("一二三", "一", 1)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: text.rindex("</doc>")], r"x\.lcsts:19: the file ends before </doc>"),
        (lambda text: text.replace("</doc>\n", "", 1), r"x\.lcsts:1: a document begins before"),
        (
            lambda text: text.replace("<human_label>4", "<human_label>6"),
            r"x\.lcsts:10: human_label",
        ),
        (lambda text: text.replace("<human_label>4", "<human_label>4.0"), "'4.0' is no whole"),
        (
            lambda text: text.replace("<summary>", "<title>", 1),
            r"lcsts:1: the document has no <sum",
        ),
        (lambda text: text.replace("</short_text>", "", 1), r"has no <short_text>: get the file"),
        (
            lambda text: text.replace("<doc id=1>", "<dok id=1>"),
            r"x\.lcsts:10: '<dok id=1>.*outside",
        ),
        (lambda text: text + "rest </doc>", r"x\.lcsts:28: 'rest </doc>' stands outside"),
        (lambda text: "一" * 100_001, r"x\.lcsts:1: no </doc> within 100,000 characters"),
        (lambda text: text.replace("一", "\x1b[31m</doc>", 1), r"x\.lcsts:1: "),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path, damage, message):
    path = tmp_path / "x.lcsts"
    whole = "".join(document(number, score) for number, score in enumerate((3, 4, 5)))
    path.write_text(whole, encoding="utf-8")
    assert len(list(read_lcsts(path, None))) == 3
    path.write_text(damage(whole), encoding="utf-8")
    with pytest.raises(UntoldError, match=message) as error:
        list(read_lcsts(path, None))
    assert "\n" not in str(error.value) and "\x1b" not in str(error.value)


def test_other_encodings_are_refused(tmp_path):
    (tmp_path / "x.lcsts").write_bytes(document(0, 5).encode("gb18030"))
    with pytest.raises(UntoldError, match=r"x\.lcsts:\d+:\d+: byte 0x.. is not UTF-8: conv"):
        list(read_pairs(CorpusConfig(path="x.lcsts"), tmp_path))


@given(st.data())
def test_any_damage_is_an_error_of_one_line_or_leaves_whole_pairs(tmp_path_factory, data):
    whole = "".join(document(number, score) for number, score in enumerate((3, 4, 5)))
    start, size = data.draw(st.integers(0, len(whole))), data.draw(st.integers(0, 40))
    put = data.draw(st.sampled_from(["", "<doc id=9>", "</doc>", "<summary>", "\x1b[31m", "\n"]))
    path = tmp_path_factory.mktemp("spoilt") / "x.lcsts"
    path.write_text(whole[:start] + put + whole[start + size :], encoding="utf-8")
    try:
        pairs = list(read_lcsts(path, None))
    except UntoldError as error:
        assert "\n" not in str(error) and "\x1b" not in str(error)
    else:
        assert len(pairs) <= 3
        assert all("\n" not in pair.source + pair.target for pair in pairs)
