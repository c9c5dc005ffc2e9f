"""The contenders of the training race: untold, Hugging Face's Marian and JoeyNMT, all of one shape.

Each makes whole updates on the same batches: forward, smoothed loss, backward, clipping, Adam.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from untold.config import Config, parse_config
from untold.corpus.batching import Batch
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel
from untold.training.trainer import TimedUpdates
from workload import Workload

__all__ = [
    "JoeyTraining",
    "MarianTraining",
    "TrainingContender",
    "UntoldTraining",
    "huggingface_settings",
    "marian",
    "past_future_variants",
    "shape",
    "varied",
]

RATE, BETAS, EPSILON = 3e-4, (0.9, 0.98), 1e-9
SMOOTHING, CLIP = 0.1, 1.0


class TrainingContender(Protocol):
    """One model with its optimizer."""

    name: str

    def update(self, batch: Batch) -> None:
        """One optimizer step on the mean loss per target token."""
        ...


def shape(preset: str, dropout: float) -> Config:
    """The configuration that all contenders follow."""
    return parse_config(
        {
            "model": {"preset": preset, "dropout": dropout},
            "train": {"learning_rate": RATE, "clip": CLIP, "label_smoothing": SMOOTHING},
        }
    )


def past_future_variants() -> dict[str, dict[str, dict[str, Any]]]:
    """Changes of the configuration: plain, the losses of the paper alone, and the default's."""
    defaults, gdr = Config().train, {"separator": {"kind": "gdr"}}
    bow, bca = defaults.bow_weight or 0.1, defaults.bca_weight or 0.1
    beyond = {"counterfactual": 0.0, "ends_weight": 0.0, "lexicon_weight": 0.0}
    weights = {
        "GDR": (0.0, 0.0),
        "GDR + BoW": (bow, 0.0),
        "GDR + BCA": (0.0, bca),
        "GDR + BoW + BCA": (bow, bca),
    }
    of_the_paper = {
        name: {"model": gdr, "train": {"bow_weight": w[0], "bca_weight": w[1]} | beyond}
        for name, w in weights.items()
    }
    return {"plain": {}} | of_the_paper | {"GDR, default": {"model": gdr, "train": {}}}


def varied(config: Config, changes: Mapping[str, Mapping[str, Any]]) -> Config:
    """The configuration with some settings changed."""
    values = config.model_dump()
    for section, settings in changes.items():
        values[section] = values[section] | dict(settings)
    return parse_config(values)


class UntoldTraining:
    """The update that `untold train` makes."""

    name = "untold"

    def __init__(self, config: Config, vocabulary: int, workload: Workload) -> None:
        torch.manual_seed(1)
        model = build_model(config.model, (vocabulary, vocabulary), shared=True)
        self.model = model
        self._updates = TimedUpdates(TrainedModel(model, config, workload.tokenizers))

    def update(self, batch: Batch) -> None:
        """Through the trainer itself."""
        self._updates(batch)


class MarianTraining:
    """Hugging Face's MarianMT with its fused attention, torch's own loss and fused Adam."""

    name = "Hugging Face Marian"

    def __init__(self, config: Config, vocabulary: int) -> None:
        self.model = marian(config, vocabulary).train()
        self._optimizer = _adam(self.model)

    def update(self, batch: Batch) -> None:
        """One update; padding is left out of the loss by torch's ignore_index."""
        self._optimizer.zero_grad(set_to_none=True)
        logits = self.model(
            input_ids=batch.source,
            attention_mask=batch.source_mask.long(),
            decoder_input_ids=batch.prefix,
            use_cache=False,
        ).logits
        labels = batch.labels.masked_fill(~batch.target_mask, -100)
        F.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), label_smoothing=SMOOTHING
        ).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self._optimizer.step()


