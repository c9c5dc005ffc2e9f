import gzip

import pytest

from untold.errors import UntoldError
from untold.lab.corpora import CORPORA, find_corpus


def lay_out(root, known, *, compressed=True):
    root.mkdir()
    for path in known.paths:
        data = f"{path} one\n{path} two\n".encode()
        plain = path.removesuffix(".gz")
        if compressed:
            (root / f"{plain}.gz").write_bytes(gzip.compress(data))
        else:
            (root / plain).write_bytes(data)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("name", [n for n, known in CORPORA.items() if known.grammar is None])
def test_a_corpus_is_found_where_it_is_laid_out(name, compressed, tmp_path):
    known = CORPORA[name]
    lay_out(tmp_path / "here", known, compressed=compressed)
    found = find_corpus(name, tmp_path / "here", tmp_path, pairs=0, sentences=1)
    assert all(path.exists() for path in found.training_paths())
    sources, references = found.read(known.tests[0])
    assert sources == [f"{known.tests[0].source} one"] and len(references) == 1
    assert found.settings()["source_language"] == known.languages[0]


def test_a_missing_file_is_named_with_its_origin_and_the_whole_layout(tmp_path):
    known = CORPORA["multi30k"]
    lay_out(tmp_path / "here", known)
    (tmp_path / "here" / known.tests[1].reference).unlink()
    with pytest.raises(UntoldError, match=r"test_2017_flickr\S* is missing.*multi30k/dataset.*val"):
        find_corpus("multi30k", tmp_path / "here", tmp_path, pairs=0, sentences=None)


def test_a_real_corpus_needs_a_folder_and_a_grammar_takes_none(tmp_path):
    with pytest.raises(UntoldError, match="multi30k needs --root FOLDER with train"):
        find_corpus("multi30k", None, tmp_path, pairs=0, sentences=None)
    with pytest.raises(UntoldError, match=r"--root \S+ has no effect.*leave out --root"):
        find_corpus("grammar-en-de", tmp_path, tmp_path, pairs=10, sentences=None)


def test_an_unknown_corpus_lists_those_there_are(tmp_path):
    with pytest.raises(UntoldError, match=r"--data wmt: .*grammar-en-de.*multi30k"):
        find_corpus("wmt", None, tmp_path, pairs=0, sentences=None)


def test_a_grammar_is_generated_once_and_has_links(tmp_path):
    first = find_corpus("grammar-zh-en", None, tmp_path, pairs=20, sentences=5)
    again = find_corpus("grammar-zh-en", None, tmp_path, pairs=20, sentences=5)
    assert first == again and first.alignments(first.known.tests[0]).exists()
    assert len(first.read(first.known.tests[0])[0]) == 5


def test_a_test_set_may_have_several_references(tmp_path):
    known = CORPORA["nist-zh-en"]
    lay_out(tmp_path / "here", known, compressed=False)
    found = find_corpus("nist-zh-en", tmp_path / "here", tmp_path, pairs=0, sentences=1)
    further = found.read_further(known.tests[0])
    assert further == [[f"mt04.en{number} one"] for number in (1, 2, 3)]
    assert found.settings()["lowercase"] is True
