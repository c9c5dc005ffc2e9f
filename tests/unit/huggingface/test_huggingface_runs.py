"""Runs that start from a Hugging Face folder, and every command on what comes of them."""

import json

import pytest
import torch

from fuzz.in_process import run_in_process
from huggingface_toys import FAMILIES, LINES, save_folder
from pretrained_toys import talking
from toys import weights
from untold.huggingface.optional import quiet
from untold.inference.linear import has_int8
from untold.storage.model_directory import load_model
from untold.translator import load

CONFIG = """
[data]
train = { source = "corpus.src", target = "corpus.tgt" }
valid = { source = "corpus.src", target = "corpus.tgt" }
[model]
backbone = "huggingface"
separator = { kind = "gdr", d_capsule = 4, lexicon = 4 }
[train]
steps = 3
warmup = 1
batch_tokens = 150
log_every = 3
validate_every = 3
save_every = 3
[decode]
beam = 2
max_length = 9
"""
FROZEN = ("--set", "train.freeze_backbone=true", "--set", "train.best_by=loss")
PAIR = ("--source", "corpus.src", "--target", "corpus.tgt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Marian folder, a corpus, and two runs: a frozen one, and a full one that began with it."""
    folder = tmp_path_factory.mktemp("runs")
    save_folder("marian", folder / "marian")
    for side, lines in (("src", LINES[:2]), ("tgt", LINES[2:])):
        text = "".join(f"{line}\n" for line in lines * 12)
        (folder / f"corpus.{side}").write_text(text, encoding="utf-8")
    (folder / "config.toml").write_text(CONFIG)
    run(folder, "train", "config.toml", *FROZEN, "--init", "hf:marian", "--out", "frozen")
    run(folder, "train", "config.toml", "--init", "frozen", "--out", "full")
    return folder


def run(folder, *arguments, code=0):
    ended = run_in_process(arguments, folder)
    assert ended.code == code, ended.errors
    return ended


def test_a_frozen_run_translates_as_the_folder_does(folder):
    before, after = load(f"hf:{folder / 'marian'}"), load(folder / "frozen")
    settings = after.decode.model_dump()
    before = before.with_decoding(**settings)
    texts = [LINES[0], LINES[1], "a cat"]
    one, other = (each.translate(texts) for each in (before, after))
    assert [each.text for each in one] == [each.text for each in other]
    assert [each.score for each in one] == [each.score for each in other]
    assert before.score([(LINES[0], LINES[2])])[0].score == (
        after.score([(LINES[0], LINES[2])])[0].score
    )


def test_a_frozen_run_changes_new_weights_alone_and_a_full_one_all(folder):
    stock = {f"backbone.{n}": p for n, p in backbone(f"hf:{folder / 'marian'}")}
    frozen, full = (weights(best(folder / name)) for name in ("frozen", "full"))
    assert all(torch.equal(frozen[name], p) for name, p in stock.items())
    assert frozen.keys() - stock.keys() == {n for n in frozen if n.startswith("past_future.")}
    changed = [name for name, p in stock.items() if not torch.equal(full[name], p)]
    assert len(changed) > 0.9 * len(stock)
    assert "backbone.output_bias" in changed


def backbone(path):
    return load_model(path).model.backbone.named_parameters()


def best(run):
    return next((run / "best").glob("step-*"))


def test_a_run_goes_on_without_the_folder(folder):
    ended = run(folder, "train", "frozen", "--set", "train.steps=5")
    assert "going on with frozen at step 3 of 5" in ended.output + ended.errors
    settings = json.loads((folder / "frozen" / "settings" / "config.json").read_text())
    assert settings["model"]["architecture"]["model_type"] == "marian"
    start = json.loads((folder / "frozen" / "settings" / "start.json").read_text())
    assert start["init"] == f"hf:{folder / 'marian'}"
    again = run(
        folder,
        "train",
        "config.toml",
        *FROZEN,
        "--init",
        "hf:marian",
        "--out",
        "frozen",
        "--set",
        "train.steps=6",
    )
    assert "--init hf:marian has no effect now" in again.output + again.errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "frozen", "corpus.src", "--json"),
        ("translate", "hf:marian", "corpus.src", "--set", "decode.beam=1"),
        ("score", "hf:marian", *PAIR),
        ("score", "frozen", *PAIR),
        ("evaluate", "frozen", *PAIR[:2], "--reference", "corpus.tgt", "--metrics", "bleu"),
        ("explain", "frozen", "--source", LINES[0], "--out", "page.html"),
        ("align", "--model", "full", *PAIR, "--out", "links"),
        ("check", "frozen", *PAIR, "--quiet"),
        ("evaluate", "full", "--against", "frozen", "--test", "t=corpus.src,corpus.tgt"),
        ("info", "frozen"),
        ("info", "hf:marian"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_every_command_works(folder, arguments):
    ended = run_in_process(arguments, folder)
    assert ended.code in ((0, 1) if arguments[0] == "check" else (0,)), ended.errors
    assert "Traceback" not in ended.errors


@pytest.mark.parametrize("family", FAMILIES)
def test_words_of_an_explanation_are_those_of_the_text(family, tmp_path):
    """Of both sides, whatever their pieces are: bytes, characters, words, of one list or of two."""
    with quiet():
        talking(family).save_pretrained(tmp_path / "model")
    pair = ("--source", LINES[0], "--target", LINES[2])
    run(tmp_path, "explain", "model", *pair, "--out", "page.json")
    (page,) = json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))["sentences"]
    for side, text in (("source", LINES[0]), ("target", LINES[2])):
        words = page[side]["words"]
        assert "".join(words) == text.replace(" ", "")
        assert set(text.split()) - {"日本"} <= set(words)  # which may be two words, or one


