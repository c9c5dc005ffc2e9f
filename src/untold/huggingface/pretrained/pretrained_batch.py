"""Turns the tensors that transformers feeds a model into the values that untold's losses read.

What a tokenizer puts around a text is left out, as in all of untold: no capsule holds it.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from untold.corpus.batching import Batch
from untold.corpus.vocabulary import SpecialIds
from untold.errors import UntoldError
from untold.huggingface.pretrained.pretrained_config import PastFutureConfig

__all__ = [
    "FramedSource",
    "TextFrame",
    "count_labels",
    "frame_embedded",
    "frame_source",
    "make_batch",
]

_IGNORED = -100  # marks padding in labels


@dataclass(frozen=True)
class TextFrame:
    """Says what a model reads beside text."""

    source: SpecialIds
    target: SpecialIds
    before: tuple[int, ...]  # ids before every source
    after: tuple[int, ...]  # ids after the end of every source
    hidden: int  # positions before that of BOS, where nothing is separated
    longest: int | None  # positions of either side; None means any number

    @classmethod
    def of(cls, config: PastFutureConfig) -> "TextFrame":
        """Takes it from a configuration, once: checking settings takes time."""
        shape, sides = config.shape, (config.special("source"), config.special("target"))
        around = shape.source_before, shape.source_after
        return cls(*sides, *around, len(shape.target_before), shape.longest)

    def check_length(self, length: int) -> None:
        """Refuses more tokens than there are positions."""
        if self.longest is not None and length > self.longest:
            raise UntoldError(
                f"{length} tokens with all that the tokenizer adds: the positions of the model end "
                f"at {self.longest}: divide the text, or lower max_new_tokens"
            )


@dataclass(frozen=True)
class FramedSource:
    """Holds sources as a tokenizer writes them, with language codes and the like."""

    ids: Int[Tensor, "b f"] | None  # padding is the id of padding; None: embeddings were given
    real: Bool[Tensor, "b f"]  # False at padding
    places: Int[Tensor, "b i"]  # where the pieces of the text and its EOS are, row by row
    mask: Bool[Tensor, "b i"]  # False where a row has no more of them

    def pick(self, states: Float[Tensor, "b f d"]) -> Float[Tensor, "b i d"]:
        """Returns the states of the text alone."""
        return states.gather(1, self.places[:, :, None].expand(-1, -1, states.shape[2]))


def frame_source(ids: Int[Tensor, "b f"], mask: Tensor | None, frame: TextFrame) -> FramedSource:
    """Finds padding, and what a tokenizer puts around a text."""
    special, before = frame.source, ids.new_tensor(frame.before)
    real = ids != special.pad if mask is None else mask.bool()
    ids = ids.masked_fill(~real, special.pad)
    hidden = _hidden(ids, special) | ~real
    if len(before):  # a prefix of a T5 is made of ordinary pieces: only its place tells
        place = real.long().cumsum(1) - 1
        first = real & (place < len(before))
        differs = first & (ids != before[place.clamp(0, len(before) - 1)])
        hidden = hidden | (first & ~differs.any(1, keepdim=True))
    return _without(hidden, ids, real)


def frame_embedded(
    embedded: Float[Tensor, "b f d"], mask: Tensor | None, frame: TextFrame
) -> FramedSource:
    """Finds the text in embedded sources: without ids only the places of the frame tell."""
    real = torch.ones_like(embedded[..., 0], dtype=torch.bool) if mask is None else mask.bool()
    place, count = real.long().cumsum(1) - 1, real.sum(1, keepdim=True)
    hidden = ~real | (place < len(frame.before)) | (place >= count - len(frame.after))
    return _without(hidden, None, real)


def _without(
    hidden: Bool[Tensor, "b f"], ids: Int[Tensor, "b f"] | None, real: Bool[Tensor, "b f"]
) -> FramedSource:
    """Finds the places that are not hidden, row by row."""
    counts = (~hidden).sum(1, keepdim=True)
    places = hidden.int().argsort(dim=1, stable=True)[:, : max(1, int(counts.max()))]
    mask = torch.arange(places.shape[1], device=hidden.device) < counts
    return FramedSource(ids, real, places, mask)


def count_labels(labels: Int[Tensor, "b u"], frame: TextFrame) -> Int[Tensor, ""]:
    """Counts the labels that are not padding, as a trainer does."""
    return ((labels != _IGNORED) & (labels != frame.target.pad)).sum()


def make_batch(
    source: FramedSource,
    labels: Int[Tensor, "b u"],
    prefix: Int[Tensor, "b u"],
    frame: TextFrame,
) -> Batch:
    """Makes a batch; `prefix` is what the decoder reads, u positions with those of the frame."""
    special, first = frame.target, frame.hidden
    real = (labels != _IGNORED) & (labels != special.pad)
    if bool((real[:, 1:] & ~real[:, :-1]).any()):
        raise UntoldError(
            "labels are padded on the left: pad on the right (tokenizer.padding_side = 'right')"
        )
    hidden = _hidden(labels, special)
    if first and not bool(hidden[:, first - 1].all()):
        raise UntoldError(
            f"labels begin with the id {int(labels[~hidden[:, first - 1], first - 1][0])}, not "
            "with what the decoder reads first: make them with tokenizer(text_target=...)"
        )
    mask = (real & ~hidden)[:, first:]
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()) or not bool(mask.any(1).all()):
        raise UntoldError(
            "labels hold a special id in the midst of a text, or no text: make them with "
            "tokenizer(text_target=...)"
        )
    assert source.ids is not None
    words = source.ids.gather(1, source.places).masked_fill(~source.mask, frame.source.pad)
    return Batch(
        words,
        source.mask,
        prefix[:, first:].masked_fill(~mask, special.pad),
        labels[:, first:].masked_fill(~mask, special.pad),
        mask,
        torch.arange(len(labels)),
        source.mask & (words != frame.source.eos),
        special,
    )


def _hidden(ids: Int[Tensor, "b t"], special: SpecialIds) -> Bool[Tensor, "b t"]:
    """Finds the ids that are no part of a text, nor its end."""
    return torch.isin(ids, ids.new_tensor(sorted(special.control - {special.eos})))
