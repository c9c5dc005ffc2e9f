import pytest
import torch

from untold.corpus.vocabulary import BOS
from untold.decoding import Sentences
from untold.decoding.pool import Ends, Pool
from untold.decoding.trace import Trace
from untold.errors import UntoldError


def ends(scores, step=0):
    values = torch.tensor(scores, dtype=torch.float64)
    rows = torch.zeros(values.shape, dtype=torch.long)
    return Ends(values, values * 2, values.float(), rows, torch.full_like(rows, step))


def pool(size, sentences=2):
    ids = torch.ones(sentences, 3, dtype=torch.long)
    return Pool(Sentences(ids, ids > 0), size)


def test_the_best_stay_in_order_and_all_are_counted():
    kept, both = pool(2), torch.tensor([0, 1])
    kept.add(both, ends([[-3.0, -1.0, -2.0], [-5.0, -torch.inf, -torch.inf]]))
    assert kept.worst(both).tolist() == [-2.0, -torch.inf]
    assert kept.counts(both).tolist() == [3, 1]
    kept.add(torch.tensor([1]), ends([[-4.0]]))
    assert kept.worst(both).tolist() == [-2.0, -5.0]
    assert kept.counts(both).tolist() == [3, 2]


def test_of_equal_scores_the_earlier_is_better():
    kept = pool(2, sentences=1)
    trace = Trace(torch.tensor([BOS]))
    trace.advance(torch.tensor([0]), torch.tensor([7]), torch.tensor([-0.5]))
    kept.add(torch.tensor([0]), ends([[-1.0]]))
    kept.add(torch.tensor([0]), ends([[-1.0]], step=1))
    (found,) = kept.hypotheses(trace, torch.tensor([9]))
    assert [hypothesis.tokens for hypothesis in found] == [(), (7,)]
    assert found[1].token_log_probabilities == (-0.5, -1.0)
    assert found[1].log_probability == -2.0


def test_an_end_at_the_limit_is_told():
    kept = pool(1, sentences=1)
    kept.add(torch.tensor([0]), ends([[-1.0]]))
    trace = Trace(torch.tensor([BOS]))
    assert kept.hypotheses(trace, torch.tensor([2]))[0][0].finished
    assert not kept.hypotheses(trace, torch.tensor([1]))[0][0].finished


def test_a_sentence_without_a_translation_is_named():
    kept = pool(1)
    kept.add(torch.tensor([0]), ends([[-1.0]]))
    with pytest.raises(UntoldError, match="sentence 1: the model gives no probability"):
        kept.hypotheses(Trace(torch.tensor([BOS, BOS])), torch.tensor([9, 9]))
