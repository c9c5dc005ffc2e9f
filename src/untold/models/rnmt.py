"""RNMT: a bidirectional GRU encoder and a conditional GRU decoder with additive attention.

    h = [forward; backward]                      s_0 = tanh(W mean h)
    s'_t = GRU_1(e(y_t-1), s_t-1)                a_t = attention(s'_t, h),  c_t = sum_i a_t[i] h[i]
    s_t = GRU_2(c_t, s'_t)                       o_t = tanh(W_e e(y_t-1) + W_s s_t + W_c c_t)

All maps that read the context c_t are linear. They are therefore applied to the source once a
sentence, and each step mixes the results: W sum_i a[i] h[i] = sum_i a[i] W h[i]. Only the recurrent
parts run word by word. attention_coverage.py adds coverage to the attention; pfrnn.py extends this
model by past and future layers, through the methods marked "PFRNN extends this".

Shape letters are those of gru.py; r is a hypothesis, w the width of a coverage vector.

Coverage in attention (Tu et al., 2016): the past attention to each source word is fed back.

    linguistic   C_t,i = C_t-1,i + a_t,i / Phi_i,   Phi_i = N sigmoid(U h_i), the word's fertility
    neural       C_t,i = GRU(C_t-1,i; a_t,i, h_i, s_t-1)

C_0 = 0, and V C_t-1,i is added to the energy of word i inside the tanh. V starts at zero, so that a
model which is warm-started from one without coverage computes the same at first. This coverage
belongs to the decoder's attention; the separator has a prior of its own in routing_prior.py.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from untold.config.model import ModelConfig
from untold.config.section import Layers, Width
from untold.models.backbone import Backbone, Decoded, DecoderState, Source, Widths
from untold.models.gru import AdditiveAttention, GRUCell, initialise_recurrent
from untold.models.layers import Dropout

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


class RnmtConfig(ModelConfig):
    """The settings of an RNMT."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "tiny": {"d_embedding": 128, "d_model": 192, "d_ffn": 256, "encoder_layers": 1},
        "small": {"d_embedding": 256, "d_model": 512, "d_ffn": 1024, "encoder_layers": 1},
        "base": {"d_embedding": 512, "d_model": 1024, "d_ffn": 2048, "encoder_layers": 1},
    }
    legacy_keys: ClassVar[Mapping[str, Any]] = {
        "heads": 1,
        "decoder_layers": 1,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "future_layer": "gru-i",
    }

    backbone: str = "rnmt"
    d_embedding: Width | None = 512
    """The width of the words and of what the output layer reads; in JSON null means d_model."""
    d_model: Width = 1024
    """The width of the decoder, and of each direction of the encoder."""
    encoder_layers: Layers = 1
    """Stacked bidirectional GRUs of the encoder."""
    tie_embeddings: bool = True
    """Whether the output layer uses the target embedding."""
    attention_coverage: Literal["none", "linguistic", "neural"] = "none"
    """How attention learns what it attended to before, if at all."""

    @property
    def d_word(self) -> int:
        """Returns the width of word embeddings."""
        return self.d_embedding or self.d_model

    def describe(self) -> dict[str, str]:
        """Describes layers and widths."""
        width = f"{self.d_model}, embeddings {self.d_word}"
        return {"layers": f"{self.encoder_layers} + 1", "width": width}


@dataclass(frozen=True)
class RnmtState:
    """Holds the decoder state of every hypothesis, and the coverage of its attention."""

    hidden: Float[Tensor, "r h"]
    covered: Float[Tensor, "r i w"] | None = None

    def select(self, rows: Int[Tensor, " s"]) -> "RnmtState":
        """Returns the memory of the hypotheses at `rows`."""
        covered = None if self.covered is None else self.covered.index_select(0, rows)
        return RnmtState(self.hidden.index_select(0, rows), covered)


@dataclass(frozen=True)
class DecodedWords:
    """Holds the decoder's inputs and results at some positions t, or of some beams."""

    words: Float[Tensor, "b t e"]
    states: Float[Tensor, "b t h"]
    weights: Float[Tensor, "b t i"]
    inner_states: Any = None