class JoeyTraining:
    """JoeyNMT's Transformer and its own loss. Raises ImportError where it is not installed."""

    name = "JoeyNMT"

    def __init__(self, config: Config, vocabulary: int) -> None:
        from joeynmt.batch import Batch as JoeyBatch
        from joeynmt.model import build_model as build_joey
        from joeynmt.vocabulary import Vocabulary

        words = Vocabulary([f"word{number}" for number in range(vocabulary - 4)], _joey_specials())
        self.model = build_joey(_joey_config(config), words, words).train()
        self.model.loss_function = ("crossentropy", SMOOTHING)
        self._optimizer = _adam(self.model)
        self._batch, self._vocabulary = JoeyBatch, words
        self._ids = torch.arange(vocabulary)  # from our ids to JoeyNMT's, which start otherwise
        self._ids[
            [
                SENTENCEPIECE_IDS.unk,
                SENTENCEPIECE_IDS.pad,
                SENTENCEPIECE_IDS.bos,
                SENTENCEPIECE_IDS.eos,
            ]
        ] = torch.arange(4)

    def update(self, batch: Batch) -> None:
        """One update."""
        self._optimizer.zero_grad(set_to_none=True)
        theirs = self._translated(batch)
        loss, *_ = self.model(return_type="loss", **vars(theirs))
        theirs.normalize(loss, "tokens").backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self._optimizer.step()

    def _translated(self, batch: Batch) -> Any:
        target = torch.cat([batch.prefix[:, :1], batch.labels], dim=1)
        return self._batch(
            src=self._ids[batch.source],
            src_length=batch.source_mask.sum(1),
            src_prompt_mask=None,
            trg=self._ids[target],
            trg_prompt_mask=None,
            indices=batch.indices,
            device=torch.device("cpu"),
            pad_index=self._vocabulary.pad_index,
            eos_index=self._vocabulary.eos_index,
        )


def marian(config: Config, vocabulary: int) -> Any:
    """An untrained MarianMT of the configured shape; its norms come after the sublayers."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(1)
    return MarianMTModel(MarianConfig(**huggingface_settings(config, vocabulary)))


def huggingface_settings(config: Config, vocabulary: int) -> dict[str, Any]:
    """The settings that Hugging Face's translation models share."""
    model = config.model
    sides = {}
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        sides |= {
            f"{side}_layers": layers,
            f"{side}_ffn_dim": model.d_ffn,
            f"{side}_attention_heads": model.heads,
            f"{side}_layerdrop": 0.0,
        }
    return sides | {
        "vocab_size": vocabulary,
        "d_model": model.d_model,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "activation_function": "relu",
        "scale_embedding": True,
        "pad_token_id": SENTENCEPIECE_IDS.pad,
        "bos_token_id": SENTENCEPIECE_IDS.bos,
        "eos_token_id": SENTENCEPIECE_IDS.eos,
        "decoder_start_token_id": SENTENCEPIECE_IDS.bos,
        "forced_eos_token_id": None,
        "attn_implementation": "sdpa",
    }


def _adam(model: torch.nn.Module) -> torch.optim.Optimizer:
    parameters: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.Adam(parameters, lr=RATE, betas=BETAS, eps=EPSILON, fused=True)


def _joey_specials() -> SimpleNamespace:
    names = ("unk", "pad", "bos", "eos")
    tokens = {f"{name}_token": f"<{name}>" for name in names}
    ids = {f"{name}_id": number for number, name in enumerate(names)}
    return SimpleNamespace(**tokens, **ids, sep_token=None, lang_tags=[])


def _joey_config(config: Config) -> dict[str, Any]:
    model = config.model

    def side(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": model.heads,
            "hidden_size": model.d_model,
            "ff_size": model.d_ffn,
            "dropout": model.dropout,
            "layer_norm": "pre",
            "activation": "relu",
            "embeddings": {"embedding_dim": model.d_model, "scale": True, "dropout": model.dropout},
        }

    return {
        "encoder": side(model.encoder_layers),
        "decoder": side(model.decoder_layers),
        "tied_embeddings": True,
        "tied_softmax": True,
    }
