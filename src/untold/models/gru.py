"""Parts of recurrent models: GRU cells that read their inputs beforehand, additive attention.

Shape letters are those of layers.py; h is the width of a hidden state, m that of its three gates.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from untold.models.layers import sigmoid_scores


class GRUCell(nn.Module):
    """A GRU cell in two parts: `read` maps all inputs at once, `forward` makes one step.

    r, z = sigmoid(W x + U s);  n = tanh(W_n x + r * U_n s);  s' = (1 - z) n + z s

    nn.GRUCell computes the same at the same speed, but cannot take inputs that are mapped already.
    """

    def __init__(self, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.read = nn.Linear(d_input, 3 * d_hidden)
        self.recur = nn.Linear(d_hidden, 3 * d_hidden)
        self.sizes = [2 * d_hidden, d_hidden]

    def forward(
        self, gates: Float[Tensor, "b n m"], hidden: Float[Tensor, "b n h"]
    ) -> Float[Tensor, "b n h"]:
        """Computes the next state; `gates` is a result of `read` or a mixture of several."""
        both, new = gates.split(self.sizes, dim=-1)
        own_both, own_new = self.recur(hidden).split(self.sizes, dim=-1)
        reset, keep = (both + own_both).sigmoid().chunk(2, dim=-1)
        return torch.lerp(torch.addcmul(new, reset, own_new).tanh(), hidden, keep)


class SubtractiveGRUCell(nn.Module):
    """A GRU cell that subtracts its input from its state.

    r, u = sigmoid(W x + U s);  n = tanh(V (U_n s - r * W_n x));  s' = (1 - u) n + u s
    """

    def __init__(self, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.read = nn.Linear(d_input, 3 * d_hidden)
        self.recur = nn.Linear(d_hidden, 3 * d_hidden)
        self.difference = nn.Linear(d_hidden, d_hidden, bias=False)
        self.sizes = [2 * d_hidden, d_hidden]

    def forward(
        self, gates: Float[Tensor, "b n m"], hidden: Float[Tensor, "b n h"]
    ) -> Float[Tensor, "b n h"]:
        """Computes the next state; `gates` is the result of `read`."""
        both, taken = gates.split(self.sizes, dim=-1)
        own_both, own = self.recur(hidden).split(self.sizes, dim=-1)
        reset, keep = (both + own_both).sigmoid().chunk(2, dim=-1)
        left = self.difference(torch.addcmul(own, reset, taken, value=-1)).tanh()
        return torch.lerp(left, hidden, keep)


class AdditiveAttention(nn.Module):
    """Attends with weights softmax_i w . tanh(W_s s + W_h h[i]) (Bahdanau et al., 2015)."""

    def __init__(self, d_source: int, d_hidden: int) -> None:
        super().__init__()
        self.key = nn.Linear(d_source, d_hidden, bias=False)
        self.query = nn.Linear(d_hidden, d_hidden)
        self.weight = nn.Parameter(torch.empty(d_hidden).uniform_(-1, 1) * d_hidden**-0.5)

    def remember(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b i a"]:
        """Computes 2 W_h h once a sentence; the factor turns tanh into sigmoid (sigmoid_scores)."""
        return 2 * self.key(states)

    def forward(
        self,
        hidden: Float[Tensor, "b n h"],
        keys: Float[Tensor, "b i a"],
        mask: Bool[Tensor, "b i"],
        more: Float[Tensor, "b n i a"] | None = None,
    ) -> Float[Tensor, "b n i"]:
        """Returns weights that sum to one over real positions; `more` is added inside the tanh."""
        query, weight = 2 * self.query(hidden), 2 * self.weight
        if more is None:
            scores = sigmoid_scores(keys, query, weight)
        else:
            own = torch.add(keys[:, None], more, alpha=2).flatten(0, 1)
            scores = sigmoid_scores(own, query.view(-1, 1, query.shape[-1]), weight)
            scores = scores.view(more.shape[:3])
        return scores.masked_fill(~mask[:, None], -torch.inf).softmax(-1)


def initialise_recurrent(module: nn.Module) -> None:
    """Initialises recurrent maps orthogonally gate by gate, other maps by Xavier's rule.

    Use it with `nn.Module.apply`, which visits the parts of a cell before the cell itself.
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
    elif isinstance(module, (GRUCell, SubtractiveGRUCell)):
        _initialise_gates(module.recur.weight, recurrent=True)
        _initialise_gates(module.read.weight, recurrent=False)
    elif isinstance(module, nn.GRU):
        for name, parameter in module.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(parameter)
            else:
                _initialise_gates(parameter, recurrent=name.startswith("weight_hh"))


def _initialise_gates(weight: Tensor, *, recurrent: bool) -> None:
    """Initialises each of the three gates separately, not their stack."""
    for gate in weight.data.chunk(3):
        (nn.init.orthogonal_ if recurrent else nn.init.xavier_uniform_)(gate)
