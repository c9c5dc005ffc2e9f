"""Hugging Face encoder-decoders as backbones; transformers is imported here alone, when needed.

    from untold.huggingface import PastFutureForConditionalGeneration
    model = PastFutureForConditionalGeneration.from_backbone("path or name of the hub")

is a model of transformers with past and future. It is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from untold.huggingface.generation_past_future import PastFutureForConditionalGeneration

__all__ = ["PastFutureForConditionalGeneration"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'untold.huggingface' has no attribute {name!r}")
    return getattr(import_module("untold.huggingface.generation_past_future"), name)
