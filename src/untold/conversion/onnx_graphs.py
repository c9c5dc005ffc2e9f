"""The two graphs of an exported model: the encoder, and one step of the decoder.

Both are functions of tensors alone. All that a decoder remembers goes in and comes out:

    source_ids, source_mask                          -> memory, votes
    last, source_mask, past, covered, memory, votes  -> logits, past, covered, assignments

Shape letters: b sentences, n beams of each, i source tokens, t tokens read before, l layers,
k heads, e width of a head, v vocabulary. What a model without past and future lacks is left out.
"""

from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.corpus.vocabulary import SENTENCEPIECE_IDS
from untold.models.backbone import Decoded, Source
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import DecoderLayer, SelfAttention, Transformer

__all__ = ["DecoderStepGraph", "EncoderGraph"]


class EncoderGraph(nn.Module):
    """Reads sources."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source_ids: Int[Tensor, "b i"], source_mask: Bool[Tensor, "b i"]
    ) -> tuple[Tensor, ...]:
        """Returns the keys and values of every layer (b l 2 k i e), and the votes."""
        source = self.model.encode(source_ids, source_mask)
        return torch.stack(source.memory, dim=1), *source.votes


class DecoderStepGraph(nn.Module):
    """Reads one more token of every hypothesis."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    @property
    def covers(self) -> bool:
        """Tells if hypotheses remember what they have covered."""
        past_future = self.model.past_future
        return past_future is not None and past_future.coverage is not None

    def forward(
        self,
        last: Int[Tensor, "b n"],
        source_mask: Bool[Tensor, "b i"],
        past: Float[Tensor, "b n l 2 k t e"],
        *others: Tensor,
    ) -> tuple[Tensor, ...]:
        """Computes what Seq2Seq.step does, with memory that is given and returned.

        The others are what is covered (b n i), if the model remembers that, and all that the
        encoder returned. Returns logits, the longer past and, where the model has them, what is
        covered now and the assignments.
        """
        before = others[0].flatten(0, 1) if self.covers else None
        memory, *votes = others[self.covers :]
        # Nothing but their type is read of the states: all that steps need was made of them.
        source = Source(memory[:, 0, 0, 0], source_mask, memory.unbind(1), tuple(votes))
        decoded, grown = self._decode(source, last, past)
        begins = last == SENTENCEPIECE_IDS.bos
        read = self.model.read_step(source, last, decoded, before, begins=begins)
        logits = self.model.logits(read.holistic)
        now = None if read.covered is None else read.covered.unflatten(0, last.shape)
        found = (logits, grown, now, read.signals.assignments)
        return tuple(each for each in found if each is not None)

    def _decode(
        self, source: Source, last: Int[Tensor, "b n"], past: Float[Tensor, "b n l 2 k t e"]
    ) -> tuple[Decoded, Float[Tensor, "b n l 2 k s e"]]:
        """Runs the layers, as Transformer.step does."""
        ours = self.model.backbone
        assert isinstance(ours, Transformer)
        wanted = source.mask[:, None, None]
        x = ours.target_embedding(last.reshape(-1, 1), past.shape[5])
        kept = []
        for number, layer in enumerate(cast("list[DecoderLayer]", ours.decoder)):
            own = past[:, :, number].flatten(0, 1)
            seen, own = _read_past(layer.self_attention, layer.self_norm(x), own)
            kept.append(own.unflatten(0, last.shape))
            x = layer.self_end(x + seen).view(*last.shape, -1)
            x, _ = layer.read_source(x, source.memory[number], wanted, explain=False)
            x = x.view(-1, 1, ours.d_model)
        states = ours.decoder_norm(x).view(*last.shape, -1)
        return Decoded(states), torch.stack(kept, dim=2)


def _read_past(
    attention: SelfAttention, x: Float[Tensor, "r 1 d"], past: Float[Tensor, "r 2 k t e"]
) -> tuple[Float[Tensor, "r 1 d"], Float[Tensor, "r 2 k s e"]]:
    """Attends to the token itself and those before; returns their keys and values, too."""
    qkv = attention.qkv(x).view(-1, 3, attention.heads, 1, past.shape[-1])
    memory = torch.cat([past, qkv[:, 1:]], dim=3)
    keys, values = memory.unbind(1)
    context = F.scaled_dot_product_attention(qkv[:, 0], keys, values)
    return attention.out(context.transpose(1, 2).flatten(2)), memory
