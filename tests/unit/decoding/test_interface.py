import pytest
import torch

from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.hypotheses import Sentences
from untold.errors import UntoldError


def batch(lengths, **given):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Sentences(mask.long() * 5, mask, SENTENCEPIECE_IDS, **given)


@pytest.mark.parametrize("token", [0, 2, 3, -1])
def test_a_prefix_holds_no_control_tokens(token):
    with pytest.raises(UntoldError, match=f"prefix of sentence 9: token id {token} "):
        batch([2], prefixes=((5, token),), indices=(8,))


def test_repeated_sentences_keep_their_prefixes_and_indices():
    twice = batch([2, 1], prefixes=((5,), ()), indices=(8, 9)).repeated(2)
    assert twice.source_mask.sum(1).tolist() == [2, 2, 1, 1]
    assert twice.prefixes == ((5,), (5,), (), ())
    assert twice.indices == (8, 8, 9, 9)


def test_prefixes_and_indices_come_one_for_each_sentence():
    with pytest.raises(UntoldError, match="1 prefixes for 2 sentences"):
        batch([2, 2], prefixes=((5,),))
    with pytest.raises(UntoldError, match="3 indices for 2 sentences"):
        batch([2, 2], indices=(1, 2, 3))


def test_words_are_the_real_tokens_but_the_end_unless_they_are_given():
    ids = torch.tensor([[5, 6, 3], [7, 3, 0]])
    sentences = Sentences(ids, ids > 0, SENTENCEPIECE_IDS)
    assert sentences.words().tolist() == [[True, True, False], [True, False, False]]
    given = Sentences(ids, ids > 0, SENTENCEPIECE_IDS, source_words=ids > 5)
    assert (
        given.repeated(2).words().tolist()
        == [[False, True, False]] * 2 + [[True, False, False]] * 2
    )
