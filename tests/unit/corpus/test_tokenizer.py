"""Tests every kind of tokenizer: round trips, control tokens, sampling, files and refusals."""

import gzip
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from toys import BOS, EOS, PAD, UNK
from untold.config import TokenizerConfig, parse_config
from untold.corpus.tokenizer import SentencePieceTokenizer, Tokenizers
from untold.corpus.vocabulary import train_tokenizers
from untold.errors import UntoldError

KINDS = ("bpe", "unigram", "char", "word")
ENGLISH = [
    "the cat sat on the mat",
    "a  dog runs , and runs again",  # two spaces
    " leading and trailing ",
    "1 < 2 / 3 > k",
    "the lower , the slower",
] * 4
GERMAN = ["die Katze saß auf der Matte", "ein Hund läuft über die Straße", "日本語 の 文"] * 4
FORGERIES = ("</s>", "<s>", "<pad>", "<unk>", "x</s>y", "<s> <pad> </s>", "▁</s>", "<0x0A>")
MULTI30K = Path(__file__).parents[3] / ".." / "shared" / "data" / "multi30k" / "raw"


def learn(kind="bpe", **settings):
    config = TokenizerConfig.model_validate({"kind": kind, "size": 90} | settings)
    return train_tokenizers(config, ENGLISH, GERMAN)


@pytest.fixture(scope="module")
def joint():
    return {kind: learn(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_text_of_known_characters_comes_back_as_it_was(joint, kind):
    tokenizer = joint[kind].source
    texts = ENGLISH + GERMAN + ["", "cat", "mat the on  sat"]
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        assert UNK not in ids
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_cut_text_as_their_names_say(joint, kind):
    text = "the cat sat"
    count = len(joint[kind].source.encode([text])[0])
    if kind == "char":
        assert count == len(text) + 1  # and the space before the first word
    elif kind == "word":
        assert count == 3
    else:
        assert 3 <= count < len(text)


def test_pieces_are_what_ids_stand_for(joint):
    tokenizer = joint["word"].source
    assert tokenizer.pieces(tokenizer.encode(["the cat"])[0]) == ["▁the", "▁cat"]
    assert tokenizer.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_no_text_becomes_a_control_token(kind, byte_fallback):
    tokenizer = learn(kind, size=400, byte_fallback=byte_fallback).source
    for forgery in FORGERIES:
        (ids,) = tokenizer.encode([forgery])
        assert ids and not {PAD, BOS, EOS} & set(ids), forgery
        if kind == "bpe":
            (ids,) = tokenizer.encode_sampled([forgery], 0.3, seed=1)
            assert ids and not {PAD, BOS, EOS} & set(ids), forgery


def test_control_tokens_have_no_text(joint):
    tokenizer = joint["bpe"].source
    ids = tokenizer.encode(["the cat"])[0]
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "the cat"


def test_one_vocabulary_or_two():
    one, two = learn(), learn(joint=False)
    assert one.joint and one.source is one.target
    assert not two.joint
    assert UNK in two.source.encode(["ß"])[0]  # English text has none
    assert UNK not in two.target.encode(["ß"])[0]
    assert UNK not in one.source.encode(["ß"])[0]
    assert one.fingerprint != two.fingerprint


@pytest.mark.parametrize("joint", [True, False])
def test_files_hold_all_of_it(joint, tmp_path):
    tokenizers = learn(joint=joint)
    tokenizers.save(tmp_path)
    names = {"joint.model"} if joint else {"source.model", "target.model"}
    assert {path.name for path in tmp_path.iterdir()} == names
    loaded = Tokenizers.load(tmp_path)
    assert (loaded.joint, loaded.fingerprint) == (joint, tokenizers.fingerprint)
    assert loaded.source.encode(ENGLISH) == tokenizers.source.encode(ENGLISH)
    assert loaded.target.encode(GERMAN) == tokenizers.target.encode(GERMAN)


def test_learning_twice_gives_the_same_vocabulary():
    assert learn().fingerprint == learn().fingerprint
    assert learn().fingerprint != learn(size=80).fingerprint


def test_missing_and_damaged_files_are_refused_by_name(tmp_path):
    with pytest.raises(UntoldError, match=r"source\.model: no tokenizer here"):
        Tokenizers.load(tmp_path)
    with pytest.raises(UntoldError, match="not a sentencepiece model"):
        SentencePieceTokenizer(b"nonsense")


HOSTILE_MODELS = """
import random, sys
from pathlib import Path
from untold.corpus.tokenizer import SentencePieceTokenizer
from untold.errors import UntoldError

def damaged(model, dice):
    start, stop = sorted(dice.choices(range(len(model)), k=2))
    yield model[:start]
    yield model[:start] + model[stop:]
    yield model[:start] + dice.randbytes(9) + model[start:]
    yield model[:start] + dice.randbytes(1) + model[start + 1 :]
    yield dice.randbytes(start)

refused = 0
for path in sys.argv[1:]:
    dice = random.Random(path[-12:])
    for model in (each for _ in range(60) for each in damaged(Path(path).read_bytes(), dice)):
        try:
            tokenizer = SentencePieceTokenizer(model)
        except UntoldError:
            refused += 1
            continue
        tokenizer.pieces(range(len(tokenizer)))
        tokenizer.decode(range(len(tokenizer)))
        for ids in tokenizer.encode(["the cat", "", "☃ </s>", "x" * 99]):
            tokenizer.decode(ids)
print(refused)
"""


def test_a_hostile_model_is_refused_or_works(joint, tmp_path):
    """It runs in another process, because a crash of sentencepiece would end this one."""
    for kind in KINDS:
        joint[kind].source.save(tmp_path, kind)
    paths = [str(tmp_path / f"{kind}.model") for kind in KINDS]
    command = [sys.executable, "-c", HOSTILE_MODELS, *paths]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert 600 < int(run.stdout) < 1200


def test_a_damaged_file_is_refused_by_its_name(tmp_path):
    for content in (b"", b"nonsense"):
        (tmp_path / "joint.model").write_bytes(content)
        with pytest.raises(UntoldError, match=r"joint\.model: not a sentencepiece model: .* again"):
            Tokenizers.load(tmp_path)


def test_a_model_with_other_control_ids_is_refused():
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH), model_writer=model, vocab_size=40, minloglevel=2
    )
    with pytest.raises(UntoldError, match="other control ids"):
        SentencePieceTokenizer(model.getvalue())


