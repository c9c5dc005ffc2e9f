"""The contenders of the decoding race: ids of a batch of sources in, the best ids of each out.

Three of them have the very same weights: untold, Hugging Face's M2M100 (the one of its translation
models that norms before the sublayers, as we do) and CTranslate2. Marian norms after them and keeps
random weights of the same shape, so it takes part only where the lengths are forced.
"""

import tempfile
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from contenders import huggingface_settings, marian
from untold.config import Config, DecodeConfig
from untold.corpus.batching import pad_rows
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.export.ctranslate2 import ctranslate2_spec
from untold.export.huggingface import bart_tensors
from untold.inference.model import PreparedModel
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import Transformer

PAD, EOS = SENTENCEPIECE_IDS.pad, SENTENCEPIECE_IDS.eos
__all__ = ["CTranslate2", "HuggingFace", "Searcher", "SourceBatch", "Untold", "converted", "marian"]

POSITIONS = 512  # that the converted models know


@dataclass(frozen=True)
class SourceBatch:
    """Holds sources that end in EOS, and the exact length wanted of translations or None."""

    rows: list[list[int]]
    length: int | None

    def limits(self) -> tuple[int, int]:
        """Returns (fewest, most) tokens without EOS; a trained model never reaches the most."""
        if self.length is None:
            return 0, 3 * max(map(len, self.rows)) + 10
        return self.length, self.length


class Searcher(Protocol):
    """Describes a model with its beam search."""

    name: str

    def search(self, batch: SourceBatch) -> list[list[int]]:
        """Returns the best translation of each source, without EOS."""
        ...


class Untold:
    """Runs the search behind `untold translate`."""

    def __init__(
        self,
        model: Seq2Seq | PreparedModel,
        beam: int,
        name: str = "untold",
        wanted: frozenset[str] = frozenset(),
    ) -> None:
        self.model, self.beam, self.name, self.wanted = model, beam, name, wanted

    def search(self, batch: SourceBatch) -> list[list[int]]:
        """Searches without a length penalty, as all contenders do."""
        fewest, most = batch.limits()
        config = DecodeConfig(
            beam=self.beam,
            length_penalty=0.0,
            min_length=fewest,
            max_length=most + 1,
            max_ratio=float(most),
        )
        sentences = Sentences(*pad_rows(batch.rows, PAD), SENTENCEPIECE_IDS)
        found = search(self.model, sentences, config, self.wanted)
        return [list(hypotheses[0].tokens) for hypotheses in found]


class HuggingFace:
    """Calls `generate` of a Hugging Face model, which stops as soon as it may."""

    def __init__(self, name: str, model: Any, beam: int) -> None:
        self.name, self.model, self.beam = name, model.eval(), beam

    def search(self, batch: SourceBatch) -> list[list[int]]:
        """Makes one call for the batch."""
        fewest, most = batch.limits()
        ids, mask = pad_rows(batch.rows, PAD)
        with torch.inference_mode():
            found = self.model.generate(
                input_ids=ids,
                attention_mask=mask.long(),
                num_beams=self.beam,
                length_penalty=0.0,
                early_stopping=True,
                min_new_tokens=fewest,
                max_new_tokens=most + 1,
                do_sample=False,
            )
        return [_until_end(row[1:]) for row in found.tolist()]


class CTranslate2:
    """Runs CTranslate2. Raises ImportError where it is not installed."""

    def __init__(self, model: Seq2Seq, beam: int, threads: int, numbers: str = "float32") -> None:
        import ctranslate2

        self.beam, self.name = beam, f"CTranslate2, same weights, {numbers}"
        with tempfile.TemporaryDirectory() as directory:
            _spec(model).save(directory)
            self._translator = ctranslate2.Translator(
                directory, compute_type=numbers, inter_threads=1, intra_threads=threads
            )

    def search(self, batch: SourceBatch) -> list[list[int]]:
        """Makes one call for the batch; the tokens are our ids as strings."""
        fewest, most = batch.limits()
        found = self._translator.translate_batch(
            [[_word(number) for number in row] for row in batch.rows],
            beam_size=self.beam,
            length_penalty=0.0,
            min_decoding_length=fewest,
            max_decoding_length=most + (batch.length is None),
            disable_unk=True,
        )
        return [[int(word[1:]) for word in result.hypotheses[0]] for result in found]


def converted(model: Seq2Seq, config: Config) -> Any:
    """Copies the weights of a model with one embedding to Hugging Face's M2M100."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    ours = _transformer(model)
    embedding = ours.output_embedding()
    settings = huggingface_settings(config, embedding.shape[0])
    theirs = M2M100ForConditionalGeneration(M2M100Config(**settings))
    weights = {"model.shared.weight": embedding, "lm_head.weight": embedding}
    weights |= {f"model.{name}": tensor for name, tensor in bart_tensors(ours).items()}
    for side in ("encoder", "decoder"):
        weights[f"model.{side}.embed_tokens.weight"] = embedding
        # Its positions are numbered after the padding's.
        table = theirs.get_submodule(f"model.{side}.embed_positions").weights
        table[PAD + 1 : PAD + 1 + POSITIONS] = _positions(ours)
    theirs.load_state_dict(weights)
    return theirs


def _spec(model: Seq2Seq) -> Any:
    """Describes the model to CTranslate2; words are ids, and sources have their end."""
    ours = _transformer(model)
    words = [_word(number) for number in range(len(ours.output_embedding()))]
    spec = ctranslate2_spec(ours, (words, words))
    spec.config.add_source_eos = False
    return spec


def _transformer(model: Seq2Seq) -> Transformer:
    assert isinstance(model.backbone, Transformer)
    return model.backbone


def _positions(ours: Transformer) -> Tensor:
    return ours.source_embedding.table[:POSITIONS]


def _word(number: int) -> str:
    return f"w{number}"


def _until_end(row: list[int]) -> list[int]:
    row = row[: row.index(EOS)] if EOS in row else row
    return [number for number in row if number != PAD]
