from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from toys import collate
from untold.decoding.scoring import score_pairs
from untold.errors import UntoldError
from untold.models.signals import Signals


class Bigram:
    """Scores are rows of a table: the last token's."""

    def __init__(self, table):
        self.table = table

    def __call__(self, source_ids, source_mask, prefix, *, attention=False):
        weights = source_mask / source_mask.sum(1, keepdim=True)
        wide = weights[:, None].expand(-1, prefix.shape[1], -1)
        return SimpleNamespace(
            prefix=prefix, signals=Signals(attention=wide if attention else None)
        )

    def scores(self, outputs, rows, steps):
        return self.table[outputs.prefix[rows, steps]]


TABLE = torch.sin(torch.arange(81).view(9, 9) * 1.1)
PAIRS = collate([([5, 6, 7], [4, 8, 5]), ([5], []), ([6], [7])], [20, 30, 40])


def test_scores_are_sums_over_the_tokens_and_the_end():
    found = score_pairs(Bigram(TABLE), PAIRS, 1.0, attention=True)
    log_probs = TABLE.log_softmax(-1)
    for hypothesis, target in zip(found, ([4, 8, 5], [], [7]), strict=True):
        path = [2, *target, 3]
        expected = [log_probs[a, b].item() for a, b in pairwise(path)]
        assert hypothesis.tokens == tuple(target)
        assert hypothesis.token_log_probabilities == pytest.approx(expected)
        assert hypothesis.log_probability == pytest.approx(sum(expected))
        assert hypothesis.score == pytest.approx(sum(expected) / ((5 + len(expected)) / 6))
        assert hypothesis.finished
    assert [h.attention.shape for h in found] == [(4, 4), (1, 2), (2, 2)]
    assert found[1].attention.tolist() == [[0.5, 0.5]]


def test_attention_is_given_when_asked_for():
    assert score_pairs(Bigram(TABLE), PAIRS, 0.0)[0].attention is None


def test_scores_that_are_no_numbers_name_the_sentence():
    table = TABLE.clone()
    table[7, 3] = torch.nan  # only the last pair reads 7, as its one token
    with pytest.raises(UntoldError, match=r"sentence 41: .*not numbers"):
        score_pairs(Bigram(table), PAIRS, 0.6)
