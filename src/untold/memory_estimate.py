"""Estimates the memory that models, training and search need, and refuses what cannot fit.

A process that takes more memory than there is gets killed without a word. The estimates are low:
they count what is certainly needed, so that nothing is refused that would have worked.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from untold.cgroups import ROOT, cgroups, read_text
from untold.config import Config, DecodeConfig, ModelConfig
from untold.errors import UntoldError
from untold.models.build import build_model

__all__ = [
    "ModelSize",
    "SearchCost",
    "Vocabularies",
    "check_loading",
    "check_training",
    "estimate_search",
    "measure_model",
    "physical_memory",
]

_FLOAT = 4  # bytes
_SHORTEST = 10  # tokens that a translation may have, however short its source and max_ratio
_ARITHMETIC = {"mul", "mul_", "div", "div_", "normal_", "uniform_"}


@dataclass(frozen=True)
class Vocabularies:
    """Holds the sizes of both vocabularies, source first; `joint` means that they are one."""

    sizes: tuple[int, int]
    joint: bool


@dataclass(frozen=True)
class ModelSize:
    """Counts the parameters of a model, and the numbers that one token leaves for the gradient."""

    parameters: int
    activations: int


@dataclass(frozen=True)
class SearchCost:
    """Says how many tokens of decode.batch_tokens the memory of one sentence is worth."""

    of_sentence: float
    of_token: float  # for each token that its translation may have


def physical_memory(root: Path = ROOT) -> int:
    """Returns the bytes that this process may use: those of the machine, or of its cgroup."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for each in cgroups("memory", root):
        texts = (read_text(each / name) for name in ("memory.max", "memory.limit_in_bytes"))
        found += [int(text) for text in texts if text.isdigit()]
    return min(found)


def measure_model(config: ModelConfig, vocabularies: Vocabularies) -> ModelSize | None:
    """Builds a model without memory for its weights and measures it.

    None: a backbone of another package cannot be built so.
    """
    counterparts = [0] * vocabularies.sizes[0] if config.copying else None
    try:
        with torch.device("meta"), _WithoutValues():
            model = build_model(
                config,
                vocabularies.sizes,
                shared=vocabularies.joint,
                counterparts=counterparts,
            )
    except (NotImplementedError, RuntimeError, TypeError):
        return None
    linear = (each for each in model.modules() if isinstance(each, nn.Linear))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return ModelSize(parameters, sum(each.out_features for each in linear))


def check_loading(config: ModelConfig, vocabularies: Vocabularies, where: str) -> None:
    """Refuses a model whose weights do not fit, twice: they are read from a file and copied."""
    size = measure_model(config, vocabularies)
    if size is not None:
        what = f"{where}: a model of this shape ({_shape(config, vocabularies)})"
        cure = "use a larger machine, or mend config.json"
        _refuse_beyond(physical_memory(), what, {"weights": 2 * size.parameters}, cure)


def check_training(
    config: Config,
    vocabularies: Vocabularies,
    device: torch.device,
    tokens: int = 0,
    shards: int = 1,
) -> None:
    """Refuses to train a model whose weights, optimizer and one batch of tokens do not fit.

    So many processes share weights and optimizer, each with a device of its own.
    """
    size = measure_model(config.model, vocabularies)
    if size is None:
        return
    samples = config.train.sequence.samples if config.train.sequence.is_on else 1
    # weights, gradients and two means of Adam
    parts = {"weights and optimizer": 4 * size.parameters // shards}
    parts["one batch"] = tokens * samples * size.activations
    if config.train.freeze_backbone:  # then little is trained, and little kept
        parts = {"weights": size.parameters // shards}
    what = f"training a model of this shape ({_shape(config.model, vocabularies)})"
    cure = "lower the sizes in [model], tokenizer.size or train.batch_tokens"
    _refuse_beyond(_memory_of(device), what, parts, cure)


def estimate_search(
    decode: DecodeConfig, models: Sequence[ModelConfig], vocabulary: int, device: torch.device
) -> SearchCost:
    """Estimates what one sentence costs a search; refuses a beam that no sentence can have.

    A hypothesis has a score for each word of the vocabulary, and keys and values for each token
    and layer of the decoder if the backbone keeps them. A step holds each of them twice.
    """
    hypotheses = decode.nbest if decode.sample else decode.beam
    cached = sum(_width(config) * getattr(config, "decoder_layers", 0) for config in models)
    of_token = 2 * hypotheses * 2 * cached
    shortest = min(_SHORTEST, decode.max_length)
    of_sentence = 2 * hypotheses * vocabulary * len(models) + shortest * of_token
    memory = _memory_of(device)
    setting = "decode.nbest" if decode.sample else "decode.beam"
    what = f"a search with {setting} = {hypotheses} and a vocabulary of {vocabulary:,}"
    _refuse_beyond(memory, what, {"one sentence": of_sentence}, f"lower {setting}")
    unit = _FLOAT * decode.batch_tokens / (memory / 2)  # leaves half of the memory
    return SearchCost(unit * of_sentence, unit * of_token)


class _WithoutValues(TorchFunctionMode):
    """Skips whatever fills tensors with values.

    Arithmetic with tensors without memory would import torch's compiler, which takes seconds.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        is_filling = getattr(func, "__name__", "") in _ARITHMETIC
        if is_filling and sum(isinstance(each, Tensor) for each in args) == 1:
            return next(each for each in args if isinstance(each, Tensor))
        return func(*args, **named)


def _refuse_beyond(memory: int, what: str, parts: dict[str, int], cure: str) -> None:
    """Refuses parts, as numbers of floats, that together take more than the memory."""
    sizes = {name: _FLOAT * count for name, count in parts.items() if count}
    if sum(sizes.values()) > memory:
        needed = " and ".join(f"{size / 1e9:,.1f} GB for {name}" for name, size in sizes.items())
        raise UntoldError(f"{what} needs about {needed}; there are {memory / 1e9:,.1f} GB: {cure}")


def _memory_of(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return physical_memory()


def _shape(config: ModelConfig, vocabularies: Vocabularies) -> str:
    sizes = vocabularies.sizes[: 1 if vocabularies.joint else 2]
    words = " + ".join(f"{size:,}" for size in sizes)
    shape = [f"{name} {value}" for name, value in config.describe().items()]
    return ", ".join([*shape, f"vocabulary {words}"])


def _width(config: ModelConfig) -> int:
    return getattr(config, "d_model", 0)
