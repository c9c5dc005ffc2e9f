import pytest
import torch

from toys import BOS, EOS, PAD, UNK
from untold.config import DecodeConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.constraints import (
    FREE,
    Constraints,
    close,
    forbid,
    force,
    length_limits,
    release,
)
from untold.decoding.hypotheses import Sentences
from untold.errors import UntoldError

B, N, V = 2, 3, 11


def log_probs():
    values = torch.arange(B * N * V).view(B, N, V).float()
    return torch.sin(values).log_softmax(-1)


def left(values):
    """The tokens that remain, of each row."""
    return [[row.isfinite().nonzero().flatten().tolist() for row in rows] for rows in values]


def rules(prefixes=None, **settings):
    ids = torch.ones(B, 5, dtype=torch.long)
    sentences = Sentences(ids, ids > 0, SENTENCEPIECE_IDS, prefixes=prefixes)
    return Constraints.of(sentences, DecodeConfig(**settings))


def test_forbid_takes_tokens_away_and_leaves_the_others_as_they_were():
    values = log_probs()
    forbid(values, (4, 7))
    expected = log_probs()
    expected[..., [4, 7]] = -torch.inf
    assert torch.equal(values, expected)


def test_close_leaves_the_end_alone():
    values = log_probs()
    close(values, torch.tensor([False, True]), EOS)
    assert torch.equal(values[0], log_probs()[0])
    assert left(values)[1] == [[EOS]] * N
    assert torch.equal(values[1, :, EOS], log_probs()[1, :, EOS])


def test_force_leaves_one_token_where_it_is_not_free():
    values, kept = log_probs(), torch.full((B, N, 1), -0.5)
    force(values, torch.tensor([FREE, 9]), kept)
    assert torch.equal(values[0], log_probs()[0])
    assert left(values)[1] == [[9]] * N
    assert values[1, :, 9].tolist() == [-0.5] * N


def test_release_ends_what_is_stuck():
    values, ending = log_probs(), log_probs()[..., EOS].clone()
    values[0, 1] = -torch.inf
    release(values, ending, EOS)
    assert left(values)[0][1] == [EOS]
    assert torch.equal(values[0, 1, EOS], ending[0, 1])
    assert torch.equal(values[1], log_probs()[1])


def test_control_tokens_are_never_said():
    values = log_probs()
    rules().apply(values, 0)
    assert left(values) == [[[v for v in range(V) if v not in (PAD, UNK, BOS)]] * N] * B


def test_min_length_counts_tokens_without_the_end():
    for length, open_end in ((0, False), (1, False), (2, True)):
        values = log_probs()
        rules(min_length=2).apply(values, length)
        assert bool(values[0, 0, EOS].isfinite()) == open_end


def test_the_limit_counts_the_end():
    for length, closed in ((2, False), (3, True)):
        values = log_probs()
        rules(max_length=4).apply(values, length)
        assert (left(values)[0][0] == [EOS]) == closed


def test_a_prefix_stands_above_the_other_rules():
    values = log_probs()
    rules(prefixes=((5, UNK), (5, 5)), min_length=2).apply(values, 1)
    assert left(values) == [[[UNK]] * N, [[5]] * N]
    assert torch.equal(values[0, :, UNK], log_probs()[0, :, UNK])


def test_a_prefix_ends():
    values = log_probs()
    rules(prefixes=((5,), (5, 6))).apply(values, 1)
    assert left(values)[0] == [[3, *range(4, V)]] * N
    assert left(values)[1] == [[6]] * N


def test_rules_are_selected_with_their_sentences():
    chosen = rules(prefixes=((5,), (6, 7))).select(torch.tensor([1]))
    values = log_probs()[1:]
    chosen.apply(values, 0)
    assert left(values) == [[[6]] * N]


def batch(lengths, **given):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Sentences(mask.long() * 5, mask, SENTENCEPIECE_IDS, **given)


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
    with pytest.raises(UntoldError, match=r"prefix of sentence 2: 4 tokens .* limit of 4"):
        length_limits(batch([2, 2], prefixes=((), (5, 6, 7, 8))), config)
