"""PFRNN (Zheng et al., 2018): an RNMT with a past layer and a future layer beside its decoder.

    s^P_t = GRU(s^P_t-1, c_t),  s^P_0 = 0           s^F_t = the future layer,  s^F_0 = s_0

    gru     s^F_t = GRU(s^F_t-1, c_t)
    gru-o   s^F_t = GRU(s^F_t-1, m),  m = tanh(W (W_s s^F_t-1 - W_c c_t))
    gru-i   s^F_t = u s^F_t-1 + (1 - u) tanh(W (W_h s^F_t-1 - r W_c c_t)),  r and u gates

The first GRU of the decoder, which attention follows, reads the layers before step t; the readout
reads them after it. Both maps start at zero, so that a model which is warm-started from an RNMT
computes the same at first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from untold.config.model import ModelConfig
from untold.models.backbone import Source
from untold.models.gru import GRUCell, SubtractiveGRUCell, initialise_recurrent
from untold.models.rnmt import DecodedWords, Rnmt, RnmtConfig, RnmtState


class PfrnnConfig(RnmtConfig):
    """The settings of a PFRNN: those of an RNMT and the kind of future layer."""

    legacy_keys: ClassVar[Mapping[str, Any]] = {
        key: value for key, value in RnmtConfig.legacy_keys.items() if key != "future_layer"
    }

    backbone: str = "pfrnn"
    future_layer: Literal["gru", "gru-o", "gru-i"] = "gru-i"
    """The form of the future layer, from which contexts are subtracted."""

    def describe(self) -> dict[str, str]:
        """Describes layers, widths and the future layer."""
        shape = super().describe()
        return shape | {"width": f"{shape['width']}, future layer {self.future_layer}"}


@dataclass(frozen=True, kw_only=True)
class PfrnnState(RnmtState):
    """Adds the states of both layers, past first, to the state of an RNMT."""

    layers: Float[Tensor, "r 2 h"]

    def select(self, rows: Int[Tensor, " s"]) -> "PfrnnState":
        """Returns the memory of the hypotheses at `rows`."""
        return _joined(super().select(rows), self.layers.index_select(0, rows))


@dataclass(frozen=True)
class Timeline:
    """Holds the states of both layers, past first, after and before each position."""

    after: Float[Tensor, "b t 2 h"]
    before: Float[Tensor, "b t 2 h"]


class Pfrnn(Rnmt):
    """Zheng et al. (2018). It satisfies InspectableBackbone; its inner states are a Timeline."""

    config_class: ClassVar[type[ModelConfig]] = PfrnnConfig

    def start(self, source: Source, beams: int) -> PfrnnState:
        """Starts the past layer at zero and the future layer at s_0."""
        state = super().start(source, beams)
        layers = torch.stack([torch.zeros_like(state.hidden), state.hidden], dim=1)
        return _joined(state, layers)

    def guesses(self, inner_states: Timeline) -> dict[str, Float[Tensor, "b t o"]]:
        """Returns the word vectors by which each step changed the past and the future."""
        return self.layers.guesses(inner_states)

    def _add_parts(self, config: RnmtConfig) -> None:
        assert isinstance(config, PfrnnConfig)
        self.layers = PastFutureLayers(config)
        super()._add_parts(config)

    def _remember(self, states: Float[Tensor, "b i d"]) -> tuple[Tensor, ...]:
        return self.layers.remember(states), *super()._remember(states)

    def _advance(
        self, source: Source, gates: Float[Tensor, "b n m"], state: RnmtState
    ) -> tuple[RnmtState, Float[Tensor, "b n i"]]:
        layers = _layers(state).view(*gates.shape[:2], 2, -1)
        gates = gates + self.layers.feed(layers.flatten(2))
        after, weights = super()._advance(source, gates, state)
        layers = self.layers(weights @ source.memory[3], layers)
        return _joined(after, layers.flatten(0, 1)), weights

    def _inner_states(self, states: Sequence[RnmtState], shape: Sequence[int]) -> Timeline:
        layers = torch.stack([_layers(state) for state in states], dim=1)
        after, before = (part.view(*shape, 2, -1) for part in (layers[:, 1:], layers[:, :-1]))
        return Timeline(after, before)

    def _readout(self, source: Source, decoded: DecodedWords) -> Float[Tensor, "b t o"]:
        layers = decoded.inner_states.after.flatten(2)
        return super()._readout(source, decoded) + self.layers.readout(layers)


def _layers(state: RnmtState) -> Float[Tensor, "r 2 h"]:
    assert isinstance(state, PfrnnState)
    return state.layers


def _joined(state: RnmtState, layers: Float[Tensor, "r 2 h"]) -> PfrnnState:
    return PfrnnState(state.hidden, state.covered, layers=layers)


class SubtractiveInputGRU(nn.Module):
    """Computes gru-o: a GRU whose input is the difference of its state and the context."""

    def __init__(self, d_input: int, d_hidden: int) -> None:
        super().__init__()
        self.read = nn.Linear(d_input, d_hidden, bias=False)
        self.recur = nn.Linear(d_hidden, d_hidden)
        self.difference = nn.Linear(d_hidden, d_hidden, bias=False)
        self.cell = GRUCell(d_hidden, d_hidden)

    def forward(
        self, taken: Float[Tensor, "b n h"], hidden: Float[Tensor, "b n h"]
    ) -> Float[Tensor, "b n h"]:
        """Computes the next state; `taken` is the result of `read`."""
        left = self.difference(self.recur(hidden) - taken).tanh()
        return self.cell(self.cell.read(left), hidden)


_FUTURES = {"gru": GRUCell, "gru-o": SubtractiveInputGRU, "gru-i": SubtractiveGRUCell}


class PastFutureLayers(nn.Module):
    """Holds both layers, the maps by which the decoder reads them, and the losses' heads."""

    def __init__(self, config: PfrnnConfig) -> None:
        super().__init__()
        d, d_word = config.d_model, config.d_word
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
        """Maps the source for both layers, once a sentence; each step mixes the result."""
        return torch.cat([self.past.read(states), self.future.read(states)], dim=-1)

    def forward(
        self, context: Float[Tensor, "b n m"], layers: Float[Tensor, "b n 2 h"]
    ) -> Float[Tensor, "b n 2 h"]:
        """Makes one step of both layers; `context` is a mixture of the results of `remember`."""
        (said, taken), (past, future) = context.split(self.sizes, dim=-1), layers.unbind(2)
        return torch.stack([self.past(said, past), self.future(taken, future)], dim=2)

    def guesses(self, timeline: Timeline) -> dict[str, Float[Tensor, "b t o"]]:
        """Computes what each step added to the past and what it took from the future."""
        past, future = timeline.after.unbind(2)
        past_before, future_before = timeline.before.unbind(2)
        return {
            "past": self.heads["past"](past, past_before),
            "future": self.heads["future"](future_before, future),
        }


class Difference(nn.Module):
    """Computes tanh(W (W_l x - W_r y)), the vector of the word by which two states differ."""

    def __init__(self, d_hidden: int, d_word: int) -> None:
        super().__init__()
        self.left = nn.Linear(d_hidden, d_word, bias=False)
        self.right = nn.Linear(d_hidden, d_word, bias=False)
        self.word = nn.Linear(d_word, d_word, bias=False)

    def forward(
        self, more: Float[Tensor, "b t h"], less: Float[Tensor, "b t h"]
    ) -> Float[Tensor, "b t o"]:
        """Maps each position independently."""
        return self.word(self.left(more) - self.right(less)).tanh()
