"""The settings of a Hugging Face encoder-decoder, most of which its folder fills in."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from untold.config.model import ModelConfig
from untold.config.section import as_tuple
from untold.errors import UntoldError, shorten

TokenIds = Annotated[
    tuple[Annotated[int, Field(ge=0, le=100_000_000)], ...], BeforeValidator(as_tuple)
]
LanguageCode = Annotated[str, Field(max_length=100)]


class HuggingFaceConfig(ModelConfig):
    """The settings of a Hugging Face encoder-decoder; `--init hf:PATH` fills most of them in."""

    backbone: str = "huggingface"
    source_language: LanguageCode = ""
    """The code of the source language as the tokenizer writes it, for multilingual models."""
    target_language: LanguageCode = ""
    """The code of the target language as the tokenizer writes it, for multilingual models."""
    source_prefix: Annotated[str, Field(max_length=1000)] = ""
    """Text that the encoder reads before every source, such as the task of a T5."""
    architecture: dict[str, Any] = Field(default_factory=dict)
    """The configuration of the Hugging Face model; --init hf:PATH fills it in."""
    source_before: TokenIds = ()
    """Ids that the encoder reads before a source; --init hf:PATH fills them in."""
    source_after: TokenIds = ()
    """Ids that the encoder reads after the end of a source; --init hf:PATH fills them in."""
    target_before: TokenIds = ()
    """Ids that the decoder reads before the beginning; --init hf:PATH fills them in."""

    @property
    def d_model(self) -> int:
        return self.architecture.get("d_model", 0)

    @property
    def decoder_layers(self) -> int:
        names = ("decoder_layers", "num_decoder_layers", "num_layers")
        return next((self.architecture[n] for n in names if self.architecture.get(n)), 0)

    @property
    def longest(self) -> int | None:
        """Counts the positions of a side, with all that is read there; None means any number."""
        return self.architecture.get("max_position_embeddings")

    @property
    def most_tokens(self) -> int | None:
        """Counts the pieces of text that fit the positions, beside BOS or EOS and the frame."""
        if self.longest is None:
            return None
        frames = len(self.source_before) + len(self.source_after), len(self.target_before)
        return max(1, self.longest - max(frames) - 1)

    def starting_from(self, other: ModelConfig) -> "HuggingFaceConfig":
        """Takes over all that describes the other model; what was written out here stays."""
        if not isinstance(other, HuggingFaceConfig):
            raise UntoldError(
                f'model.backbone = "huggingface" cannot start from a model with the backbone '
                f"{other.backbone}: give --init hf:PATH"
            )
        described = ("architecture", "source_before", "source_after", "target_before")
        chosen = ("source_language", "target_language", "source_prefix", "dropout", "output_bias")
        names = (*described, *(name for name in chosen if name not in self.model_fields_set))
        for name in ("source_language", "target_language", "source_prefix"):
            asked, there = getattr(self, name), getattr(other, name)
            if name in self.model_fields_set and asked != there:
                raise UntoldError(
                    f"model.{name} = {shorten(asked)}: the model of --init has {shorten(there)!r}: "
                    "leave it out"
                )
        if other.output_bias and not self.output_bias and "output_bias" in self.model_fields_set:
            raise UntoldError(
                "model.output_bias = false: the model of --init has one: leave it out"
            )
        return self.model_copy(update={name: getattr(other, name) for name in names})

    def describe(self) -> dict[str, str]:
        """Describes the model for `untold info`."""
        names = self.architecture.get("architectures") or ["no model yet"]
        described = {"wraps": shorten(names[0])}
        if self.architecture:
            described["shape"] = f"d_model {self.d_model}, decoder_layers {self.decoder_layers}"
        if self.target_language:
            described["reads and writes"] = f"{self.source_language} -> {self.target_language}"
        return described
