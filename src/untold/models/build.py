"""Builds untrained models from configurations."""

from collections.abc import Sequence

import torch
from torch import nn

from untold.config.model import BACKBONES, ModelConfig
from untold.corpus.tokenizer import SENTENCEPIECE_IDS, SpecialIds, Tokenizers
from untold.errors import UntoldError
from untold.models.backbone import Backbone, Widths
from untold.models.copy_mechanism import CopyLayer
from untold.models.past_future import PastFuture
from untold.models.seq2seq import Seq2Seq


def build_model_for(tokenizers: Tokenizers, config: ModelConfig) -> Seq2Seq:
    """Builds an untrained model for the vocabularies of these tokenizers."""
    sizes = (len(tokenizers.source), len(tokenizers.target))
    return build_model(
        config,
        sizes,
        shared=tokenizers.joint,
        counterparts=tokenizers.counterparts() if config.copying else None,
        special_ids=tokenizers.target.special_ids,
    )


def build_model(
    config: ModelConfig,
    vocabularies: tuple[int, int],
    *,
    shared: bool,
    counterparts: Sequence[int] | None = None,
    special_ids: SpecialIds = SENTENCEPIECE_IDS,
) -> Seq2Seq:
    """Builds an untrained model; its weights come from torch's global generator.

    `vocabularies` are the sizes, source first. `counterparts` maps source ids to target ids of the
    same piece; copying between two vocabularies needs it (see CopyLayer). `special_ids` are those
    of the target.
    """
    backbone: Backbone = BACKBONES[config.backbone](config, vocabularies, shared=shared)
    if config.output_bias:
        backbone.output_bias = nn.Parameter(torch.zeros(vocabularies[1]))
    past_future, copy_layer = None, None
    if config.separator.kind != "none":
        past_future = PastFuture(config, backbone.widths, vocabularies)
    if config.copying:
        if counterparts is None:
            counterparts = _themselves(vocabularies[0], special_ids, shared=shared)
        copy_layer = CopyLayer(backbone.widths, counterparts, special_ids.pad)
    # The head comes last, so that all other weights are drawn as they would be without it.
    head = _word_head(backbone.widths) if config.word_prediction else None
    return Seq2Seq(backbone, past_future, copy_layer, head)


def _word_head(widths: Widths) -> nn.Linear:
    head = nn.Linear(widths.state, widths.output, bias=False)
    nn.init.xavier_uniform_(head.weight)
    return head


def _themselves(size: int, special_ids: SpecialIds, *, shared: bool) -> list[int]:
    """Maps every word to itself, in one vocabulary; control tokens have no counterpart."""
    if not shared:
        raise UntoldError("copying between two vocabularies needs the counterparts of their pieces")
    uncopied = special_ids.control | {special_ids.unk}
    return [special_ids.pad if token in uncopied else token for token in range(size)]
