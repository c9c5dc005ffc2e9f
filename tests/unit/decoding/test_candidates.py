import math

import pytest
import torch

from untold.decoding.beam_search import _rank_alone, _rank_many, best_candidates, continue_with


def candidates(log_probs, scores, room):
    return best_candidates(torch.tensor(log_probs), scores, room)


def test_best_candidates_rank_whole_hypotheses_and_ties_take_the_lower_beam():
    rows = [[-4.0, -3.0, -2.0, -1.0], [-1.0, -2.0, -3.0, -4.0]]
    (found,) = candidates([rows], [[-1.0, -2.0]], [4])
    scores, beams, tokens, values = zip(*found, strict=True)
    assert scores == (-2.0, -3.0, -3.0, -4.0)
    assert beams == (0, 0, 1, 0)
    assert tokens == (3, 2, 0, 1)
    assert values == (-1.0, -2.0, -1.0, -3.0)


def test_each_sentence_has_its_own_room():
    rows = [[-1.0, -2.0, -3.0]]
    found = candidates([rows, rows, rows], [[0.0]] * 3, [1, 2, 0])
    assert [[token for _, _, token, _ in own] for own in found] == [[0], [0, 1], []]


def test_what_is_impossible_is_no_candidate():
    log_probs = torch.full((1, 2, 7), -torch.inf)
    log_probs[0, 0, 5] = -1.0
    log_probs[0, 1, 6] = -1.0
    (found,) = candidates(log_probs.tolist(), [[-2.0, -torch.inf]], [3])
    assert found == [(-3.0, 0, 5, -1.0)]


def test_few_tokens_are_few_candidates():
    (found,) = candidates([[[-1.0, -1.0, -1.0]]], [[0.0]], [8])
    assert [token for _, _, token, _ in found] == [0, 1, 2]


@pytest.mark.parametrize("steps", [4, 1000])
@pytest.mark.parametrize("room", [1, 3, 5])
def test_a_sentence_alone_is_ranked_as_among_others(steps, room):
    """With few different values there are many ties; they are settled in the same way."""
    generator = torch.Generator().manual_seed(steps + room)
    for _ in range(50):
        log_probs = -torch.randint(0, steps, (1, 3, 700), generator=generator) / 8.0
        scores = [[0.0, -0.125, -math.inf]]
        (among,) = _rank_many(log_probs, scores, [room])
        assert best_candidates(log_probs, scores, [room]) == [among]
        assert _rank_alone(log_probs[0], scores[0], room) == among


def test_a_drawn_token_continues_the_only_hypothesis():
    log_probs = torch.tensor([[[-1.0, -2.0]], [[-3.0, -4.0]]])
    found = continue_with(torch.tensor([[1], [0]]), log_probs, [[-0.5], [0.0]])
    assert found == [[(-2.5, 0, 1, -2.0)], [(-3.0, 0, 0, -3.0)]]
