"""The copy mechanism: the output layer may repeat source words, such as names and numbers.

    a_t[i] = softmax over copyable i of <Q o_t, K h_i> / sqrt(c)     which word
    g_t    = sigmoid(w . [o_t; sum_i a_t[i] h_i] + bias)             whether to copy at all
    p(y)   = (1 - g_t) softmax(E o_t)[y] + g_t (sum of a_t[i] over the i whose word is y)

A source word can be copied if the target vocabulary has the same piece; special ids never are.
Where a sentence has nothing to copy, g is zero. The gate begins the same for all words and nearly
shut (`GATE_BIAS`): a model built on a trained one then begins nearly as that model, since p(y) of
every word keeps at least the share 1 - sigmoid(GATE_BIAS). Letters as in layers.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from untold.models.backbone import Source, Widths

GATE_BIAS = -4.0  # at first: open enough for names to push it, under 2 % for other words
TINY = torch.finfo(torch.float32).tiny  # a probability below it counts as zero


@dataclass(frozen=True)
class Copied:
    """Holds the probability of copying each source word at every target position (or beam) t."""

    ids: Int[Tensor, "b i"]  # the target id of each source word; PAD if it cannot be copied
    first: Int[Tensor, "b i"]  # the first position of the same word
    weights: Float[Tensor, "b t i"]  # g a: the probability of copying each source word
    generating: Float[Tensor, "b t"]  # log(1 - g)

    def at(self, rows: Int[Tensor, " r"], steps: Int[Tensor, " r"]) -> "Copied":
        """Selects positions, each as a sentence of its own of length one."""
        return Copied(
            self.ids[rows],
            self.first[rows],
            self.weights[rows, steps][:, None],
            self.generating[rows, steps][:, None],
        )

    def probability(self, labels: Int[Tensor, "b t"]) -> Float[Tensor, "b t"]:
        """Returns the probability of copying each label from anywhere in the source."""
        return (self.weights * (self.ids[:, None] == labels[..., None])).sum(-1)

    def mix(self, logits: Float[Tensor, "b t v"]) -> Float[Tensor, "b t v"]:
        """Returns log p(y) of the mixture, given the logits of generating.

        Only the words of the source are touched. Log-probabilities are logits, too: their
        log-softmax changes nothing.
        """
        generated = logits.log_softmax(-1) + self.generating[..., None]
        ids, first = (part[:, None].expand(self.weights.shape) for part in (self.ids, self.first))
        mass = torch.zeros_like(self.weights).scatter_add(-1, first, self.weights)
        # log(p + m) = log p + softplus(log m - log p), once for each word
        more = F.softplus(mass.clamp(min=TINY).log() - generated.gather(-1, ids))
        return generated.scatter_add(-1, ids, more.masked_fill(mass < TINY, 0.0))


class CopyLayer(nn.Module):
    """Decides whether to copy and which source word; generating is left to the output layer."""

    def __init__(self, widths: Widths, counterparts: Sequence[int], pad: int) -> None:
        """`counterparts` maps each source id to the target id of the same piece, or to `pad`."""
        super().__init__()
        self.pad = pad
        self.counterparts = nn.Buffer(torch.tensor(counterparts), persistent=False)
        self.key = nn.Linear(widths.source, widths.output, bias=False)
        self.query = nn.Linear(widths.output, widths.output, bias=False)
        self.cue = nn.Linear(widths.source, 1, bias=False)  # the gate's weights of the context
        self.gate = nn.Linear(widths.output, 1)
        self.scale = widths.output**-0.5
        nn.init.xavier_uniform_(self.key.weight)
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.zeros_(self.cue.weight)
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, GATE_BIAS)

    def cast(self, source: Source, ids: Int[Tensor, "b i"]) -> Source:
        """Adds to the source all that copying needs to know of it."""
        copies = self.counterparts[ids].masked_fill(~source.mask, self.pad)
        first = (copies[:, :, None] == copies[:, None]).byte().argmax(-1)  # of equals the first
        keys, cues = self.key(source.states) * self.scale, self.cue(source.states)
        return replace(source, copies=(copies, first, keys, cues))

    def forward(self, source: Source, holistic: Float[Tensor, "b t o"]) -> Copied:
        """Computes the copy distribution of each position, on a source that was cast."""
        ids, first, keys, cues = source.copies
        copyable = (ids != self.pad)[:, None]
        scores = self.query(holistic) @ keys.transpose(1, 2)
        # Not -inf: a sentence without anything to copy has weights of zero, not NaN.
        lowest = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~copyable, lowest).softmax(-1) * copyable
        gate = (self.gate(holistic) + weights @ cues).to(weights.dtype)
        generating = F.logsigmoid(-gate).squeeze(-1).masked_fill(~copyable.any(-1), 0.0)
        return Copied(ids, first, weights * gate.sigmoid(), generating)