def test_dropout_depends_on_the_seed_alone(joint):
    tokenizer = joint["bpe"].source
    once, again, other = (tokenizer.encode_sampled(ENGLISH, 0.3, seed) for seed in (5, 5, 6))
    assert once == again != other
    assert once[0] != once[5], "the same sentence is cut anew each time"
    assert [tokenizer.decode(ids) for ids in other] == ENGLISH
    assert sum(map(len, once)) > sum(map(len, tokenizer.encode(ENGLISH)))


def test_dropout_is_the_same_in_another_process(joint, tmp_path):
    """A resumed run needs this; sentencepiece's own sampling differs between processes."""
    tokenizers = joint["bpe"]
    tokenizers.save(tmp_path)
    code = (
        "import sys; from pathlib import Path; from untold.corpus.tokenizer import Tokenizers; "
        "t = Tokenizers.load(Path(sys.argv[1])).source; "
        "print(t.encode_sampled(sys.argv[2:], 0.3, 2**62 + 7))"
    )
    command = [sys.executable, "-c", code, str(tmp_path), *ENGLISH]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(tokenizers.source.encode_sampled(ENGLISH, 0.3, 2**62 + 7))


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_without_dropout_sampling_is_sentencepiece_s_own_segmentation(byte_fallback):
    tokenizer = learn(size=400, byte_fallback=byte_fallback, character_coverage=0.98).source
    texts = [*ENGLISH, *GERMAN, "☃☃ snow ☃", "a ▁ b", "<0x0A>", "", " ", "tab\there"]
    assert tokenizer.encode_sampled(texts, 0.0, seed=1) == tokenizer.encode(texts)


