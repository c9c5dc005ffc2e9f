"""`untold align`, and `untold evaluate` with cdr, as a person runs them."""

import json
import random
from pathlib import Path

import pytest

from fuzz.in_process import run_in_process, untold
from toys import RUN_SHAPES, fill, toy_config, toy_tokenizers, write_corpus
from untold.alignment.aligners import load_aligner
from untold.alignment.model_links import align_pairs
from untold.corpus.alignments import alignment_error_rate, read_alignments
from untold.metrics.cdr import measure_cdr
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, load_model, save_model
from untold.translator import load

needs_thot = pytest.mark.usefixtures("thot")


@pytest.fixture(scope="session")
def thot() -> None:
    pytest.importorskip("thot", reason="sil-thot is not installed (extra align)")


def run(*line: object, code: int = 0) -> str:
    """What a command printed, or its error."""
    ended = untold(*line, code=code)
    return ended.errors if code else ended.output


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def sentence(rng: random.Random) -> tuple[list[str], list[str], list[str]]:
    """Words, their translations with every two neighbours swapped, and the true links."""
    words = [rng.randrange(25) for _ in range(2 * rng.randrange(1, 6))]
    order = [place ^ 1 for place in range(len(words))]
    links = [f"{i}-{order[i]}" for i in range(len(words))]
    return [f"s{w}" for w in words], [f"t{words[place]}" for place in order], links


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs with their gold: 300 to learn from, 50 to align."""
    folder, rng = tmp_path_factory.mktemp("align"), random.Random(3)
    for name, size in (("train", 300), ("test", 50)):
        pairs = [sentence(rng) for _ in range(size)]
        for suffix, column in zip(("en", "de", "align"), zip(*pairs, strict=True), strict=True):
            write(folder / f"{name}.{suffix}", [" ".join(line) for line in column])
    return folder


def pair(folder: Path, name: str = "test") -> tuple[object, ...]:
    return ("--source", folder / f"{name}.en", "--target", folder / f"{name}.de")


def corpus(folder: Path) -> tuple[object, ...]:
    return ("--train-source", folder / "train.en", "--train-target", folder / "train.de")


@needs_thot
def test_train_freeze_align_and_measure(folder: Path, tmp_path: Path) -> None:
    out, saved, gold = tmp_path / "links", tmp_path / "aligner", folder / "test.align"
    common = ("align", *pair(folder), "--gold", gold)
    quick = ("--kind", "fast_align")
    printed = run(*common, *corpus(folder), *quick, "--out", out, "--save", saved)
    links = read_alignments(out)
    error = alignment_error_rate(links, read_alignments(gold))
    assert error is not None and error < 0.1
    assert f"AER {error:.4f}" in printed.split("\n")
    assert f"{out}: pairs: 50, links: {sum(len(each.sure) for each in links)}" in printed
    again = tmp_path / "again"
    run(*common, "--aligner", saved, "--out", again)
    assert again.read_bytes() == out.read_bytes(), "a frozen aligner gives the same links"


@needs_thot
def test_texts_teach_themselves_and_words_are_written(folder: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "zh", ["我爱书。", "", "我爱猫。", "他爱书。"])
    target = write(tmp_path / "en", ["I love books.", "", "I love cats.", "He loves books."])
    out = tmp_path / "links"
    words = ("--source-words", "character", "--target-words", "word", "--kind", "ibm1")
    files = ("--source", source, "--target", target)
    run("align", *files, *words, "--out", out, "--write-words")
    assert (tmp_path / "links.source").read_text() == "我 爱 书 。\n\n我 爱 猫 。\n他 爱 书 。\n"
    assert (tmp_path / "links.target").read_text().startswith("I love books .\n\nI love cats .\n")
    first, blank, *_ = read_alignments(out)
    assert (2, 2) in first.sure and not blank.possible
    source = write(tmp_path / "zh", ["我们的新家有一台电梯。"] * 4)
    files = ("--source", source, "--target", target)
    assert "choose jieba or character" in run("align", *files, "--out", out, code=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give --out, --save or --gold"),
        (("--save", "."), "exists: remove it or choose another name"),
        (("--out", "x", "--aligner", "a", "--save", "nowhere"), "is trained already"),
        (("--out", "x", "--aligner", "nowhere"), "nowhere: no aligner there"),
        (("--save", "nowhere", "--write-words"), "give --out"),
        (
            ("--out", "x", "--kind", "giza"),
            '--kind = "giza": must be one of "eflomal", "fast_align"',
        ),
        (("--out", "x", "--target-words", "letters"), '--target-words = "letters": '),
        (("--out", "x", "--train-source", "x"), "1 of --train-source but 0 of --train-target"),
    ],
)
def test_mistakes_are_one_line(folder: Path, options: tuple[str, ...], message: str) -> None:
    error = run("align", *pair(folder), *options, code=2)
    assert message in error and error.count("\n") == 1


@needs_thot
def test_gold_that_does_not_fit_is_named(folder: Path, tmp_path: Path) -> None:
    quick = ("--kind", "ibm1")
    error = run("align", *pair(folder), *quick, "--gold", folder / "train.align", code=2)
    assert "300 lines for 50 sentence pairs" in error
    gold = write(tmp_path / "gold", ["0-99"] * 50)
    assert "0-99 leads out of" in run("align", *pair(folder), *quick, "--gold", gold, code=2)


@pytest.fixture(scope="module")
def separating(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with past and future, beside one without."""
    folder = tmp_path_factory.mktemp("separating")
    root = write_corpus(folder / "corpus")
    for name, kind in (("model", "gdr"), ("plain", "none")):
        shape = {"preset": "tiny", **RUN_SHAPES["transformer"], "separator": {"kind": kind}}
        config = toy_config(root, model=shape)
        tokenizers = toy_tokenizers(root, config)
        sizes = (len(tokenizers.source), len(tokenizers.target))
        network = fill(build_model(config.model, sizes, shared=tokenizers.joint)).eval()
        save_model(folder / name, TrainedModel(network, config, tokenizers))
    return folder / "model"


