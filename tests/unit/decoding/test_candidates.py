import torch

from toys import PAD
from untold.decoding.beam_search import best_candidates


def candidates(log_probs, scores, room):
    scores = torch.tensor(scores, dtype=torch.float64)
    return best_candidates(torch.tensor(log_probs), scores, torch.tensor(room), PAD)


def test_best_candidates_rank_whole_hypotheses_and_ties_take_the_lower_beam():
    found = candidates([[[-4.0, -3.0, -2.0, -1.0], [-1.0, -2.0, -3.0, -4.0]]], [[-1.0, -2.0]], [4])
    assert found.scores[0].tolist() == [-2.0, -3.0, -3.0, -4.0]
    assert found.tokens[0].tolist() == [3, 2, 0, 1]
    assert found.beams[0].tolist() == [0, 0, 1, 0]
    assert found.log_probs[0].tolist() == [-1.0, -2.0, -1.0, -3.0]


def test_each_sentence_has_its_own_room():
    rows = [[-1.0, -2.0, -3.0]]
    found = candidates([rows, rows, rows], [[0.0]] * 3, [1, 2, 0])
    assert found.tokens.tolist() == [[0, PAD], [0, 1], [PAD, PAD]]
    assert found.scores.tolist() == [[-1.0, -torch.inf], [-1.0, -2.0], [-torch.inf, -torch.inf]]


def test_what_is_impossible_is_padding():
    log_probs = torch.full((1, 2, 7), -torch.inf)
    log_probs[0, 0, 5] = -1.0
    log_probs[0, 1, 6] = -1.0
    found = candidates(log_probs.tolist(), [[-2.0, -torch.inf]], [3])
    assert found.tokens[0].tolist() == [5, PAD, PAD]
    assert found.scores[0].tolist() == [-3.0, -torch.inf, -torch.inf]


def test_few_tokens_are_few_candidates():
    found = candidates([[[-1.0, -1.0, -1.0]]], [[0.0]], [8])
    assert found.tokens[0].tolist() == [0, 1, 2]


def test_what_goes_on_moves_up_and_empty_columns_go():
    found = candidates([[[-1.0, -2.0, -3.0]]] * 2, [[0.0]] * 2, [3, 3])
    left = found.without(torch.tensor([[True, False, False], [False, True, True]]), PAD)
    assert left.tokens.tolist() == [[1, 2, PAD], [0, PAD, PAD]]
    assert left.scores.tolist() == [[-2.0, -3.0, -torch.inf], [-1.0, *[-torch.inf] * 2]]
    assert left.select(torch.tensor([0, 1])).tokens.tolist() == [[1, 2], [0, PAD]]
    assert left.select(torch.tensor([1])).tokens.tolist() == [[0]]
