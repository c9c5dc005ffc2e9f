"""The text codec: every caller normalises, encodes and batches text in the same way."""

import pytest
import torch

from toys import toy_config, toy_tokenizers, write_corpus
from untold.corpus.batching import TextCodec
from untold.corpus.store import PairEncoder
from untold.corpus.tokenizer import (
    SENTENCEPIECE_IDS,
    SentencePieceTokenizer,
    SpecialIds,
    Tokenizer,
    Tokenizers,
)

OTHER = SpecialIds(pad=9, unk=8, bos=7, eos=6, never_generated=(5,))


class OtherTokenizer:
    """Uses letters as ids, and special ids that differ from those of sentencepiece."""

    special_ids = OTHER
    fingerprint = "letters"

    def __len__(self):
        return 64

    def encode(self, texts):
        return [[10 + ord(letter) - ord("a") for letter in text] for text in texts]

    def encode_sampled(self, texts, dropout, seed):
        return self.encode(texts)

    def decode(self, ids):
        return "".join(chr(ord("a") + i - 10) for i in ids)

    def pieces(self, ids):
        return [self.decode([i]) for i in ids]

    def ids(self, pieces):
        return [self.encode([piece])[0][0] for piece in pieces]

    def word_starts(self, ids):
        return [place == 0 for place in range(len(ids))]

    def save(self, directory, name):
        (directory / name).write_text("letters")


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    root = write_corpus(tmp_path_factory.mktemp("codec"))
    return toy_tokenizers(root, toy_config(root))


def test_both_tokenizers_satisfy_the_protocol(tokenizers):
    assert isinstance(tokenizers.source, SentencePieceTokenizer)
    assert isinstance(tokenizers.source, Tokenizer)
    assert isinstance(OtherTokenizer(), Tokenizer)
    assert isinstance(TextCodec(tokenizers), PairEncoder)


def test_lower_casing_happens_on_both_sides_and_only_when_wanted(tokenizers):
    pairs = [("AB cd", "Ef"), ("ab cd", "ef")]
    upper, lower = TextCodec(tokenizers).encode_pairs(pairs)
    assert upper != lower
    first, second = TextCodec(tokenizers, lowercase=True).encode_pairs(pairs)
    assert first == second == lower
    assert lower == (tokenizers.source.encode(["ab cd"])[0], tokenizers.target.encode(["ef"])[0])


def test_a_batch_has_the_special_ids_of_its_tokenizers():
    codec = TextCodec(Tokenizers(OtherTokenizer(), OtherTokenizer()))
    batch = codec.batch(codec.encode_pairs([("abc", "de"), ("f", "abcd")]), [4, 2])
    assert batch.special == OTHER
    assert batch.source.tolist() == [[10, 11, 12, 6], [15, 6, 9, 9]]
    assert batch.prefix.tolist() == [[7, 13, 14, 9, 9], [7, 10, 11, 12, 13]]
    assert batch.labels.tolist() == [[13, 14, 6, 9, 9], [10, 11, 12, 13, 6]]
    assert batch.source_words.tolist() == [[True, True, True, False], [True, False, False, False]]
    assert batch.indices.tolist() == [4, 2]
    ids, mask = codec.pad_sources([[10], [11, 12]])
    assert ids.tolist() == [[10, 6, 9], [11, 12, 6]]
    assert mask.tolist() == [[True, True, False], [True, True, True]]


def test_the_two_sides_may_have_different_special_ids(tokenizers):
    codec = TextCodec(Tokenizers(tokenizers.source, OtherTokenizer()))
    batch = codec.batch([([20], [10])], [0])
    assert batch.source.tolist() == [[20, SENTENCEPIECE_IDS.eos]]
    assert batch.prefix.tolist() == [[OTHER.bos, 10]]
    assert batch.labels.tolist() == [[10, OTHER.eos]]


def test_resampling_without_dropout_changes_nothing_and_with_it_keeps_the_text(tokenizers):
    codec = TextCodec(tokenizers)
    pairs = codec.encode_pairs([("abc abc", "gfe"), ("hab", "ab cd ef")])
    assert codec.resample(pairs, 0.0, 1) == pairs
    sampled = codec.resample(pairs, 0.9, 1)
    assert sampled != pairs
    assert sampled == codec.resample(pairs, 0.9, 1)
    decode = tokenizers.source.decode
    assert [decode(source) for source, _ in sampled] == ["abc abc", "hab"]


def test_batches_are_on_the_device_of_the_codec(tokenizers):
    codec = TextCodec(tokenizers, device=torch.device("meta"))
    assert codec.batch([([5], [6])], [0]).source.device.type == "meta"
