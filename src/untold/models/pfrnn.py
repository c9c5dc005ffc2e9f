"""PFRNN (Zheng et al., 2018): beside an RNMT, a layer of what was said and one of what is left.

    s^P_t = GRU(s^P_t-1, c_t),  s^P_0 = 0           s^F_t = the future layer,  s^F_0 = s_0

    gru     s^F_t = GRU(s^F_t-1, c_t)
    gru-o   s^F_t = GRU(s^F_t-1, m),  m = tanh(W (W_s s^F_t-1 - W_c c_t))
    gru-i   s^F_t = u s^F_t-1 + (1 - u) tanh(W (W_h s^F_t-1 - r W_c c_t)),  r and u gates

The states before t are read by the decoder's first half, so that attention knows of them, those of
t by the readout. Both maps begin at zero: a model that starts from an RNMT begins as that RNMT.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untold.config import ModelConfig
from untold.models.backbone import Timeline
from untold.models.gru import GRUCell, SubtractiveGRUCell, initialise_recurrent

__all__ = ["Difference", "PastFutureLayers", "SubtractiveInputGRU"]


class SubtractiveInputGRU(nn.Module):
    """gru-o: a GRU that reads what is left when the context is taken away."""

    def __init__(self, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.read = nn.Linear(d_input, d_hidden, bias=False)
        self.recur = nn.Linear(d_hidden, d_hidden)
        self.difference = nn.Linear(d_hidden, d_hidden, bias=False)
        self.cell = GRUCell(d_hidden, d_hidden)

    def forward(
        self, taken: Float[Tensor, "b n h"], hidden: Float[Tensor, "b n h"]
    ) -> Float[Tensor, "b n h"]:
        """The next state."""
        left = self.difference(self.recur(hidden) - taken).tanh()
        return self.cell(self.cell.read(left), hidden)


_FUTURES = {"gru": GRUCell, "gru-o": SubtractiveInputGRU, "gru-i": SubtractiveGRUCell}


class PastFutureLayers(nn.Module):
    """Both layers, how the decoder reads them, and the heads that their losses train."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, d_word = config.d_model, config.d_embedding or config.d_model
        self.past = GRUCell(2 * d, d)
        self.future = _FUTURES[config.future_layer](2 * d, d)
        self.feed = nn.Linear(2 * d, 3 * d, bias=False)
        self.readout = nn.Linear(2 * d, d_word, bias=False)
        self.heads = nn.ModuleDict({name: Difference(d, d_word) for name in ("past", "future")})
        self.sizes = [self.past.read.out_features, self.future.read.out_features]
        self.apply(initialise_recurrent)
        nn.init.zeros_(self.feed.weight)
        nn.init.zeros_(self.readout.weight)

    def remember(self, states: Float[Tensor, "b i d"]) -> Float[Tensor, "b i m"]:
        """What both layers read of the source; a context is a mixture of it."""
        return torch.cat([self.past.read(states), self.future.read(states)], dim=-1)

    def forward(
        self, context: Float[Tensor, "b n m"], layers: Float[Tensor, "b n 2 h"]
    ) -> Float[Tensor, "b n 2 h"]:
        """Past and future after another context, as `remember` made it."""
        (said, taken), (past, future) = context.split(self.sizes, dim=-1), layers.unbind(2)
        return torch.stack([self.past(said, past), self.future(taken, future)], dim=2)

    def guesses(self, timeline: Timeline) -> dict[str, Float[Tensor, "b t o"]]:
        """D^P and D^F: what each step added to the past and took from the future."""
        past, future = timeline.after.unbind(2)
        past_before, future_before = timeline.before.unbind(2)
        return {
            "past": self.heads["past"](past, past_before),
            "future": self.heads["future"](future_before, future),
        }


class Difference(nn.Module):
    """tanh(W (W_l x - W_r y)): the word by which two states differ, in the output's width."""

    def __init__(self, d_hidden: int, d_word: int) -> None:
        super().__init__()
        self.left = nn.Linear(d_hidden, d_word, bias=False)
        self.right = nn.Linear(d_hidden, d_word, bias=False)
        self.word = nn.Linear(d_word, d_word, bias=False)

    def forward(
        self, more: Float[Tensor, "b t h"], less: Float[Tensor, "b t h"]
    ) -> Float[Tensor, "b t o"]:
        """Position by position."""
        return self.word(self.left(more) - self.right(less)).tanh()
