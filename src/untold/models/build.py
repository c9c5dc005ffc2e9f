"""From a configuration to a model: the one list of backbones."""

from collections.abc import Callable, Sequence

from torch import nn

from untold.config import ModelConfig
from untold.corpus.tokenizer import Tokenizers
from untold.corpus.vocabulary import BOS, EOS, PAD, UNK
from untold.errors import UntoldError
from untold.models.backbone import Backbone, Widths
from untold.models.copy_mechanism import CopyLayer
from untold.models.past_future import PastFuture
from untold.models.rnmt import Rnmt
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import Transformer

__all__ = ["BACKBONES", "build_model", "build_model_for"]

# A backbone is built from its configuration, (source, target) vocabulary sizes and `shared`.
BACKBONES: dict[str, Callable[..., Backbone]] = {
    "transformer": Transformer,
    "rnmt": Rnmt,
    "pfrnn": Rnmt,
}


def build_model_for(tokenizers: Tokenizers, config: ModelConfig) -> Seq2Seq:
    """An untrained model of these vocabularies."""
    sizes = (len(tokenizers.source), len(tokenizers.target))
    same = tokenizers.counterparts() if config.copying and not tokenizers.joint else None
    return build_model(config, sizes, shared=tokenizers.joint, counterparts=same)


def build_model(
    config: ModelConfig,
    vocabularies: tuple[int, int],
    *,
    shared: bool,
    counterparts: Sequence[int] | None = None,
) -> Seq2Seq:
    """An untrained model; its weights come from torch's global generator.

    `counterparts` of source ids among the target's are what copying needs to know of two
    vocabularies: see CopyLayer.
    """
    backbone = BACKBONES[config.backbone](config, vocabularies, shared=shared)
    past_future, copy_layer = None, None
    if config.separator.kind != "none":
        past_future = PastFuture(config, backbone.widths, vocabularies)
    if config.copying:
        if counterparts is None:
            counterparts = _themselves(vocabularies[0], shared=shared)
        copy_layer = CopyLayer(backbone.widths, counterparts, PAD)
    # The head comes last: all else is drawn as it would be without it.
    head = _word_head(backbone.widths) if config.word_prediction else None
    return Seq2Seq(backbone, past_future, copy_layer, head)


def _word_head(widths: Widths) -> nn.Linear:
    head = nn.Linear(widths.state, widths.output, bias=False)
    nn.init.xavier_uniform_(head.weight)
    return head


def _themselves(size: int, *, shared: bool) -> list[int]:
    """In one vocabulary every word is its own counterpart; control tokens have none."""
    if not shared:
        raise UntoldError("copying between two vocabularies needs the counterparts of their pieces")
    return [PAD if token in (PAD, UNK, BOS, EOS) else token for token in range(size)]
