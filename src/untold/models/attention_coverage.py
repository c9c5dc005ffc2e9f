"""Coverage in attention (Tu et al., 2016): the past attention to each source word is fed back.

    linguistic   C_t,i = C_t-1,i + a_t,i / Phi_i,   Phi_i = N sigmoid(U h_i), the word's fertility
    neural       C_t,i = GRU(C_t-1,i; a_t,i, h_i, s_t-1)

C_0 = 0, and V C_t-1,i is added to the energy of word i inside the tanh. V starts at zero, so that a
model which is warm-started from one without coverage computes the same at first. This coverage
belongs to the decoder's attention; the separator has a prior of its own in routing_prior.py.
"""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from untold.models.backbone import Widths
from untold.models.gru import GRUCell, initialise_recurrent

__all__ = ["COVERAGES", "AttentionCoverage", "LinguisticCoverage", "NeuralCoverage"]

_MAX_FERTILITY = 2.0  # N of the paper: the largest fertility of a word
_WIDTH = 10  # of a neural coverage vector, as in the paper


class AttentionCoverage(nn.Module, ABC):
    """Keeps a vector C of each source word for every hypothesis; C starts at zero."""

    def __init__(self, width: int, d_key: int) -> None:
        super().__init__()
        self.width = width
        self.key = nn.Linear(width, d_key, bias=False)
        nn.init.zeros_(self.key.weight)

    @abstractmethod
    def remember(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b i m"]:
        """Computes what depends on the source alone, once a sentence."""

    @abstractmethod
    def forward(
        self,
        words: Float[Tensor, "b i m"],
        covered: Float[Tensor, "b n i w"],
        weights: Float[Tensor, "b n i"],
        hidden: Float[Tensor, "b n h"],
    ) -> Float[Tensor, "b n i w"]:
        """Computes C_t from C_t-1 and a_t.

        `words` is the result of `remember`, `hidden` the decoder state before the step.
        """


class LinguisticCoverage(AttentionCoverage):
    """Sums the attention weights, each divided by the fertility of its word."""

    def __init__(self, widths: Widths) -> None:
        super().__init__(1, widths.state)
        self.fertility = nn.Linear(widths.source, 1)
        nn.init.xavier_uniform_(self.fertility.weight)
        nn.init.zeros_(self.fertility.bias)

    def remember(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b i m"]:
        """Computes the fertilities Phi."""
        return _MAX_FERTILITY * self.fertility(states).sigmoid()

    def forward(
        self,
        words: Float[Tensor, "b i m"],
        covered: Float[Tensor, "b n i w"],
        weights: Float[Tensor, "b n i"],
        hidden: Float[Tensor, "b n h"],  # noqa: ARG002
    ) -> Float[Tensor, "b n i w"]:
        """Adds a_t / Phi; `hidden` plays no part."""
        return covered + weights[..., None] / words[:, None]


class NeuralCoverage(AttentionCoverage):
    """Updates the coverage of each word by a GRU cell."""

    def __init__(self, widths: Widths) -> None:
        super().__init__(_WIDTH, widths.state)
        self.cell = GRUCell(widths.source, _WIDTH)
        self.weight = nn.Linear(1, 3 * _WIDTH, bias=False)
        self.state = nn.Linear(widths.state, 3 * _WIDTH, bias=False)
        for module in (self.cell, self.weight, self.state):
            module.apply(initialise_recurrent)

    def remember(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b i m"]:
        """Maps the source states to the gates of the cell."""
        return self.cell.read(states)

    def forward(
        self,
        words: Float[Tensor, "b i m"],
        covered: Float[Tensor, "b n i w"],
        weights: Float[Tensor, "b n i"],
        hidden: Float[Tensor, "b n h"],
    ) -> Float[Tensor, "b n i w"]:
        """Makes one step of the cell for each word independently."""
        gates = words[:, None] + self.weight(weights[..., None]) + self.state(hidden)[:, :, None]
        return self.cell(gates.flatten(0, 1), covered.flatten(0, 1)).view(covered.shape)


COVERAGES: dict[str, type[LinguisticCoverage] | type[NeuralCoverage]] = {
    "linguistic": LinguisticCoverage,
    "neural": NeuralCoverage,
}
