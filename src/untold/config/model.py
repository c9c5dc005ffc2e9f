"""Settings that every model has, whatever its backbone, and the registry of backbones.

Each backbone adds its own keys, presets and checks in a subclass of `ModelConfig` that lives beside
the network and is named by the network's `config_class`. Validating `ModelConfig` picks the
subclass by the value of `backbone`, and imports the backbone's module to do so.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from untold.config.section import DropRate, Section, Width, with_preset
from untold.errors import UntoldError, shorten
from untold.registry import Registry

# The parts are subclasses of untold.models.backbone.Backbone; naming them as text keeps torch out.
BACKBONES: Registry[Any] = Registry(
    "backbone",
    "untold.backbones",
    {
        "transformer": "untold.models.transformer:Transformer",
        "rnmt": "untold.models.rnmt:Rnmt",
        "pfrnn": "untold.models.pfrnn:Pfrnn",
        "huggingface": "untold.huggingface.backbone:HuggingFaceBackbone",
    },
)

# The parts are subclasses of untold.models.routing.Separator.
SEPARATORS: Registry[Any] = Registry(
    "separator",
    "untold.separators",
    {
        "gdr": "untold.models.routing:GuidedRouting",
        "clf": "untold.models.separators:ClassifierSeparator",
        "attn": "untold.models.separators:AttentionSeparator",
    },
)

SEPARATOR_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "paper": {
        "coverage": False,
        "token_coverage": False,
        "lexicon": 0,
    },
}


Capsules = Annotated[int, Field(ge=1, le=256)]


class SeparatorConfig(Section):
    """Says how source words are separated into past, future and redundant.

    The preset `paper` is the form of the paper; the default separates best (docs/results.md).
    """

    kind: str = "none"
    """What separates past from future: none, gdr, clf, attn, or one of another package."""
    preset: Literal["default", "paper"] = "default"
    """Where the other defaults come from; paper is the form of the paper."""
    past: Capsules = 2
    """Capsules that hold what was translated."""
    future: Capsules = 2
    """Capsules that hold what is still to be translated."""
    redundant: Annotated[int, Field(ge=0, le=256)] = 2
    """Capsules for words that need no translation; attn has none."""
    d_capsule: Width | None = None
    """The width of one capsule; unset, it is half the width that the output layer reads."""
    num_iterations: Annotated[int, Field(ge=1, le=100)] = 3
    """Rounds of routing (gdr)."""
    coverage: bool = True
    """Whether routing starts from what the steps before have covered (gdr)."""
    token_coverage: bool = True
    """Whether coverage also reads the token just said, and counts it (gdr)."""
    lexicon: Annotated[int, Field(ge=0, le=65_536)] = 64
    """The width of the lexicon that teaches links between words; 0 means no lexicon."""

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, data: Any) -> Any:
        return with_preset(data, SEPARATOR_PRESETS, cls.model_fields["preset"].default)

    @field_validator("kind")
    @classmethod
    def _is_registered(cls, value: str) -> str:
        if value != "none" and value not in SEPARATORS:
            raise ValueError(f"{SEPARATORS.unknown(value)}, none")
        return value

    @property
    def agreement(self) -> Literal["dot", "mlp"]:
        """How a vote is compared with a capsule (gdr): by a product, or by the paper's network."""
        return "mlp" if self.preset == "paper" else "dot"

    @property
    def fusion(self) -> Literal["ffn", "linear"]:
        """How capsules join the decoder state: by a linear map, or by the paper's network."""
        return "ffn" if self.preset == "paper" else "linear"

    @property
    def capsule_scale(self) -> bool:
        """Whether each capsule is multiplied by a learnt factor."""
        return self.preset != "paper"

    @property
    def backbone_gradient(self) -> float:
        """The share of the separator's gradient that reaches the backbone."""
        return 1.0 if self.preset == "paper" else 0.2

    @property
    def counts(self) -> tuple[int, int, int]:
        """Counts the capsules of each category; attention cannot call a word redundant."""
        return self.past, self.future, 0 if self.kind == "attn" else self.redundant


