"""Editing sentencepiece models, against sentencepiece itself."""

import pytest
import sentencepiece

from huggingface_toys import LINES, spm
from untold.corpus.tokenizer import SentencePieceTokenizer
from untold.errors import UntoldError
from untold.export.piece_file import NORMAL, UNUSED, PieceFile, VocabularyPiece


def ordinary(file):
    return [piece for piece in file.pieces if piece.kind == NORMAL]


@pytest.mark.parametrize("options", [{}, {"model_type": "bpe", "byte_fallback": True}], ids=str)
def test_a_model_survives_reading_and_writing(options):
    model = spm(**({"vocab_size": 400} if options else {}), **options)
    again = sentencepiece.SentencePieceProcessor(model_proto=PieceFile.parse(model).serialise())
    known = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert again.encode(LINES) == known.encode(LINES)
    assert PieceFile.parse(PieceFile.parse(model).serialise()) == PieceFile.parse(model)


def test_control_tokens_become_those_of_untold_and_texts_are_cut_as_before():
    file = PieceFile.parse(spm())
    made = SentencePieceTokenizer(file.with_pieces(ordinary(file)[::-1]).serialise())
    known = sentencepiece.SentencePieceProcessor(model_proto=spm())
    for line in LINES:
        (ids,) = made.encode([line])
        assert made.pieces(ids) == known.encode(line, out_type=str)
        assert made.decode(ids) == line
    assert made.pieces(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]


def test_no_text_is_cut_into_an_unused_piece_but_it_can_be_decoded():
    file = PieceFile.parse(spm())
    pieces = [*ordinary(file), VocabularyPiece("▁the▁cat", 100.0, UNUSED)]
    made = SentencePieceTokenizer(file.with_pieces(pieces).serialise())
    (ids,) = made.encode(["the cat"])
    assert len(made) - 1 not in ids
    assert made.decode([len(made) - 1]) == "the cat"


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_a_model_that_was_cut_off_is_refused(cut):
    with pytest.raises(UntoldError, match="not a sentencepiece model"):
        PieceFile.parse(spm()[:-cut])
