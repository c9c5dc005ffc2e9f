import torch

from toys import BOS
from untold.decoding.hypotheses import BackPointers, End, FinishedHypotheses
from untold.models.signals import NO_SIGNALS, Signals


def small_search():
    """Two rows become three, which swap and leave."""
    pointers = BackPointers([BOS, BOS])
    pointers.show(Signals(copying=torch.tensor([[0.0, 0.1], [1.0, 1.1]])))
    pointers.append([1, 0, 1], [5, 6, 7], [-0.1, -0.2, -0.3])
    pointers.show(Signals(copying=torch.tensor([[2.0, 2.1], [3.0, 3.1], [4.0, 4.1]])))
    pointers.append([2, 0], [8, 9], [-0.4, -0.5])
    pointers.show(Signals(copying=torch.tensor([[5.0, 5.1], [6.0, 6.1]])))
    return pointers


def test_paths_lead_back_through_the_parents():
    paths = small_search().follow([(2, 0), (2, 1), (1, 1), (0, 1)])
    assert paths.tokens == [[7, 8], [5, 9], [6], []]
    assert paths.log_probs == [[-0.3, -0.4], [-0.1, -0.5], [-0.2], []]
    seen = paths.signals.copying
    assert seen[:2, :, 0].tolist() == [[1.0, 4.0, 5.0], [1.0, 2.0, 6.0]]
    assert seen[2, :2, 0].tolist() == [0.0, 3.0]
    assert seen[3, :1, 0].tolist() == [1.0]


def test_nothing_said_is_an_empty_path():
    paths = BackPointers([BOS, BOS]).follow([(0, 0), (0, 1)])
    assert paths.tokens == [[], []]
    assert paths.signals is NO_SIGNALS


def ends(sentence, *scores, step=0):
    return [(sentence, End(score, 2 * score, step, 0, score, True)) for score in scores]


def none(size, sentences=2):
    return FinishedHypotheses.none(sentences, size)


def test_the_best_stay_in_order_and_all_are_counted():
    first = none(2).add([*ends(0, -3.0, -1.0, -2.0), *ends(1, -5.0)])
    assert first.worst == (-2.0, -torch.inf)
    assert first.counts == (3, 1)
    second = first.add(ends(1, -4.0))
    assert second.worst == (-2.0, -5.0)
    assert second.counts == (3, 2)
    assert [end.score for end in second.best[1]] == [-4.0, -5.0]
    assert first.counts == (3, 1), "what was there before stays as it was"


def test_of_equal_scores_the_earlier_is_better():
    finished = none(2, sentences=1).add(ends(0, -1.0)).add(ends(0, -1.0, step=1))
    pointers = BackPointers([BOS])
    pointers.append([0], [7], [-0.5])
    pairs = [(0, end) for end in finished.best[0]]
    found = pointers.hypotheses(pairs, torch.ones(1, 3, dtype=torch.bool))
    assert [hypothesis.tokens for hypothesis in found] == [(), (7,)]
    assert found[1].token_log_probabilities == (-0.5, -1.0)
    assert found[1].log_probability == -2.0


def test_a_growing_hypothesis_has_signals_of_its_tokens_alone():
    pointers = small_search()
    mask = torch.tensor([[True, True], [True, False]])
    growing, ended = End(-0.4, -0.7, 1, 2), End(-0.3, -0.6, 1, 2, -0.9, True)
    one, other = pointers.hypotheses([(1, growing), (1, ended)], mask)
    assert one.tokens == other.tokens == (7,)
    assert (one.complete, other.complete) == (False, True)
    assert (one.finished, other.finished) == (False, True)
    assert len(one.token_log_probabilities) == 1 and len(other.token_log_probabilities) == 2
    assert one.copying.tolist() == [[1.0]]
    assert other.copying.tolist() == [[1.0], [4.0]]
