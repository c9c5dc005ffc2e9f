"""Small models of untold with sentencepiece vocabularies, for tests of exports."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from huggingface_toys import LINES
from toys import collate
from untold.config import TokenizerConfig, parse_config
from untold.corpus.tokenizer import Tokenizers
from untold.corpus.vocabulary import train_tokenizers
from untold.models.build import build_model_for
from untold.storage.model_directory import TrainedModel

# Spaces, rare characters and unknown ones; what a tokenizer of transformers strips is left out.
TEXTS = [*LINES, "the  dog x Q", "cat", "ein Hund sieht die Katze , und die Katze liest ."]
TARGETS = [
    *LINES[:0:-1],
    "die Katze liest .",
    "ein Hund",
    "Katze",
    "das alte Buch , und die Katze .",
]


def one_fast(forms: Iterable[str]) -> list[Any]:
    """Marks all forms but the first as slow."""
    first, *others = forms
    return [first, *(pytest.param(form, marks=pytest.mark.slow) for form in others)]


DECODE = {"length_penalty": 0.0, "max_length": 60, "max_ratio": 50.0}
SHAPE = {"d_model": 32, "d_ffn": 48, "heads": 4, "encoder_layers": 2, "decoder_layers": 3}
SHAPE |= {"dropout": 0.0}


@cache
def vocabularies(kind: str = "bpe", *, joint: bool = True, bytes_too: bool = False) -> Tokenizers:
    size = 330 if bytes_too else 70
    config = TokenizerConfig(size=size, kind=kind, joint=joint, byte_fallback=bytes_too)
    return train_tokenizers(config, LINES[:3], LINES[1:])


def toy_trained(
    tokenizers: Tokenizers | None = None, *, updates: int = 80, **model: Any
) -> TrainedModel:
    """A model that has learnt a few pairs by heart, so that every search finds the same."""
    tokenizers = tokenizers or vocabularies()
    shape = {"backbone": "transformer", **SHAPE, "output_bias": True, **model}
    config = parse_config({"model": shape, "decode": DECODE})
    torch.manual_seed(3)
    made = build_model_for(tokenizers, config.model)
    sides = [
        side.encode(texts)
        for side, texts in ((tokenizers.source, TEXTS), (tokenizers.target, TARGETS))
    ]
    batch = collate(list(zip(*sides, strict=True)), range(len(TEXTS)))
    optimizer = torch.optim.Adam(made.parameters(), lr=5e-3)
    for _ in range(updates):
        optimizer.zero_grad()
        outputs = made(batch.source, batch.source_mask, batch.prefix)
        logits = made.logits(outputs.holistic[batch.target_mask])
        F.cross_entropy(logits, batch.labels[batch.target_mask]).backward()
        optimizer.step()
    return TrainedModel(made.eval(), config, tokenizers)
