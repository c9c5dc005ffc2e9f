import pytest
import torch

from untold.config import DecodeConfig
from untold.decoding import Sentences
from untold.decoding.sentences import length_limits
from untold.errors import UntoldError


def batch(lengths, **given):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Sentences(mask.long() * 5, mask, **given)


def limits(lengths, **settings):
    return length_limits(batch(lengths), DecodeConfig(**settings)).tolist()


def test_limits_follow_the_source_under_max_length():
    assert limits([1, 2, 7], max_ratio=1.5, max_length=20) == [12, 13, 20]


def test_min_length_raises_a_limit_and_must_fit_max_length():
    assert limits([1, 30], max_ratio=1.0, min_length=20) == [21, 40]
    with pytest.raises(UntoldError, match=r"min_length 20 .* max_length 20"):
        limits([1], min_length=20, max_length=20)


def test_a_prefix_must_leave_room_for_the_end():
    config = DecodeConfig(max_length=4)
    fits = batch([2, 2], prefixes=((), (5, 6, 7)))
    assert length_limits(fits, config).tolist() == [4, 4]
    with pytest.raises(UntoldError, match=r"prefix of sentence 1: 4 tokens .* limit of 4"):
        length_limits(batch([2, 2], prefixes=((), (5, 6, 7, 8))), config)


@pytest.mark.parametrize("token", [0, 2, 3, -1])
def test_a_prefix_holds_no_control_tokens(token):
    with pytest.raises(UntoldError, match=f"prefix of sentence 8: token id {token} "):
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