@pytest.mark.parametrize("by", ["links", "flips", "assignments"])
def test_a_model_links_words_without_an_aligner(separating: Path, tmp_path: Path, by: str) -> None:
    sources, targets = ["abc de f", "", "gh a"], ["f de abc", "a", "a gh"]
    source, target = write(tmp_path / "src", sources), write(tmp_path / "tgt", targets)
    gold, out = write(tmp_path / "gold", ["0-2 1-1 2-0", "", "0-1 1-0"]), tmp_path / "out"
    files = ("--source", source, "--target", target, "--gold", gold, "--out", out)
    given = () if by == "links" else ("--by", by)
    printed = run("align", "--model", separating, *files, *given, "--write-words")
    found = read_alignments(out)
    expected = align_pairs(load_model(separating), list(zip(sources, targets, strict=True)), by)
    assert found == expected and not found[1].possible
    error = alignment_error_rate(found, read_alignments(gold))
    assert f"AER {error:.4f}" in printed.split("\n")
    assert f"{out}: pairs: 3, links: {sum(len(each.sure) for each in found)}" in printed
    assert (tmp_path / "out.source").read_text() == "abc de f\n\ngh a\n"


def test_mistakes_with_a_model_are_one_line(separating: Path, tmp_path: Path) -> None:
    text, out = write(tmp_path / "text", ["abc de"]), tmp_path / "out"
    chinese = write(tmp_path / "zh", ["我们的新家有一台电梯。"])
    plain = separating.with_name("plain")
    for arguments, expected in (
        ((text, "--by", "flips"), "none: give --model"),
        ((text, "--model", separating, "--by", "turns"), "--by turns: must be one of links"),
        ((text, "--model", separating, "--save", "new"), "no effect beside --model"),
        ((text, "--model", separating, "--aligner", "new"), "no effect beside --model"),
        ((text, "--model", plain), "does not separate past and future"),
        ((chinese, "--model", separating), "line 1: the target side is written without blanks"),
    ):
        line = ("align", "--source", text, "--out", out, "--target", *arguments)
        error = run(*line, code=2)
        assert expected in error and error.count("\n") == 1
    assert not out.exists()