@pytest.mark.skipif(not has_int8(), reason="nothing multiplies 8-bit numbers here")
def test_8_bits_translate(folder):
    """Weights as small as these stay in float32."""
    plain = run(folder, "translate", "hf:marian", "corpus.src")
    assert run(folder, "translate", "hf:marian", "corpus.src", "--int8").output == plain.output


@pytest.mark.skipif(not has_int8(), reason="nothing multiplies 8-bit numbers here")
def test_a_run_validates_in_8_bits_if_the_model_can(folder):
    """A Marian can be laid out for it, a T5 cannot."""
    save_folder("t5", folder / "t5")
    arguments = ("train", "config.toml", "--set", "decode.int8=true")
    ended = run(folder, *arguments, "--init", "hf:marian", "--out", "bytes")
    assert "best 0 at 3" in ended.output
    ended = run(folder, *arguments, "--init", "hf:t5", "--out", "t5-bytes", code=2)
    assert "decode.int8 is for Transformers, and this model (huggingface)" in ended.errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "config.toml", "--out", "new"), "needs a model to wrap: give --init hf:PATH"),
        (
            (
                *("train", "config.toml", "--init", "hf:marian", "--out", "new"),
                *("--set", "model.backbone=transformer"),
            ),
            'model.backbone is transformer: set model.backbone to "huggingface"',
        ),
        (("explain", "hf:marian", "--source", "a cat"), "does not separate past and future"),
        (("calibrate", "hf:marian", *PAIR), "is no model directory of untold"),
        (("translate", "frozen", "--set", "model.source_language=en"), "only decode settings can"),
        (("translate", "hf:marian", "--set", "model.dropout=0.3"), "only model.source_language"),
        (("adopt", "marian", *PAIR, "--out", "new"), "write it as hf:marian"),
    ],
)
def test_mistakes_are_one_line(folder, arguments, message):
    ended = run(folder, *arguments, code=2)
    assert message in ended.errors.strip().split("\n")[-1]


def test_adopt_says_what_it_knows_and_that_translations_stay(folder):
    arguments = ("adopt", "hf:marian", *PAIR, "--steps", "2", "--out", "adopted")
    ended = run(folder, *arguments)
    assert "omission word auc" in ended.output
    assert "translations unchanged: 2 of 2 compared" in ended.output
    assert "untold explain adopted --source" in ended.output
    # Two pairs were held out, too few for probabilities, which `check` needs.
    assert ended.output.index("untold calibrate adopted") < ended.output.index("untold check")
    again = run(folder, *arguments)  # nothing is trained again
    assert "is finished at step 2 of 2" in again.output + again.errors
    (folder / "other.src").write_text("".join(f"{line}\n" for line in LINES * 6), encoding="utf-8")
    other = ("--source", "other.src", "--target", "corpus.tgt")
    ended = run(folder, "adopt", "hf:marian", *other, "--out", "adopted", code=2)
    assert "holds other pairs: choose another --out" in ended.errors
