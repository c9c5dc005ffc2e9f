"""A toy model whose next token hangs on the last one and the sentence alone, by table."""

from dataclasses import dataclass

import pytest
import torch

from untold.models.signals import Step


@dataclass(frozen=True)
class Rows:
    """The sentence that each row belongs to."""

    values: torch.Tensor

    def select(self, rows):
        return Rows(self.values[rows])


class TableModel:
    """logits = table[first source id, last token]. Counts its steps and the rows it was given."""

    def __init__(self, table):
        self.table = table
        self.rows = []

    def encode(self, ids, mask):
        return Rows(ids[:, 0])

    def start(self, source, beams):
        return Rows(source.values.repeat_interleave(beams))

    def step(self, source, last, state, *, attention=False):
        assert torch.equal(state.values.view(last.shape), source.values[:, None].expand(last.shape))
        self.rows.append(last.numel())
        return Step(self.table[source.values[:, None], last], state)


@pytest.fixture(scope="session")
def table_model():
    return TableModel
