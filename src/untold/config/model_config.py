"""Settings of the model: its backbone, and how it tells past and future apart."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from untold.config.section import Count, CountOrZero, Fraction, Section, with_preset

__all__ = ["PRESETS", "SEPARATOR_PRESETS", "ModelConfig", "SeparatorConfig"]


_TRANSFORMER: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"d_model": 128, "d_ffn": 256, "heads": 4, "encoder_layers": 4, "decoder_layers": 4},
    "small": {"d_model": 256, "d_ffn": 1024, "heads": 4, "encoder_layers": 6, "decoder_layers": 6},
    "base": {"d_model": 512, "d_ffn": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6},
    "big": {"d_model": 1024, "d_ffn": 4096, "heads": 16, "encoder_layers": 6, "decoder_layers": 6},
}

# What a recurrent model has of the Transformer's keys, whether it is written out or not.
_RECURRENT_FIXED: Mapping[str, Any] = {
    "heads": 1,
    "decoder_layers": 1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}
_RECURRENT: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"d_embedding": 128, "d_model": 192, "d_ffn": 256},
    "small": {"d_embedding": 256, "d_model": 512, "d_ffn": 1024},
    "base": {"d_embedding": 512, "d_model": 1024, "d_ffn": 2048},
}

_RECURRENT_PRESETS = {
    name: {**shape, **_RECURRENT_FIXED, "encoder_layers": 1} for name, shape in _RECURRENT.items()
}

# By backbone, then by name.
PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "transformer": _TRANSFORMER,
    "rnmt": _RECURRENT_PRESETS,
    "pfrnn": _RECURRENT_PRESETS,
}


SEPARATOR_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {
        "agreement": "mlp",
        "coverage": False,
        "capsule_scale": False,
        "fusion": "ffn",
        "lexicon": 0,
        "backbone_gradient": 1.0,
    },
}


class SeparatorConfig(Section):
    """How source words are told apart as past, future and redundant. The preset `paper` is
    the form of the paper; the default is the one that separates best (docs/results.md)."""

    kind: Literal["none", "gdr", "clf", "attn"] = "none"
    preset: Literal["default", "paper"] = "default"
    past: Count = 2
    future: Count = 2
    redundant: CountOrZero = 2
    d_capsule: Count | None = None  # of one capsule; None: half of what the output layer reads
    num_iterations: Count = 3
    agreement: Literal["dot", "mlp"] = "dot"
    coverage: bool = True
    capsule_scale: bool = True
    fusion: Literal["ffn", "linear"] = "linear"
    backbone_gradient: Annotated[float, Field(ge=0.0, le=1.0)] = 0.2
    lexicon: CountOrZero = 64  # width of the lexicon that train.lexicon_weight trains; 0: none
    bca_direction: Literal["state_to_capsule", "capsule_to_state"] = "state_to_capsule"

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, data: Any) -> Any:
        return with_preset(data, SEPARATOR_PRESETS, cls.model_fields["preset"].default)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Capsules of each category; attention has no way to call a word redundant."""
        return self.past, self.future, 0 if self.kind == "attn" else self.redundant


class ModelConfig(Section):
    """The shape of the model. A preset fills in what is not written out beside it."""

    backbone: Literal["transformer", "rnmt", "pfrnn"] = "transformer"
    preset: Literal["tiny", "small", "base", "big"] = "base"
    d_embedding: Count | None = None  # of a recurrent model; None: d_model
    d_model: Count = 512  # of a recurrent model: of its decoder, and of each encoder direction
    d_ffn: Count = 2048
    heads: Count = 8
    encoder_layers: Count = 6
    decoder_layers: Count = 6
    dropout: Fraction = 0.1
    attention_dropout: Fraction = 0.0
    activation_dropout: Fraction = 0.0
    tie_embeddings: bool = True
    attention_coverage: Literal["none", "linguistic", "neural"] = "none"  # of recurrent models
    future_layer: Literal["gru", "gru-o", "gru-i"] = "gru-i"  # of pfrnn
    copying: bool = False  # the output layer may copy source words: names, numbers
    separator: SeparatorConfig = SeparatorConfig()
    word_prediction: bool = False  # the head that train.word_prediction trains, and asks for

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = cls.model_fields
        backbone = str(data.get("backbone", fields["backbone"].default))
        presets, preset = PRESETS.get(backbone, {}), data.get("preset", fields["preset"].default)
        if presets and preset in PRESETS["transformer"] and preset not in presets:
            raise ValueError(f"preset {preset}: {backbone} has {', '.join(presets)}")
        return with_preset(data, presets, fields["preset"].default)

    @model_validator(mode="after")
    def _keys_mean_something(self) -> "ModelConfig":
        is_transformer = self.backbone == "transformer"
        if is_transformer and self.d_embedding not in (None, self.d_model):
            raise ValueError(
                f"d_embedding {self.d_embedding}: a transformer's embeddings are as wide as "
                f"d_model, here {self.d_model}: leave d_embedding out"
            )
        fixed = {"attention_coverage": "none"} if is_transformer else dict(_RECURRENT_FIXED)
        if self.backbone != "pfrnn":
            fixed["future_layer"] = type(self).model_fields["future_layer"].default
        for key, value in fixed.items():
            if getattr(self, key) != value:
                raise ValueError(
                    f"{key} {getattr(self, key)} means nothing to {self.backbone}: leave {key} out"
                )
        return self

    @model_validator(mode="after")
    def _heads_divide(self) -> "ModelConfig":
        if self.backbone != "transformer":
            return self
        if self.d_model % self.heads:
            raise ValueError(f"d_model {self.d_model} is not a multiple of heads {self.heads}")
        if self.d_model % 2:
            raise ValueError(f"d_model {self.d_model} is odd: sinusoidal positions need it even")
        return self