def test_dropout_of_nearly_everything_leaves_characters(joint):
    tokenizer = joint["bpe"].source
    (ids,) = tokenizer.encode_sampled(["the cat"], 0.999, seed=1)
    assert tokenizer.pieces(ids) == list("▁the▁cat")


def test_dropout_leaves_out_merges_at_its_rate(joint):
    """▁the is one piece after three merges, none with a rival, so p = (1 - dropout)^3 at least."""
    tokenizer = joint["bpe"].source
    whole = tokenizer.encode(["the"])[0]
    assert len(whole) == 1
    cuts = tokenizer.encode_sampled(["the"] * 4000, 0.1, seed=3)
    assert 0.729 - 0.03 < sum(ids == whole for ids in cuts) / 4000 < 0.95


@pytest.mark.parametrize("kind", ["unigram", "char", "word"])
def test_dropout_of_other_kinds_is_refused(kind):
    with pytest.raises(UntoldError, match=f"{kind} has none: set it to 0"):
        parse_config({"tokenizer": {"kind": kind, "dropout": 0.1}})


@pytest.mark.parametrize("kind", KINDS)
def test_a_size_beyond_what_the_data_give_is_cut_to_it(kind):
    tokenizer = learn(kind, size=5000).source
    assert 4 < len(tokenizer) < 300
    assert max(max(ids) for ids in tokenizer.encode(ENGLISH + GERMAN)) < len(tokenizer)


def test_a_size_below_the_number_of_characters_is_refused():
    with pytest.raises(UntoldError, match=r"tokenizer\.size = 16: .* are 44 .* raise"):
        learn(size=16)


@pytest.mark.parametrize("texts", [[], [""], ["", "   ", "\t"]])
def test_nothing_to_learn_from_is_refused(texts):
    with pytest.raises(UntoldError, match="no text to learn a vocabulary from"):
        train_tokenizers(TokenizerConfig(), texts, texts)


@pytest.mark.parametrize("sampled", [False, True])
def test_a_lone_surrogate_is_named(joint, sampled):
    tokenizer = joint["bpe"].source
    texts = ["fine", "ab\udcffc"]
    with pytest.raises(UntoldError, match=r"text 2 .*U\+DCFF.* at character 3"):
        tokenizer.encode_sampled(texts, 0.1, 1) if sampled else tokenizer.encode(texts)


def test_decoded_text_is_always_one_line():
    tokenizer = learn(size=400, byte_fallback=True).source
    for text, expected in (("a\nb", "a b"), ("a\rb", "a b"), ("a\r\nb", "a  b"), ("☃", "☃")):
        assert tokenizer.decode(tokenizer.encode([text])[0]) == expected


def test_the_characters_that_sentencepiece_keeps_for_itself(joint):
    tokenizer, with_bytes = joint["bpe"].source, learn(size=400, byte_fallback=True).source
    assert tokenizer.decode(tokenizer.encode(["the▁cat"])[0]) == "the cat"
    assert UNK in tokenizer.encode(["the\tcat"])[0]
    assert with_bytes.decode(with_bytes.encode(["the\tcat"])[0]) == "the\tcat"


def test_unknown_characters_show_as_one_sign(joint):
    tokenizer = joint["bpe"].source
    assert tokenizer.decode(tokenizer.encode(["the ☃☃ cat"])[0]) == "the ⁇ cat"


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="the Multi30k corpus is not beside the project")
def test_multi30k_comes_back_as_it_was():
    sides = []
    for language in ("en", "de"):
        with gzip.open(MULTI30K / f"train.{language}.gz", "rt", encoding="utf-8") as file:
            sides.append([line.rstrip("\n") for line in islice(file, 5000)])
    tokenizers = train_tokenizers(TokenizerConfig(size=2000), *sides)
    assert len(tokenizers.source) == 2000
    for side in sides:
        ids = tokenizers.source.encode(side)
        assert not any(UNK in row for row in ids)
        assert [tokenizers.source.decode(row) for row in ids] == side
        sampled = tokenizers.source.encode_sampled(side[:500], 0.1, seed=1)
        assert [tokenizers.source.decode(row) for row in sampled] == side[:500]
