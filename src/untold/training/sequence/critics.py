"""Critic and discriminator: small networks that learn beside the model and judge its samples."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

__all__ = ["Critic", "Discriminator", "adequacy_loss"]


class Critic(nn.Module):
    """Predicts V_t, the expected reward of a translation, from the state before its token t.

    It starts at one half everywhere.
    """

    def __init__(self, d_model: int, d_judge: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_model, d_judge)
        self.value = nn.Linear(d_judge, 1)
        nn.init.zeros_(self.value.weight)
        nn.init.constant_(self.value.bias, 0.5)

    def forward(self, states: Float[Tensor, "n t d"]) -> Float[Tensor, "n t"]:
        """Detaches the states: the model gets no gradient from its critic."""
        return self.value(F.relu(self.hidden(states.detach()))).squeeze(-1)


class Discriminator(nn.Module):
    """Estimates the share, from 0 to 1, of the source words that a translation translates.

    Each source word looks for its translation with one attention over the target words; both sides
    are read with a window of three words.
    """

    def __init__(
        self, vocabularies: tuple[int, int], padding: tuple[int, int], d_judge: int
    ) -> None:
        """`vocabularies` are the sizes, `padding` the padding ids of source and target."""
        super().__init__()
        self.source_words, self.target_words = (
            nn.Embedding(size, d_judge, padding_idx=pad)
            for size, pad in zip(vocabularies, padding, strict=True)
        )
        self.source_reader, self.target_reader = (
            nn.Conv1d(d_judge, d_judge, 3, padding=1) for _ in vocabularies
        )
        self.hidden = nn.Linear(3 * d_judge, d_judge)
        self.told = nn.Linear(d_judge, 1)

    def forward(
        self,
        source: Int[Tensor, "n i"],
        source_mask: Bool[Tensor, "n i"],
        target: Int[Tensor, "n t"],
        target_mask: Bool[Tensor, "n t"],
    ) -> Float[Tensor, " n"]:
        """Estimates the adequacy of each pair; padding changes nothing."""
        words = _read(self.source_words, self.source_reader, source, source_mask)
        said = _read(self.target_words, self.target_reader, target, target_mask)
        scores = torch.einsum("nid,ntd->nit", words, said) / words.shape[-1] ** 0.5
        shares = scores.masked_fill(~target_mask[:, None], -torch.inf).softmax(-1)
        found = torch.einsum("nit,ntd->nid", shares, said)
        features = torch.cat([words, found, words * found], dim=-1)
        translated = self.told(F.relu(self.hidden(features))).squeeze(-1).sigmoid()
        return (translated * source_mask).sum(1) / source_mask.sum(1)


def adequacy_loss(
    estimates: Float[Tensor, " n"], truth: Float[Tensor, " n"], weights: Float[Tensor, " n"]
) -> Float[Tensor, ""]:
    """Computes the weighted binary cross entropy; it is least where an estimate is the truth."""
    with torch.autocast(estimates.device.type, enabled=False):
        return F.binary_cross_entropy(
            estimates.to(truth.dtype), truth.clamp(0, 1), weights, reduction="sum"
        )


def _read(
    embedding: nn.Embedding, reader: nn.Conv1d, ids: Tensor, mask: Tensor
) -> Float[Tensor, "n i d"]:
    words = embedding(ids) * mask[..., None]
    return words + F.relu(reader(words.transpose(1, 2)).transpose(1, 2))
