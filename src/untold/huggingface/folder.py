"""Reads a Hugging Face folder, or a model of the hub, as a model of untold.

The wrapped model must give the logits of the stock model on a small batch, or it is refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from untold.config import Config, parse_config
from untold.corpus.batching import pad_rows
from untold.errors import UntoldError, shorten
from untold.huggingface.backbone import HuggingFaceBackbone
from untold.huggingface.config import HuggingFaceConfig
from untold.huggingface.families import refuse_architecture
from untold.huggingface.optional import import_transformers, quiet
from untold.huggingface.tokenizer import HuggingFaceTokenizers, TokenizerUse, read_tokenizer
from untold.models.seq2seq import Seq2Seq

LANGUAGES = ("source_language", "target_language", "source_prefix")
_ERRORS = (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, ImportError)
_TOLERANCE = 1e-4  # of logits, for each unit of the largest of them


@dataclass(frozen=True)
class HuggingFaceFolder:
    """Holds a wrapped model, its settings as a configuration, and its tokenizers."""

    model: Seq2Seq
    config: Config
    tokenizers: HuggingFaceTokenizers


def read_folder(name: str, settings: Mapping[str, Any]) -> HuggingFaceFolder:
    """Reads a folder or a model of the hub; `settings` are keys of [model], such as languages."""
    where = f"hf:{name}"
    if extra := sorted(settings.keys() - set(LANGUAGES)):
        known = ", ".join(f"model.{name}" for name in LANGUAGES)
        raise UntoldError(f"--set model.{extra[0]}: only {known} can change here")
    architecture = _read_architecture(name)
    refuse_architecture(architecture, where)
    transformers = import_transformers()
    try:
        with quiet():
            stock, loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(
                name,
                dtype=torch.float32,
                attn_implementation="eager",
                use_safetensors=True,  # other files could run code
                trust_remote_code=False,
                output_loading_info=True,
            )
    except _ERRORS as error:
        raise UntoldError(
            f"{where}: transformers cannot read its weights: {shorten(error, 200)}"
        ) from None
    if missing := sorted(loaded["missing_keys"]):  # transformers would draw them at random
        raise UntoldError(f"{where}: its weights lack {missing[0]}: name a folder with all of them")
    asked = {key: str(value) for key, value in settings.items()}
    return wrap_model(stock.eval(), read_tokenizer(name), asked, where)


def wrap_model(
    stock: Any, tokenizer: Any, settings: Mapping[str, str], where: str
) -> HuggingFaceFolder:
    """Wraps a live model and its tokenizer; `where` names them in messages.

    The live model's attention is replaced by a form that lets beams share their source.
    """
    start = stock.config.decoder_start_token_id
    if start is None or stock.config.pad_token_id is None:
        raise UntoldError(f"{where}: its config.json names no decoder_start_token_id: add it")
    sizes = (
        stock.get_encoder().get_input_embeddings().num_embeddings,
        stock.get_output_embeddings().weight.shape[0],
    )
    tokenizers = HuggingFaceTokenizers.of(tokenizer, TokenizerUse(sizes, start, **settings), where)
    config = _config(stock, tokenizers, settings)
    sample = _WrappingSample.of(tokenizers)
    with torch.inference_mode():
        expected = sample.stock_logits(stock, tokenizers)
    shape = config.model
    assert isinstance(shape, HuggingFaceConfig)
    backbone = HuggingFaceBackbone(shape, sizes, shared=sizes[0] == sizes[1], model=stock)
    if shape.output_bias:
        backbone.output_bias = nn.Parameter(_bias(stock).flatten().clone())
    model = Seq2Seq(backbone).eval()
    check_wrapping(model, sample, expected, where)
    return HuggingFaceFolder(model, config, tokenizers)


@dataclass(frozen=True)
class _WrappingSample:
    """Holds ids of two short pairs, of different lengths, without special ids."""

    sources: list[list[int]]
    targets: list[list[int]]
    eos: int  # of the source
    bos: int  # of the target

    @classmethod
    def of(cls, tokenizers: HuggingFaceTokenizers) -> "_WrappingSample":
        """Takes ordinary pieces from all over both vocabularies."""
        sides = []
        for tokenizer in (tokenizers.source, tokenizers.target):
            special = tokenizer.special_ids.control
            text = [i for i in range(len(tokenizer)) if i not in special]
            sides.append([text[len(text) * k // 7] for k in range(7)])
        source, target = sides
        eos, bos = tokenizers.source.special_ids.eos, tokenizers.target.special_ids.bos
        return cls([source[:5], source[5:]], [target[:3], target[3:6]], eos, bos)

    def stock_logits(self, stock: Any, tokenizers: HuggingFaceTokenizers) -> Float[Tensor, "b t v"]:
        """Lets the stock model read the pairs as its own tokenizer would write them."""
        framing = tokenizers.framing
        rows = [[*framing.before, *row, self.eos, *framing.after] for row in self.sources]
        ids, mask = pad_rows(rows, stock.config.pad_token_id)
        prefix = torch.tensor([[*framing.beginning, *row] for row in self.targets])
        read = stock(input_ids=ids, attention_mask=mask.long(), decoder_input_ids=prefix)
        return read.logits[:, len(framing.beginning) - 1 :]

    def inputs(self, pad: int) -> tuple[Tensor, Tensor, Int[Tensor, "b t"]]:
        """Returns the pairs as untold's models read them: source ids, mask and prefix."""
        ids, mask = pad_rows([[*row, self.eos] for row in self.sources], pad)
        return ids, mask, torch.tensor([[self.bos, *row] for row in self.targets])


