"""Writes a Transformer as a model of CTranslate2, with the sentencepiece models beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.export.plain_model import PlainModel
from untold.files import new_directory
from untold.huggingface.optional import import_optional
from untold.models.layers import FeedForward
from untold.models.transformer import DecoderLayer, EncoderLayer, Transformer


def write_ctranslate2_model(plain: PlainModel, out: Path) -> None:
    """Writes model and sentencepiece models, completely or not at all."""
    spec = ctranslate2_spec(plain.transformer, plain.pieces)
    with new_directory(out) as directory:
        spec.save(str(directory))
        for name, model in zip(("source.spm", "target.spm"), plain.models, strict=True):
            (directory / name).write_bytes(model)


def ctranslate2_spec(ours: Transformer, words: tuple[Sequence[str], Sequence[str]]) -> Any:
    """Describes a Transformer to CTranslate2; `words` names the entries of both vocabularies.

    CTranslate2 itself adds the end of a source.
    """
    specs = import_optional("ctranslate2.specs", "ctranslate2")
    functions = specs.common_spec.Activation
    activations = {"relu": functions.RELU, "swish": functions.SWISH, "gelu": functions.GELU}
    first = cast("DecoderLayer", ours.decoder[0])
    spec = specs.TransformerSpec.from_config(
        (len(ours.encoder), len(ours.decoder)),
        first.heads,
        pre_norm=isinstance(ours.encoder_norm, nn.LayerNorm),
        activation=activations[first.ffn.activation],
    )
    spec.encoder.embeddings[0].weight = _array(ours.source_embedding.embedding.weight)
    spec.decoder.embeddings.weight = _array(ours.target_embedding.embedding.weight)
    output = ours.output_layer()
    spec.decoder.projection.weight = _array(output.weight)
    if output.bias is not None:
        spec.decoder.projection.bias = _array(output.bias)
    _copy_stacks(spec, ours)
    spec.register_source_vocabulary(list(words[0]))
    spec.register_target_vocabulary(list(words[1]))
    _name_control_tokens(spec.config, words[1])
    spec.validate()
    spec.optimize()
    return spec


def _copy_stacks(spec: Any, ours: Transformer) -> None:
    for side, name in ((spec.encoder, "source"), (spec.decoder, "target")):
        side.position_encodings.encodings = _array(getattr(ours, f"{name}_embedding").table)
    if isinstance(ours.encoder_norm, nn.LayerNorm):
        _norm(spec.encoder.layer_norm, ours.encoder_norm)
        _norm(spec.decoder.layer_norm, ours.decoder_norm)
    encoder = cast("list[EncoderLayer]", list(ours.encoder))
    for theirs, layer in zip(spec.encoder.layer, encoder, strict=True):
        attention = theirs.self_attention
        _norm(attention.layer_norm, layer.attention_norm, layer.attention_end)
        _linears(attention.linear, [layer.attention.qkv, layer.attention.out])
        _feed_forward(theirs.ffn, layer.ffn, layer.ffn_norm, layer.ffn_end)
    decoder = cast("list[DecoderLayer]", list(ours.decoder))
    for theirs, layer in zip(spec.decoder.layer, decoder, strict=True):
        attention, cross = layer.self_attention, layer.cross_attention
        _norm(theirs.self_attention.layer_norm, layer.self_norm, layer.self_end)
        _linears(theirs.self_attention.linear, [attention.qkv, attention.out])
        _norm(theirs.attention.layer_norm, layer.cross_norm, layer.cross_end)
        _linears(theirs.attention.linear, [cross.query, cross.key_value, cross.out])
        _feed_forward(theirs.ffn, layer.ffn, layer.ffn_norm, layer.ffn_end)


def _name_control_tokens(config: Any, words: Sequence[str]) -> None:
    ids = SENTENCEPIECE_IDS
    config.bos_token = config.decoder_start_token = words[ids.bos]
    config.eos_token, config.unk_token = words[ids.eos], words[ids.unk]
    config.add_source_eos = True


def _feed_forward(theirs: Any, ffn: FeedForward, *norms: nn.Module) -> None:
    _norm(theirs.layer_norm, *norms)
    _linears([theirs.linear_0, theirs.linear_1], [ffn.inner, ffn.outer])


def _norm(theirs: Any, *places: nn.Module) -> None:
    """Copies the norm that stands in one of the places."""
    for norm in places:
        if isinstance(norm, nn.LayerNorm):
            theirs.gamma, theirs.beta = _array(norm.weight), _array(norm.bias)


def _linears(theirs: list[Any], linears: list[nn.Linear]) -> None:
    for spec, linear in zip(theirs, linears, strict=True):
        spec.weight, spec.bias = _array(linear.weight), _array(linear.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().numpy()
