"""The configuration of a model of transformers with past and future on top of it.

It holds the backbone's own configuration and settings of untold, which untold's sections check.
"""

import copy
import difflib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from untold.config import Config, SeparatorConfig, parse_config
from untold.config.older import bring_up_to_date
from untold.corpus.tokenizer import SpecialIds
from untold.errors import UntoldError, shorten
from untold.huggingface.config import HuggingFaceConfig
from untold.huggingface.families import OWN_TYPE
from untold.huggingface.folder import LANGUAGES, HuggingFaceFolder, describe_architecture
from untold.huggingface.optional import import_transformers, quiet
from untold.huggingface.tokenizer import TokenizerUse

# Settings of [train] that say what is learnt; how it is learnt is up to the trainer.
LOSS_SETTINGS = (
    *("label_smoothing", "bow_weight", "bow_window", "bow_reduction", "bow_share"),
    *("vocabulary_share", "bca_weight", "ends_weight", "lexicon_weight", "counterfactual"),
    *("losses", "freeze_backbone"),
)
_IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "vocab_size")

_transformers: Any = import_transformers()


class PastFutureConfig(_transformers.PreTrainedConfig):
    """Describes the backbone, the separator and the losses."""

    model_type = OWN_TYPE
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values", "assignments"]

    def __init__(
        self,
        backbone: Any = None,
        settings: Mapping[str, Any] | None = None,
        special_ids: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        """Takes the backbone's configuration, sections of untold, and the special ids by side."""
        if isinstance(backbone, Mapping):
            with quiet():
                backbone = _transformers.AutoConfig.for_model(**backbone)
        self.backbone = backbone
        self.settings = dict(settings or {})
        self.special_ids = dict(special_ids or {})
        if backbone is not None:
            others = {name: getattr(backbone, name, None) for name in _IDS} | others
        others["is_encoder_decoder"] = True
        super().__init__(**others)

    @classmethod
    def of(cls, folder: HuggingFaceFolder, config: Config, backbone: Any) -> "PastFutureConfig":
        """Describes a wrapped model with these settings; `backbone` is its own configuration."""
        values, tokenizers = config.model_dump(mode="json"), folder.tokenizers
        values["model"].pop("architecture")
        values["train"] = {name: values["train"][name] for name in LOSS_SETTINGS}
        settings = {name: values[name] for name in ("model", "train", "data", "decode")}
        sides = zip(("source", "target"), tokenizers.special_ids, strict=True)
        special = {side: asdict(ids) for side, ids in sides} | {"sizes": list(tokenizers.sizes)}
        return cls(backbone=copy.deepcopy(backbone), settings=settings, special_ids=special)

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Any:
        """Returns the backbone's configuration with the sizes of the decoder, if they differ."""
        text = copy.deepcopy(self.backbone.get_text_config(decoder=decoder, encoder=encoder))
        if encoder and not decoder:
            return text
        if layers := getattr(self.backbone, "num_decoder_layers", None):
            text.num_layers = layers  # T5, whose caches would have the encoder's depth
        if size := getattr(self.backbone, "decoder_vocab_size", None):
            text.vocab_size = size  # Marian, whose scores would be read at the source's ids
        return text

    @property
    def untold(self) -> Config:
        """The settings as a configuration of untold."""
        values: dict[str, Any] = {name: dict(value) for name, value in self.settings.items()}
        values["model"]["architecture"] = describe_architecture(self.backbone)
        if values["train"].get("freeze_backbone"):
            values["train"] |= {"best_by": "loss"}
        return parse_config(bring_up_to_date(values, "config.json"), "config.json")

    @property
    def shape(self) -> HuggingFaceConfig:
        """The section [model] of the settings."""
        shape = self.untold.model
        assert isinstance(shape, HuggingFaceConfig)
        return shape

    @property
    def sizes(self) -> tuple[int, int]:
        """The rows of the embeddings, source first."""
        source, target = self.special_ids["sizes"]
        return source, target

    def special(self, side: str) -> SpecialIds:
        """Returns the special ids of the source's or the target's vocabulary."""
        values = self.special_ids[side]
        return SpecialIds(**values | {"never_generated": tuple(values["never_generated"])})

    def tokenizer_use(self) -> TokenizerUse:
        """Says how the model uses its tokenizer."""
        model = self.settings["model"]
        languages = {name: model.get(name, "") for name in LANGUAGES}
        return TokenizerUse(self.sizes, self.backbone.decoder_start_token_id, **languages)


def choose_languages(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Picks the settings that a tokenizer needs before anything is built."""
    return {name: settings[name] for name in LANGUAGES if name in settings}


def settings_with(config: Config, chosen: Mapping[str, Any]) -> Config:
    """Adds settings of the separator and of the losses, by name, to those of a wrapped model."""
    separator, losses = {"kind": "gdr"}, {}
    for name, value in chosen.items():
        if name in SeparatorConfig.model_fields:
            separator[name] = value
        elif name in LOSS_SETTINGS:
            losses[name] = value
        elif name not in LANGUAGES:
            known = (*SeparatorConfig.model_fields, *LOSS_SETTINGS, *LANGUAGES)
            close = difflib.get_close_matches(name, known, n=1)
            cure = f"did you mean {close[0]}?" if close else f"choose from {', '.join(known)}"
            raise UntoldError(f"from_backbone has no setting {shorten(name)}: {cure}")
    if separator["kind"] == "none":
        raise UntoldError(
            "kind = none separates nothing: choose gdr, clf or attn, or use the model as it is"
        )
    values = config.model_dump(mode="json")
    values["model"]["separator"] = separator
    values["train"] |= losses | ({"best_by": "loss"} if losses.get("freeze_backbone") else {})
    return parse_config(values, "from_backbone").within_limits()