class Rnmt(Backbone):
    """Bahdanau et al. (2015) with the conditional GRU; the output layer reads o_t."""

    config_class: ClassVar[type[ModelConfig]] = RnmtConfig

    def __init__(self, config: RnmtConfig, vocabularies: tuple[int, int], *, shared: bool) -> None:
        """`vocabularies`: source and target sizes; `shared`: both are one vocabulary."""
        super().__init__()
        d, d_word = config.d_model, config.d_word
        self.widths = Widths(source=2 * d, state=d, output=d_word)
        source_size, target_size = vocabularies
        target = nn.Embedding(target_size, d_word)
        source = target if shared else nn.Embedding(source_size, d_word)
        self.source_embedding = WordEmbedding(source, config.dropout)
        self.target_embedding = WordEmbedding(target, config.dropout)
        self.output = None if config.tie_embeddings else nn.Embedding(target_size, d_word)
        between = config.dropout if config.encoder_layers > 1 else 0.0
        self.encoder = nn.GRU(
            d_word, d, config.encoder_layers, batch_first=True, dropout=between, bidirectional=True
        )
        self.bridge = nn.Linear(2 * d, d)
        self.first = GRUCell(d_word, d)
        self.attention = AdditiveAttention(2 * d, d)
        self.second = GRUCell(2 * d, d)
        self.word_readout = nn.Linear(d_word, d_word, bias=False)
        self.state_readout = nn.Linear(d, d_word)
        self.context_readout = nn.Linear(2 * d, d_word, bias=False)
        self.dropout = Dropout(config.dropout)
        self.apply(initialise_recurrent)
        self._add_parts(config)

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Computes source states, and the linear maps of them that every step mixes."""
        embedded = self.source_embedding(ids)
        if bool(mask.all()):
            states, _ = self.encoder(embedded)
        else:
            lengths = mask.sum(1).cpu()
            packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
            found, _ = self.encoder(packed)
            states, _ = pad_packed_sequence(found, batch_first=True, total_length=ids.shape[1])
        states = self.dropout(states)
        keys, gates = self.attention.remember(states), self.second.read(states)
        more = self._remember(states)
        return Source(states, mask, (keys, gates, self.context_readout(states), *more))

    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Decoded:
        """Runs the recurrent parts word by word, and all others before or after, all at once."""
        words = self.target_embedding(prefix)
        states, weights = [self.start(source, 1)], []
        for gates in self.first.read(words).split(1, dim=1):
            state, focus = self._advance(source, gates, states[-1])
            states.append(state)
            weights.append(focus)
        hidden = torch.stack([state.hidden for state in states[1:]], dim=1)
        inner = self._inner_states(states, prefix.shape)
        decoded = DecodedWords(words, hidden, torch.cat(weights, dim=1), inner)
        return self._decoded(source, decoded, attention=attention)

    def start(self, source: Source, beams: int) -> RnmtState:
        """Computes s_0 for every hypothesis. (PFRNN extends this.)"""
        real = source.mask[:, :, None].to(source.states.dtype)
        mean = (source.states * real).sum(1) / real.sum(1)
        first = self.bridge(mean).tanh().repeat_interleave(beams, dim=0)
        covered = None
        if self.coverage is not None:
            covered = first.new_zeros(len(first), source.mask.shape[1], self.coverage.width)
        return RnmtState(first, covered)

    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> tuple[Decoded, RnmtState]:
        """Reads one more token of each hypothesis; the n beams of a sentence share its memory."""
        assert isinstance(state, RnmtState)
        words, shape = self.target_embedding(last), last.shape
        after, weights = self._advance(source, self.first.read(words), state)
        inner = self._inner_states([state, after], shape)
        decoded = DecodedWords(words, after.hidden.view(*shape, -1), weights, inner)
        return self._decoded(source, decoded, attention=attention), after

    def finish(self, readout: Float[Tensor, "b t o"]) -> Float[Tensor, "b t o"]:
        """Applies the tanh, which comes after past and future have joined the readout."""
        return self.dropout(readout.tanh())

    def output_embedding(self) -> Float[Tensor, "v o"]:
        """Returns the target embedding, or the output's own if tie_embeddings is off."""
        return (self.output or self.target_embedding.embedding).weight

    def _add_parts(self, config: RnmtConfig) -> None:
        """Adds what a plain RNMT does without. (PFRNN extends this.)"""
        self.coverage = None
        if config.attention_coverage != "none":
            self.coverage = COVERAGES[config.attention_coverage](self.widths)

    def _remember(self, states: Float[Tensor, "b i d"]) -> tuple[Tensor, ...]:
        """Computes the rest of Source.memory; coverage comes last. (PFRNN extends this.)"""
        return () if self.coverage is None else (self.coverage.remember(states),)

    def _advance(
        self, source: Source, gates: Float[Tensor, "b n m"], state: RnmtState
    ) -> tuple[RnmtState, Float[Tensor, "b n i"]]:
        """Computes s_t and a_t; `gates` is what GRU_1 reads of the words. (PFRNN extends this.)"""
        hidden = self.first(gates, state.hidden.view(*gates.shape[:2], -1))
        weights, covered = self._attend(source, hidden, state)
        hidden = self.second(weights @ source.memory[1], hidden)
        return RnmtState(hidden.flatten(0, 1), covered), weights

    def _attend(
        self, source: Source, hidden: Float[Tensor, "b n h"], state: RnmtState
    ) -> tuple[Float[Tensor, "b n i"], Float[Tensor, "r i w"] | None]:
        """Computes a_t, and the coverage after it."""
        keys, shape = source.memory[0], hidden.shape[:2]
        if self.coverage is None or state.covered is None:
            return self.attention(hidden, keys, source.mask), None
        covered = state.covered.view(*shape, *state.covered.shape[1:])
        weights = self.attention(hidden, keys, source.mask, self.coverage.key(covered))
        before = state.hidden.view(*shape, -1)
        return weights, self.coverage(source.memory[-1], covered, weights, before).flatten(0, 1)

    def _inner_states(
        self,
        states: Sequence[RnmtState],  # noqa: ARG002
        shape: Sequence[int],  # noqa: ARG002
    ) -> Any:
        """Collects Decoded.inner_states from the states of successive positions or of one step.

        An RNMT has none. (PFRNN extends this.)
        """
        return None

    def _readout(self, source: Source, decoded: DecodedWords) -> Float[Tensor, "b t o"]:
        """Computes W_e e + W_s s + W_c c. (PFRNN extends this.)"""
        context = decoded.weights @ source.memory[2]
        return self.word_readout(decoded.words) + self.state_readout(decoded.states) + context

    def _decoded(self, source: Source, decoded: DecodedWords, *, attention: bool) -> Decoded:
        readout = self._readout(source, decoded)
        weights = decoded.weights if attention else None
        return Decoded(decoded.states, weights, readout, decoded.inner_states)


class WordEmbedding(nn.Module):
    """Embeds words: dropout(sqrt(d) E[w]). The factor brings values near one when E is tied."""

    def __init__(self, embedding: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)

    def forward(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t e"]:
        """Maps ids to vectors."""
        return self.dropout(math.sqrt(self.embedding.embedding_dim) * self.embedding(ids))
