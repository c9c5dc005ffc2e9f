"""A corpus written from a grammar has the right files, and its splits share no sentence."""

import pytest

from fuzz.in_process import run_in_process
from untold.corpus.text import read_lines
from untold.errors import UntoldError
from untold.lab.grammars.sampling import write_sample

DIGITS = "\n".join(f'D -> "{n}" || "{word}"' for n, word in enumerate("abcdefghij"))
NUMBERS = f"""
languages xx yy
start S
S -> D:1 D:2 D:3 L || L D:3 D:2 D:1
L -> D:1 D:2 || D:2 D:1
{DIGITS}
"""
SPLITS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    path = tmp_path_factory.mktemp("grammar") / "numbers.grammar"
    path.write_text(NUMBERS, encoding="utf-8")
    return path


def read(out, split, suffix):
    return list(read_lines(out / f"{split}.{suffix}"))


def test_splits_have_their_sizes_and_share_no_sentence(numbers, tmp_path):
    report = write_sample(numbers, 400, 7, tmp_path)
    assert [s.pairs for s in (report.train, report.dev, report.test)] == [400, 100, 100]
    for suffix in report.languages:
        sentences = [set(read(tmp_path, split, suffix)) for split in SPLITS]
        assert not sentences[0] & sentences[1]
        assert not sentences[0] & sentences[2]
        assert not sentences[1] & sentences[2]
    for split in SPLITS:
        pairs = list(zip(read(tmp_path, split, "xx"), read(tmp_path, split, "yy"), strict=True))
        assert len(pairs) == len(set(pairs))


def test_alignments_stand_beside_their_sentences(numbers, tmp_path):
    write_sample(numbers, 1, 3, tmp_path)
    assert read(tmp_path, "train", "align") == ["0-4 1-3 2-2 3-1 4-0"]
    assert len(read(tmp_path, "dev", "align")) == 100
    source, target = read(tmp_path, "train", "xx")[0], read(tmp_path, "train", "yy")[0]
    letters = [chr(ord("a") + int(digit)) for digit in source.split()]
    assert target.split() == letters[::-1]


def test_the_same_seed_writes_the_same_bytes(numbers, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_sample(numbers, 50, seed, tmp_path / name)
    for file in sorted(path.name for path in (tmp_path / "a").iterdir()):
        first, second = (tmp_path / name / file for name in "ab")
        assert first.read_bytes() == second.read_bytes()
    assert read(tmp_path / "a", "train", "xx") != read(tmp_path / "c", "train", "xx")


def test_the_report_says_what_was_written(numbers, tmp_path):
    report = write_sample(numbers, 30, 1, tmp_path)
    assert (report.grammar, report.languages, report.seed) == ("numbers", ("xx", "yy"), 1)
    assert (report.train.mean_source, report.train.max_target) == (5.0, 5)
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {f"{split}.{suffix}" for split in SPLITS for suffix in ("xx", "yy", "align")}


def test_a_grammar_that_runs_out_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("untold.lab.grammars.sampling._MAX_MISSES", 200)
    small = tmp_path / "small.grammar"
    small.write_text(f"languages xx yy\nstart D\n{DIGITS}\n", encoding="utf-8")
    with pytest.raises(UntoldError, match="only 10 of 100 new pairs"):
        write_sample(small, 5, 1, tmp_path)
    with pytest.raises(UntoldError, match="0 pairs: ask for at least 1"):
        write_sample(small, 0, 1, tmp_path)


def test_the_same_corpus_may_be_written_again_but_no_other_one_is_replaced(numbers, tmp_path):
    out = tmp_path / "out"
    write_sample(numbers, 50, 1, out)
    (out / "dev.yy").unlink()
    write_sample(numbers, 50, 1, out)
    assert len(read(out, "dev", "yy")) == 100
    (out / "train.xx").write_text("mine\n")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for seed, named in ((1, "train.xx"), (2, "test.xx")):
        with pytest.raises(UntoldError, match=f"out/{named}.*would be replaced by another text"):
            write_sample(numbers, 50, seed, out)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_foreign_file_keeps_the_whole_corpus_away(numbers, tmp_path):
    (tmp_path / "train.xx").write_text("mine\n")
    with pytest.raises(UntoldError, match=r"train\.xx: would be replaced"):
        write_sample(numbers, 50, 1, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".grammar"] == ["train.xx"]


def test_the_command_replaces_a_corpus_when_it_is_asked_to(numbers, tmp_path):
    def command(seed, *more):
        options = ("--pairs", "50", "--seed", seed, "--out", "corpus")
        return run_in_process(("sample", numbers, *options, *more), tmp_path)

    assert command("1").code == 0
    first = read(tmp_path / "corpus", "train", "xx")
    ended = command("2")
    assert ended.code == 2 and "corpus/test.xx" in ended.errors and "--overwrite" in ended.errors
    assert read(tmp_path / "corpus", "train", "xx") == first
    ended = command("2", "--overwrite")
    assert (ended.code, ended.output.startswith("corpus: numbers, seed 2: ")) == (0, True)
    assert read(tmp_path / "corpus", "train", "xx") != first
    assert len(list((tmp_path / "corpus").iterdir())) == 9
    assert command("2", "--overwrite").code == command("2").code == 0
