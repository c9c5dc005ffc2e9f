"""Finds the plain Transformer of a model, for programs that know nothing of past and future."""

import copy
from dataclasses import dataclass

from untold.config import Config
from untold.corpus.tokenizer import SentencePieceTokenizer, Tokenizers
from untold.errors import UntoldError
from untold.models.transformer import Transformer, TransformerConfig
from untold.storage.model_directory import TrainedModel


@dataclass(frozen=True)
class PlainModel:
    """Holds a copy of a Transformer, on the CPU, with its settings and sentencepiece models."""

    transformer: Transformer
    shape: TransformerConfig
    config: Config
    tokenizers: Tokenizers
    left_out: str = ""  # what the copy lacks, in words

    @property
    def pieces(self) -> tuple[list[str], list[str]]:
        """Lists the entries of both vocabularies."""
        source, target = self.tokenizers.source, self.tokenizers.target
        return source.pieces(range(len(source))), target.pieces(range(len(target)))

    @property
    def models(self) -> tuple[bytes, bytes]:
        """Returns the sentencepiece models of both languages."""
        source, target = self.tokenizers.source, self.tokenizers.target
        assert isinstance(source, SentencePieceTokenizer)
        assert isinstance(target, SentencePieceTokenizer)
        return source.model, target.model


def plain_model(trained: TrainedModel, where: str, *, drop_past_future: bool) -> PlainModel:
    """Takes the Transformer out of a model; `where` names it in messages.

    Past and future may be left out if nothing reads them, or if the user says so.
    """
    check_exportable(trained, where)
    model = trained.model
    left_out = ""
    if model.past_future is not None:
        is_silent = model.past_future.fusion.is_silent
        if not is_silent and not drop_past_future:
            raise UntoldError(
                f"{where}: its translations depend on past and future, which this format lacks: "
                "export --to onnx, or give --drop-past-future to get the plain decoder, whose "
                "translations differ"
            )
        left_out = "past and future, on which its translations "
        left_out += "do not depend" if is_silent else "depended: others will come out"
    backbone = copy.deepcopy(model.backbone).float().cpu().eval()
    assert isinstance(backbone, Transformer)
    assert isinstance(trained.config.model, TransformerConfig)
    return PlainModel(backbone, trained.config.model, trained.config, trained.tokenizers, left_out)


def check_exportable(trained: TrainedModel, where: str) -> None:
    """Refuses models that are no Transformers of untold, or copy words."""
    kind = trained.config.model.backbone
    if type(trained.model.backbone) is not Transformer:
        raise UntoldError(
            f"{where}: its backbone is {kind}, and only a transformer can be exported: train one"
        )
    if trained.model.copy_layer is not None:
        raise UntoldError(
            f"{where}: copies words of its source, which no other program can: train a model with "
            "model.copying = false"
        )
    sides = (trained.tokenizers.source, trained.tokenizers.target)
    if not all(isinstance(side, SentencePieceTokenizer) for side in sides):
        raise UntoldError(
            f"{where}: its vocabulary is no sentencepiece model: train one with untold"
        )
