"""RNMT: a bidirectional GRU reads, a conditional GRU writes, with attention between its halves.

    h = [forward; backward]                      s_0 = tanh(W mean h)
    s'_t = GRU_1(e(y_t-1), s_t-1)                a_t = attention(s'_t, h),  c_t = sum_i a_t[i] h[i]
    s_t = GRU_2(c_t, s'_t)                       o_t = tanh(W_e e(y_t-1) + W_s s_t + W_c c_t)

Whatever reads the context c_t does so by a linear map. So the maps are applied to the source once a
sentence, and each step mixes their results: W sum_i a[i] h[i] = sum_i a[i] W h[i]. That takes as
many products as the source has words instead of as many as it is wide.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from untold.config import ModelConfig
from untold.models.backbone import Backbone, Decoded, DecoderState, Source, Widths
from untold.models.layers import Dropout
from untold.models.recurrent import AdditiveAttention, GatedCell, initialise_recurrent

__all__ = ["Rnmt", "RnmtState", "WordEmbedding"]


@dataclass(frozen=True)
class RnmtState:
    """The decoder state of every hypothesis."""

    hidden: Float[Tensor, "r h"]

    def select(self, rows: Int[Tensor, " s"]) -> "RnmtState":
        """The memory of the hypotheses at `rows`."""
        return RnmtState(self.hidden.index_select(0, rows))


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
        self.first = GatedCell(d_word, d)
        self.attention = AdditiveAttention(2 * d, d)
        self.second = GatedCell(2 * d, d)
        self.word_readout = nn.Linear(d_word, d_word, bias=False)
        self.state_readout = nn.Linear(d, d_word)
        self.context_readout = nn.Linear(2 * d, d_word, bias=False)
        self.dropout = Dropout(config.dropout)
        self.apply(initialise_recurrent)

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
        return Source(states, mask, (keys, gates, self.context_readout(states)))

    def decode(
        self, source: Source, prefix: Int[Tensor, "b t"], *, attention: bool = False
    ) -> Decoded:
        """Position after position; what is not recurrent is done before and after, all at once."""
        words = self.target_embedding(prefix)
        state, hidden, weights = self.start(source, 1), [], []
        for gates in self.first.read(words).split(1, dim=1):
            state, focus = self._advance(source, gates, state)
            hidden.append(state.hidden)
            weights.append(focus)
        return self._decoded(
            source, words, torch.stack(hidden, 1), torch.cat(weights, 1), attention=attention
        )

    def start(self, source: Source, beams: int) -> RnmtState:
        """s_0 for every hypothesis."""
        real = source.mask[:, :, None].to(source.states.dtype)
        mean = (source.states * real).sum(1) / real.sum(1)
        return RnmtState(self.bridge(mean).tanh().repeat_interleave(beams, dim=0))

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
        words = self.target_embedding(last)
        state, weights = self._advance(source, self.first.read(words), state)
        hidden = state.hidden.view(*last.shape, -1)
        return self._decoded(source, words, hidden, weights, attention=attention), state

    def finish(self, readout: Float[Tensor, "b t o"]) -> Float[Tensor, "b t o"]:
        """The readout is bounded when all that joins it has joined it."""
        return self.dropout(readout.tanh())

    def output_embedding(self) -> Float[Tensor, "v o"]:
        """Tied to the target embedding unless the configuration says otherwise."""
        return (self.output or self.target_embedding.embedding).weight

    def _advance(
        self, source: Source, gates: Float[Tensor, "b n m"], state: RnmtState
    ) -> tuple[RnmtState, Float[Tensor, "b n i"]]:
        """From s_t-1 to s_t, `gates` being what the first GRU reads of the last words; and a_t."""
        keys, context_gates, _ = source.memory
        hidden = self.first(gates, state.hidden.view(*gates.shape[:2], -1))
        weights = self.attention(hidden, keys, source.mask)
        hidden = self.second(weights @ context_gates, hidden)
        return RnmtState(hidden.flatten(0, 1)), weights

    def _decoded(
        self,
        source: Source,
        words: Float[Tensor, "b t e"],
        states: Float[Tensor, "b t h"],
        weights: Float[Tensor, "b t i"],
        *,
        attention: bool,
    ) -> Decoded:
        """With W_e e + W_s s + W_c c."""
        context = weights @ source.memory[2]
        readout = self.word_readout(words) + self.state_readout(states) + context
        return Decoded(states, weights if attention else None, readout)


class WordEmbedding(nn.Module):
    """e(w) = sqrt(d) E[w], then dropout: values around one, though E is also the output layer."""

    def __init__(self, embedding: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)

    def forward(self, ids: Int[Tensor, "b t"]) -> Float[Tensor, "b t e"]:
        """Row by row."""
        return self.dropout(math.sqrt(self.embedding.embedding_dim) * self.embedding(ids))
