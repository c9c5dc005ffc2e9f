"""Tokenizers of every family: control ids never come from text, and words are found right."""

import pytest

from huggingface_toys import FAMILIES, languages, make_tokenizer, wrapped
from untold.corpus.tokenizer import Tokenizers
from untold.corpus.words import words, words_between_spaces
from untold.errors import UntoldError
from untold.huggingface.tokenizer import HuggingFaceTokenizers, TokenizerUse

TEXT = "the naïve cat sees 日本 🙂 ."


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture
def tokenizers(family):
    return wrapped(family).tokenizers


def sides(tokenizers):
    return tokenizers.source, tokenizers.target


def test_no_text_becomes_a_control_id(tokenizers):
    texts = [
        *("</s>", "<pad>", "a </s> b", "</s></s>", "<s>", "<mask>", "x<pad>y", "<extra_id_0> a"),
        *("en_XX cat", "de_DE", "__en__ cat", "__de__", "eng_Latn cat", ">>de<< cat", "<unk>"),
    ]
    for side in sides(tokenizers):
        for text, ids in zip(texts, side.encode(texts), strict=True):
            assert not side.special_ids.control.intersection(ids), text
            assert all(0 <= i < len(side) for i in ids)
        assert side.encode(["cat </s>"])[0][:1] == side.encode(["cat"])[0][:1]


def test_pieces_and_ids_are_inverse(tokenizers):
    for side in sides(tokenizers):
        (ids,) = side.encode([TEXT])
        assert len(ids) > 5
        assert side.ids(side.pieces(ids)) == ids
        assert side.ids(["no such piece"]) == [side.special_ids.unk]
        ordinary = set(range(len(side))) - side.special_ids.control
        assert side.ids(side.pieces(sorted(ordinary))) == sorted(ordinary)


def test_words_are_those_of_the_text(tokenizers):
    (ids,) = tokenizers.source.encode([TEXT])
    pieces = tokenizers.source.pieces(ids)
    assert [word.read_as for word in words_between_spaces("", pieces)] == TEXT.split()
    shown = [word.read_as for word in words("", pieces)]
    assert "".join(shown) == TEXT.replace(" ", "")
    assert "naïve" in shown and "🙂" in shown
    assert "�" not in "".join(shown)


def test_a_text_comes_back(tokenizers):
    (ids,) = tokenizers.source.encode([TEXT])
    assert tokenizers.source.decode(ids) == TEXT
    (ids,) = tokenizers.target.encode(["die Katze schläft ."])
    assert tokenizers.target.decode(ids) == "die Katze schläft ."
    special = tokenizers.target.special_ids
    around = [special.bos, *ids, special.eos, special.pad, *special.never_generated[:2]]
    assert tokenizers.target.decode(around) == "die Katze schläft ."


def test_what_a_search_forbids_is_everything_but_text_and_the_end(tokenizers):
    """Rows without a piece, languages and sentinels are never generated; EOS and words are."""
    target = tokenizers.target
    special = target.special_ids
    (ids,) = target.encode(["die Katze schläft ."])
    assert not {*ids, special.eos}.intersection(special.forbidden)
    assert {special.pad, special.unk, special.bos} <= set(special.forbidden)
    assert len(special.control) + len(set(ids)) < len(target)


def test_a_saved_tokenizer_is_the_same(tokenizers, tmp_path):
    tokenizers.save(tmp_path)
    loaded = Tokenizers.load(tmp_path)
    assert isinstance(loaded, HuggingFaceTokenizers)
    assert loaded.framing == tokenizers.framing
    assert loaded.special_ids == tokenizers.special_ids
    assert loaded.fingerprint == tokenizers.fingerprint
    for one, other in zip(sides(tokenizers), sides(loaded), strict=True):
        assert one.encode([TEXT]) == other.encode([TEXT])


def test_the_framing_is_that_of_the_family(family, tokenizers):
    framing = tokenizers.framing
    counts = len(framing.before), len(framing.after), len(framing.beginning)
    expected = {"bart": (1, 0, 2), "mbart": (0, 1, 1)}
    multilingual = dict.fromkeys(("mbart50", "m2m100", "nllb"), (1, 0, 2))
    assert counts == (expected | multilingual).get(family, (0, 0, 1))
    control = tokenizers.source.special_ids.control
    assert control.issuperset((*framing.before, *framing.after))


def test_bpe_dropout_is_refused(tokenizers):
    with pytest.raises(
        UntoldError, match=r"tokenizer\.dropout = 0.1 is for tokenizers that untold"
    ):
        tokenizers.source.encode_sampled(["a"], 0.1, 1)


def test_invalid_text_is_refused(tokenizers):
    with pytest.raises(UntoldError, match="lone surrogate"):
        tokenizers.source.encode(["a\ud800"])


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("m2m100", {"target_language": ""}, r"101 languages|100 languages"),
        (
            "mbart",
            {"source_language": "xx_XX"},
            r"model.source_language = xx_XX: choose from ar_AR",
        ),
        ("nllb", {"source_language": ""}, r"choose with --set model.source_language=CODE"),
        ("bart", {"target_language": "de"}, r"model.target_language = de: leave it out"),
    ],
)
def test_languages_are_checked(family, changes, message, tmp_path):
    asked = {"source_language": "", "target_language": "", **languages(family), **changes}
    tokenizer = make_tokenizer(family, tmp_path)
    with pytest.raises(UntoldError, match=message):
        HuggingFaceTokenizers.of(tokenizer, TokenizerUse((999, 999), 2, **asked), "hf:x")
