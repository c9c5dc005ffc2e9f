"""RNMT: a bidirectional GRU reads, a conditional GRU writes, with attention between its halves.

    h = [forward; backward]                      s_0 = tanh(W mean h)
    s'_t = GRU_1(e(y_t-1), s_t-1)                a_t = attention(s'_t, h),  c_t = sum_i a_t[i] h[i]
    s_t = GRU_2(c_t, s'_t)                       o_t = tanh(W_e e(y_t-1) + W_s s_t + W_c c_t)

Whatever reads the context c_t does so by a linear map. So the maps are applied to the source once a
sentence, and each step mixes their results: W sum_i a[i] h[i] = sum_i a[i] W h[i]. What is left to
do word by word is recurrent, and all beams of a sentence share the rest.

A PFRNN is an RNMT with two more layers: see pfrnn.py. Attention may know what it has covered: see
attention_coverage.py.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from untold.config import ModelConfig
from untold.models.attention_coverage import COVERAGES
from untold.models.backbone import Backbone, Decoded, DecoderState, Source, Timeline, Widths
from untold.models.gru import AdditiveAttention, GRUCell, initialise_recurrent
from untold.models.layers import Dropout
from untold.models.pfrnn import PastFutureLayers

__all__ = ["Rnmt", "RnmtState", "WordEmbedding"]


@dataclass(frozen=True)
class RnmtState:
    """The decoder state of every hypothesis, and what is kept beside it."""

    hidden: Float[Tensor, "r h"]
    layers: Float[Tensor, "r 2 h"] | None = None  # past and future of a PFRNN
    covered: Float[Tensor, "r i w"] | None = None  # of attention with coverage

    def select(self, rows: Int[Tensor, " s"]) -> "RnmtState":
        """The memory of the hypotheses at `rows`."""
        layers = None if self.layers is None else self.layers.index_select(0, rows)
        covered = None if self.covered is None else self.covered.index_select(0, rows)
        return RnmtState(self.hidden.index_select(0, rows), layers, covered)


@dataclass(frozen=True)
class _Memory:
    """The source as seen by all that reads contexts."""

    keys: Float[Tensor, "b i a"]
    gates: Float[Tensor, "b i m"]  # of the second half of the decoder
    readout: Float[Tensor, "b i o"]
    layers: Float[Tensor, "b i l"] | None = None
    coverage: Float[Tensor, "b i c"] | None = None


@dataclass(frozen=True)
class _Walk:
    """What was read at some positions, or by some beams, and what came of it."""

    words: Float[Tensor, "b t e"]
    states: Float[Tensor, "b t h"]
    weights: Float[Tensor, "b t i"]
    timeline: Timeline | None


class Rnmt(Backbone):
    """Bahdanau et al. (2015) with the conditional GRU; the output layer reads o_t."""

    def __init__(self, config: ModelConfig, vocabularies: tuple[int, int], *, shared: bool) -> None:
        """`vocabularies`: source and target sizes; `shared`: both are one vocabulary."""
        super().__init__()
        d, d_word = config.d_model, config.d_embedding or config.d_model
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
        self.has_timeline = config.backbone == "pfrnn"
        self.layers = PastFutureLayers(config) if self.has_timeline else None
        self.coverage = None
        if config.attention_coverage != "none":
            self.coverage = COVERAGES[config.attention_coverage](self.widths)

    def encode(self, ids: Int[Tensor, "b i"], mask: Bool[Tensor, "b i"]) -> Source:
        """Source states, and what attention, decoder and readout will want to know of them."""
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
        more = [part.remember(states) for part in (self.layers, self.coverage) if part is not None]
        return Source(states, mask, (keys, gates, self.context_readout(states), *more))

    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Decoded:
        """Position after position; what is not recurrent is done before and after, all at once."""
        words = self.target_embedding(prefix)
        states, weights = [self.start(source, 1)], []
        for gates in self.first.read(words).split(1, dim=1):
            state, focus = self._advance(source, gates, states[-1])
            states.append(state)
            weights.append(focus)
        hidden = torch.stack([state.hidden for state in states[1:]], dim=1)
        layers = [state.layers for state in states if state.layers is not None]
        timeline = None
        if layers:
            whole = torch.stack(layers, dim=1)
            timeline = Timeline(whole[:, 1:], before=whole[:, :-1])
        walk = _Walk(words, hidden, torch.cat(weights, dim=1), timeline)
        return self._decoded(source, walk, attention=attention)

    def start(self, source: Source, beams: int) -> RnmtState:
        """s_0 for every hypothesis."""
        real = source.mask[:, :, None].to(source.states.dtype)
        mean = (source.states * real).sum(1) / real.sum(1)
        first = self.bridge(mean).tanh().repeat_interleave(beams, dim=0)
        layers = covered = None
        if self.layers is not None:
            layers = torch.stack([torch.zeros_like(first), first], dim=1)
        if self.coverage is not None:
            covered = first.new_zeros(len(first), source.mask.shape[1], self.coverage.width)
        return RnmtState(first, layers, covered)

    def step(
        self,
        source: Source,
        last: Int[Tensor, "b n"],
        state: DecoderState,
        *,
        attention: bool = False,
    ) -> tuple[Decoded, RnmtState]:
        """One more token of each hypothesis; the n beams of a sentence share its memory."""
        assert isinstance(state, RnmtState)
        words, shape = self.target_embedding(last), last.shape
        after, weights = self._advance(source, self.first.read(words), state)
        timeline = None
        if after.layers is not None and state.layers is not None:
            layers = after.layers.view(*shape, 2, -1)
            timeline = Timeline(layers, before=state.layers.view(*shape, 2, -1))
        walk = _Walk(words, after.hidden.view(*shape, -1), weights, timeline)
        return self._decoded(source, walk, attention=attention), after

    def finish(self, readout: Float[Tensor, "b t o"]) -> Float[Tensor, "b t o"]:
        """The readout is bounded when all that joins it has joined it."""
        return self.dropout(readout.tanh())

    def guesses(self, timeline: Timeline) -> dict[str, Float[Tensor, "b t o"]]:
        """The words by which past and future changed."""
        return {} if self.layers is None else self.layers.guesses(timeline)

    def output_embedding(self) -> Float[Tensor, "v o"]:
        """Tied to the target embedding unless the configuration says otherwise."""
        return (self.output or self.target_embedding.embedding).weight

    def _advance(
        self, source: Source, gates: Float[Tensor, "b n m"], state: RnmtState
    ) -> tuple[RnmtState, Float[Tensor, "b n i"]]:
        """From s_t-1 to s_t, `gates` being what the first GRU reads of the last words; and a_t."""
        memory, shape = self._memory(source), gates.shape[:2]
        layers = None if state.layers is None else state.layers.view(*shape, 2, -1)
        if self.layers is not None and layers is not None:
            gates = gates + self.layers.feed(layers.flatten(2))
        hidden = self.first(gates, state.hidden.view(*shape, -1))
        weights, covered = self._attend(source, hidden, state)
        hidden = self.second(weights @ memory.gates, hidden)
        if self.layers is not None and memory.layers is not None:
            layers = self.layers(weights @ memory.layers, layers).flatten(0, 1)
        return RnmtState(hidden.flatten(0, 1), layers, covered), weights

    def _attend(
        self, source: Source, hidden: Float[Tensor, "b n h"], state: RnmtState
    ) -> tuple[Float[Tensor, "b n i"], Float[Tensor, "r i w"] | None]:
        """a_t, and what is covered after it."""
        memory, shape = self._memory(source), hidden.shape[:2]
        if self.coverage is None or state.covered is None:
            return self.attention(hidden, memory.keys, source.mask), None
        covered = state.covered.view(*shape, *state.covered.shape[1:])
        weights = self.attention(hidden, memory.keys, source.mask, self.coverage.key(covered))
        before = state.hidden.view(*shape, -1)
        return weights, self.coverage(memory.coverage, covered, weights, before).flatten(0, 1)

    def _memory(self, source: Source) -> _Memory:
        """The parts of Source.memory by name."""
        keys, gates, readout, *more = source.memory
        layers = more.pop(0) if self.layers is not None else None
        return _Memory(keys, gates, readout, layers, more[0] if more else None)

    def _decoded(self, source: Source, walk: _Walk, *, attention: bool) -> Decoded:
        """With the readout W_e e + W_s s + W_c c, and what past and future add to it."""
        context = walk.weights @ self._memory(source).readout
        readout = self.word_readout(walk.words) + self.state_readout(walk.states) + context
        if self.layers is not None and walk.timeline is not None:
            readout = readout + self.layers.readout(walk.timeline.after.flatten(2))
        weights = walk.weights if attention else None
        return Decoded(walk.states, weights, readout, walk.timeline)


class WordEmbedding(nn.Module):
    """e(w) = sqrt(d) E[w], then dropout: values around one, though E is also the output layer."""

    def __init__(self, embedding: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)

    def forward(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t e"]:
        """Row by row."""
        return self.dropout(math.sqrt(self.embedding.embedding_dim) * self.embedding(ids))