def test_translate_writes_the_links_of_each_line(separating: Path, tmp_path: Path) -> None:
    """As many lines as the text has; a blank or a divided line has an empty one."""
    long = " ".join(["abcd"] * 200)
    sources = ["abc de f", "", "gh a", long, "bc d ef h", long]
    text, out = write(tmp_path / "text", sources), tmp_path / "links"
    for more in ((), ("--nbest", "2"), ("--json",)):
        ended = run_in_process(("translate", separating, text, "--align", out, *more), tmp_path)
        assert ended.code == 0, ended.errors
        best = [each.text for each in load(separating).translate(sources)]
        assert (ended.output == "".join(f"{each}\n" for each in best)) == (not more)
        pairs = zip(sources, best, strict=True)
        kept = [pair if pair[0] != long else ("", "") for pair in pairs]
        assert read_alignments(out) == align_pairs(load_model(separating), kept)
        first, rest = ended.errors.strip().split("\n")
        assert first.startswith("untold: line 4 gets no links: its ") and "max_tokens" in first
        assert rest == f"untold: {out}: lines without links for these reasons: 2"


def test_translate_refuses_links_that_cannot_be(separating: Path, tmp_path: Path) -> None:
    text = write(tmp_path / "text", ["abc de"])
    plain = separating.with_name("plain")
    for model, out, expected in (
        (separating, text, "is the text to translate: choose another name"),
        (separating, tmp_path / "absent" / "x", "there is no directory"),
        (separating, tmp_path, "is a directory"),
        (separating, Path("/dev/full"), "No space left"),
        (plain, tmp_path / "links", "--align: the model does not separate past and future"),
    ):
        error = run("translate", model, text, "--align", out, code=2)
        assert expected in error and error.count("\n") == 1
    assert text.read_text() == "abc de\n" and not (tmp_path / "links").exists()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    config = toy_config(write_corpus(folder / "corpus"))
    tokenizers = toy_tokenizers(folder / "corpus", config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    network = fill(build_model(config.model, sizes, shared=tokenizers.joint)).eval()
    save_model(folder / "model", TrainedModel(network, config, tokenizers))
    return folder / "model"


@needs_thot
def test_evaluate_gives_cdr(tmp_path: Path, model: Path) -> None:
    sources, references = ["abc de f", "gh a", "bc d ef h"], ["f de abc", "a gh", "h ef bc d"]
    source, reference = write(tmp_path / "src", sources), write(tmp_path / "ref", references)
    saved, out = tmp_path / "aligner", tmp_path / "out"
    run("align", "--source", source, "--target", reference, "--kind", "ibm1", "--save", saved)
    line = ("evaluate", model, "--source", source, "--reference", reference, "--out", out)
    asked = (*line, "--metrics", "bleu,cdr", "--aligner", saved)
    found = {score["name"]: score for score in json.loads(run(*asked, "--json"))}
    hypotheses = [each.text for each in load(model).translate(sources)]
    assert out.read_text() == "".join(f"{text}\n" for text in hypotheses)
    expected = measure_cdr(load_aligner(saved), sources, references, hypotheses)
    assert list(found) == [
        "BLEU",
        "CDR",
        "CDR micro",
        "under-coverage",
        "over-coverage",
        "over-translation",
    ]
    assert found["CDR"]["value"] == 100 * expected.macro
    assert found["CDR micro"]["value"] == 100 * expected.micro
    assert found["under-coverage"]["value"] == 100 * expected.under
    assert found["over-coverage"]["value"] == 100 * expected.over
    assert found["over-translation"]["value"] == 100 * expected.repeated
    assert found["CDR"]["details"] == "macro; sentences 3, skipped 0"
    assert found["CDR"]["signature"].startswith("aligner:ibm1|words:blank-blank")


def test_cdr_without_an_aligner_names_the_cure(tmp_path: Path, model: Path) -> None:
    text = write(tmp_path / "text", ["abc"])
    line = ("evaluate", model, "--source", text, "--reference", text)
    error = run(*line, "--metrics", "cdr", "--out", tmp_path / "out", code=2)
    assert "make one with untold align" in error and "--aligner" in error
    assert not (tmp_path / "out").exists(), "it is said before anything is translated"
    assert "add it to --metrics" in run(*line, "--aligner", text, code=2)
    assert "known: bleu, chrf, ter, rouge, cdr" in run(*line, "--metrics", "meteor", code=2)