class ModelConfig(Section):
    """The settings that all models share; each backbone adds its own in a subclass.

    A subclass sets the default of `backbone` to the name that it is registered under, and `presets`
    to values that fill in what is not written out.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    # Keys that older versions wrote for every backbone, with the one value that they could have.
    legacy_keys: ClassVar[Mapping[str, Any]] = {}

    backbone: str = "transformer"
    """The network: transformer, rnmt, pfrnn, huggingface, or one of another package."""
    preset: str = "base"
    """The name of a set of sizes; sizes that are written out win."""
    d_ffn: Width = 2048
    """The inner width of feed-forward layers, and of the paper's fusion of capsules."""
    dropout: DropRate = 0.1
    """The probability that a number is zeroed in training."""
    copying: bool = False
    """Whether the output layer may copy source words, such as names and numbers."""
    output_bias: bool = False
    """Whether the output layer adds a learned bias to the logits."""
    separator: SeparatorConfig = SeparatorConfig()
    """How source words are separated into past, future and redundant."""
    word_prediction: bool = False
    """Whether the model has the head that train.word_prediction trains, and asks for."""

    @model_validator(mode="wrap")
    @classmethod
    def _choose_class(cls, data: Any, handler: Callable[[Any], Any]) -> Any:
        if cls is not ModelConfig or not isinstance(data, dict):
            return handler(data)
        name = data.get("backbone", cls.model_fields["backbone"].default)
        if not isinstance(name, str) or name not in BACKBONES:
            return handler({"backbone": name})  # which refuses it
        return model_config_class(name).model_validate(data)

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        filled = with_preset(data, cls.presets, cls.model_fields["preset"].default)
        return cls.drop_legacy_keys(filled)

    @field_validator("backbone")
    @classmethod
    def _is_registered(cls, value: str) -> str:
        if value not in BACKBONES:
            raise ValueError(BACKBONES.unknown(value))
        own = cls.model_fields["backbone"].default
        if cls is not ModelConfig and value != own:
            raise ValueError(f"{cls.__name__} configures the backbone {own}: write {own}")
        return value

    @field_validator("preset")
    @classmethod
    def _is_a_preset(cls, value: str) -> str:
        fields = cls.model_fields
        if value in cls.presets or value == fields["preset"].default:
            return value
        known = ", ".join(cls.presets) or "no presets: leave preset out"
        raise ValueError(f"{fields['backbone'].default} has {known}")

    @classmethod
    def drop_legacy_keys(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Drops keys that mean nothing to this backbone; refuses those that ask for something."""
        backbone = cls.model_fields["backbone"].default
        for key, neutral in cls.legacy_keys.items():
            if key in values and values[key] != neutral:
                raise ValueError(
                    f"{key} {shorten(values[key])} means nothing to {backbone}: leave {key} out"
                )
        return {key: value for key, value in values.items() if key not in cls.legacy_keys}

    @property
    def most_tokens(self) -> int | None:
        """Bounds the pieces of a side that the network can read; None: it can read any number."""
        return None

    def starting_from(self, other: "ModelConfig") -> "ModelConfig":  # noqa: ARG002
        """Returns these settings for a run that begins with the weights of another model.

        Most backbones are described by their settings alone; one that is not takes over the rest.
        """
        return self

    def describe(self) -> dict[str, str]:
        """Describes the shape of the network for `untold info`: names and values."""
        shared = ModelConfig.model_fields
        own = {name: getattr(self, name) for name in type(self).model_fields if name not in shared}
        return {"shape": ", ".join(f"{name} {value}" for name, value in own.items())}


def model_config_class(backbone: str) -> type[ModelConfig]:
    """Imports a backbone and returns the class of its configuration."""
    found = getattr(BACKBONES[backbone], "config_class", None)
    if isinstance(found, type) and issubclass(found, ModelConfig) and found is not ModelConfig:
        return found
    raise UntoldError(
        f"backbone {backbone}: its class names no config_class: set it to a subclass of ModelConfig"
    )
