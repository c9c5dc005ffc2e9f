import pytest
import torch

from untold.inference.kv_cache import RaggedRows, RaggedSource


def rows(*lengths):
    return RaggedRows.of(torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


@pytest.mark.parametrize("lengths", [(3,), (2, 2), (1, 4, 2)], ids=str)
def test_padding_is_left_out_and_put_back(lengths):
    found = rows(*lengths)
    assert len(found) == len(lengths) and found.starts.tolist()[-1] == sum(lengths)
    values = torch.randn(sum(lengths), 5)
    padded = found.pad(values)
    assert torch.equal(found.take(padded), values)
    for sentence, length in enumerate(lengths):
        start = found.starts[sentence]
        assert torch.equal(padded[sentence, :length], values[start : start + length])
        assert not padded[sentence, length:].any()


def test_padding_before_a_sentence_is_refused():
    with pytest.raises(AssertionError, match="behind"):
        RaggedRows.of(torch.tensor([[True, True], [False, True]]))


def test_sentences_that_go_on_are_named_and_not_copied():
    source = RaggedSource(
        torch.arange(6.0).view(3, 2, 1),
        torch.ones(3, 2, dtype=torch.bool),
        rows=rows(2, 2, 2),
        attended=rows(2, 2, 2),
        keys_values=torch.randn(6, 4),
        sentences=torch.arange(3),
    )
    chosen = source.select(torch.tensor([2, 0])).select(torch.tensor([0]))
    assert chosen.sentences.tolist() == [2] and chosen.states.flatten().tolist() == [4.0, 5.0]
    assert chosen.keys_values is source.keys_values
