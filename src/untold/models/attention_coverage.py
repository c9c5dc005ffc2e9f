"""Coverage in attention (Tu et al., 2016): how far each source word was attended to, fed back.

    linguistic   C_t,i = C_t-1,i + a_t,i / Phi_i,   Phi_i = N sigmoid(U h_i), the word's fertility
    neural       C_t,i = GRU(C_t-1,i; a_t,i, h_i, s_t-1)

C_0 = 0, and V C_t-1,i joins the energy of word i inside the tanh. V begins at zero: a model that
starts from one without coverage begins as it. This is the decoder's own coverage, which changes
what it attends to; that of coverage.py is where routing starts from.
"""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from untold.models.backbone import Widths
from untold.models.gru import GRUCell, initialise_recurrent

__all__ = ["COVERAGES", "AttentionCoverage", "LinguisticCoverage", "NeuralCoverage"]

_MOST_FERTILE = 2.0  # N: how many times over a word may be attended to, as in the paper
_WIDTH = 10  # of a neural coverage vector: the paper's


class AttentionCoverage(nn.Module, ABC):
    """A vector C of each source word for every hypothesis; it starts at zero."""

    def __init__(self, width: int, d_key: int) -> None:
        super().__init__()
        self.width = width
        self.key = nn.Linear(width, d_key, bias=False)
        nn.init.zeros_(self.key.weight)

    @abstractmethod
    def remember(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b i m"]:
        """All that depends on the source alone."""

    @abstractmethod
    def forward(
        self,
        words: Float[Tensor, "b i m"],
        covered: Float[Tensor, "b n i w"],
        weights: Float[Tensor, "b n i"],
        hidden: Float[Tensor, "b n h"],
    ) -> Float[Tensor, "b n i w"]:
        """C_t from C_t-1 and a_t; `words` as remembered, `hidden` the decoder before the step."""


class LinguisticCoverage(AttentionCoverage):
    """The sum of the weights, each word's divided by its fertility."""

    def __init__(self, widths: Widths) -> None:
        super().__init__(1, widths.state)
        self.fertility = nn.Linear(widths.source, 1)
        nn.init.xavier_uniform_(self.fertility.weight)
        nn.init.zeros_(self.fertility.bias)

    def remember(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b i m"]:
        """Phi."""
        return _MOST_FERTILE * self.fertility(states).sigmoid()

    def forward(
        self,
        words: Float[Tensor, "b i m"],
        covered: Float[Tensor, "b n i w"],
        weights: Float[Tensor, "b n i"],
        hidden: Float[Tensor, "b n h"],  # noqa: ARG002
    ) -> Float[Tensor, "b n i w"]:
        """Grows by one in all over the words, if each is as fertile as one word."""
        return covered + weights[..., None] / words[:, None]


class NeuralCoverage(AttentionCoverage):
    """A gated cell for each word, which decides itself what to keep."""

    def __init__(self, widths: Widths) -> None:
        super().__init__(_WIDTH, widths.state)
        self.cell = GRUCell(widths.source, _WIDTH)
        self.weight = nn.Linear(1, 3 * _WIDTH, bias=False)
        self.state = nn.Linear(widths.state, 3 * _WIDTH, bias=False)
        for module in (self.cell, self.weight, self.state):
            module.apply(initialise_recurrent)

    def remember(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b i m"]:
        """What the gates make of h."""
        return self.cell.read(states)

    def forward(
        self,
        words: Float[Tensor, "b i m"],
        covered: Float[Tensor, "b n i w"],
        weights: Float[Tensor, "b n i"],
        hidden: Float[Tensor, "b n h"],
    ) -> Float[Tensor, "b n i w"]:
        """The words of a hypothesis do not see each other."""
        gates = words[:, None] + self.weight(weights[..., None]) + self.state(hidden)[:, :, None]
        return self.cell(gates.flatten(0, 1), covered.flatten(0, 1)).view(covered.shape)


COVERAGES: dict[str, type[LinguisticCoverage] | type[NeuralCoverage]] = {
    "linguistic": LinguisticCoverage,
    "neural": NeuralCoverage,
}
