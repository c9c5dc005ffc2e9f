import torch

from untold.corpus.vocabulary import BOS
from untold.decoding.trace import Trace


def ids(*values):
    return torch.tensor(values)


def small_trace():
    """Two rows become three, which swap and leave."""
    trace = Trace(ids(BOS, BOS))
    trace.show({"seen": torch.tensor([[0.0, 0.1], [1.0, 1.1]])})
    trace.advance(ids(1, 0, 1), ids(5, 6, 7), torch.tensor([-0.1, -0.2, -0.3]))
    trace.show({"seen": torch.tensor([[2.0, 2.1], [3.0, 3.1], [4.0, 4.1]])})
    trace.advance(ids(2, 0), ids(8, 9), torch.tensor([-0.4, -0.5]))
    trace.show({"seen": torch.tensor([[5.0, 5.1], [6.0, 6.1]])})
    return trace


def test_paths_lead_back_through_the_parents():
    paths = small_trace().follow(ids(2, 2, 1, 0), ids(0, 1, 1, 1))
    assert paths.tokens[:2].tolist() == [[7, 8], [5, 9]]
    assert paths.tokens[2, :1].tolist() == [6]
    torch.testing.assert_close(paths.log_probs[:2], torch.tensor([[-0.3, -0.4], [-0.1, -0.5]]))
    seen = paths.shown["seen"]
    assert seen[:2, :, 0].tolist() == [[1.0, 4.0, 5.0], [1.0, 2.0, 6.0]]
    assert seen[2, :2, 0].tolist() == [0.0, 3.0]
    assert seen[3, :1, 0].tolist() == [1.0]


def test_history_is_that_of_the_rows_of_now():
    trace = small_trace()
    assert trace.length == 2
    assert trace.history().tolist() == [[7, 8], [5, 9]]


def test_nothing_said_is_an_empty_path():
    trace = Trace(ids(BOS, BOS))
    trace.show({})
    paths = trace.follow(ids(0, 0), ids(0, 1))
    assert paths.tokens.shape == (2, 0)
    assert paths.shown == {}
    assert trace.history().shape == (2, 0)
