"""From a configuration to a model: the one list of backbones."""

from collections.abc import Callable

from torch import nn

from untold.config import ModelConfig
from untold.models.backbone import Backbone, Widths
from untold.models.pastfuture import PastFuture
from untold.models.rnmt import Rnmt
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import Transformer

__all__ = ["BACKBONES", "build_model"]

# A backbone is built from its configuration, (source, target) vocabulary sizes and `shared`.
BACKBONES: dict[str, Callable[..., Backbone]] = {
    "transformer": Transformer,
    "rnmt": Rnmt,
    "pfrnn": Rnmt,
}


def build_model(config: ModelConfig, vocabularies: tuple[int, int], *, shared: bool) -> Seq2Seq:
    """An untrained model; its weights come from torch's global generator."""
    backbone = BACKBONES[config.backbone](config, vocabularies, shared=shared)
    wanted = config.separator.kind != "none"
    past_future = PastFuture(config, backbone.widths) if wanted else None
    # The head comes last: all else is drawn as it would be without it.
    head = _word_head(backbone.widths) if config.word_prediction else None
    return Seq2Seq(backbone, past_future, head)


def _word_head(widths: Widths) -> nn.Linear:
    head = nn.Linear(widths.state, widths.output, bias=False)
    nn.init.xavier_uniform_(head.weight)
    return head