@torch.inference_mode()
def check_wrapping(
    model: Seq2Seq, sample: "_WrappingSample", expected: Float[Tensor, "b t v"], where: str
) -> None:
    """Refuses a wrapped model whose logits, at once or step by step, differ from the stock's."""
    backbone = model.backbone
    assert isinstance(backbone, HuggingFaceBackbone)
    ids, mask, prefix = sample.inputs(backbone.model.config.pad_token_id)
    source = model.encode(ids, mask)
    at_once = model.logits(model.decode(source, prefix).holistic)
    state, steps = model.start(source, 1), []
    for last in prefix.unbind(1):
        step = model.step(source, last[:, None], state)
        state = step.state
        steps.append(step.logits)
    size = max(1.0, float(expected.abs().max()))
    for logits in (at_once, torch.cat(steps, dim=1)):
        difference = float((logits - expected).abs().max())
        if not difference <= _TOLERANCE * size:  # also refuses NaN
            version = import_transformers().__version__
            raise UntoldError(
                f"{where}: wrapped, its logits differ by {difference:.2g} from those that "
                f"transformers {version} gives: use another version, or another model"
            )


def _read_architecture(name: str) -> dict[str, Any]:
    """Reads the configuration of a folder without building its model."""
    folder = Path(name)
    if folder.exists() and not (folder / "config.json").is_file():
        raise UntoldError(
            f"hf:{name}: holds no config.json: name a folder that save_pretrained wrote"
        )
    transformers = import_transformers()
    try:
        with quiet():
            architecture, _ = transformers.PreTrainedConfig.get_config_dict(name)
            return architecture
    except _ERRORS as error:
        raise UntoldError(
            f"hf:{name}: neither a folder here nor a model of the hub that can be reached: "
            f"{shorten(error, 160)}"
        ) from None


def describe_architecture(config: Any) -> dict[str, Any]:
    """Describes a Hugging Face configuration in plain values, without what describes no model."""
    left_out = ("_name_or_path", "dtype", "torch_dtype")
    left_out += ("id2label", "label2id", "task_specific_params")
    described = json.loads(json.dumps(config.to_dict()))
    return {name: value for name, value in described.items() if name not in left_out}


def _config(stock: Any, tokenizers: HuggingFaceTokenizers, asked: Mapping[str, str]) -> Config:
    """Describes a model and the limits of its positions as a configuration of untold."""
    architecture = describe_architecture(stock.config)
    architecture["architectures"] = [type(stock).__name__]
    framing, bias = tokenizers.framing, _bias(stock)
    dropout = architecture.get("dropout", architecture.get("dropout_rate", 0.1))
    model = {
        "backbone": "huggingface",
        "architecture": architecture,
        "dropout": float(dropout),
        "output_bias": bias is not None and bool(bias.any()),
        "source_before": framing.before,
        "source_after": framing.after,
        "target_before": framing.beginning[:-1],
        **asked,
    }
    languages = ("source_language", "target_language")
    data = {name: asked[name] for name in languages if asked.get(name)}
    beam = stock.generation_config.num_beams or 1
    decode = {"beam": beam} if beam > 1 else {}
    return parse_config({"model": model, "data": data, "decode": decode}).within_limits()


def _bias(stock: Any) -> Any:
    return getattr(stock, "final_logits_bias", None)
