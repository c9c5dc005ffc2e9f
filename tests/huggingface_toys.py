"""Small random Hugging Face models of every family, with tokenizers that are made here.

Their ids are those of the real families: Marian has eos 0 and pad = start = V - 1, the multilingual
ones frame their text with language codes. Weights are large enough that the models react.
"""

import copy
import io
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from tokenizers import ByteLevelBPETokenizer

from untold.config import SeparatorConfig
from untold.huggingface.folder import HuggingFaceFolder, wrap_model
from untold.huggingface.optional import import_transformers, quiet
from untold.models.past_future import PastFuture
from untold.models.seq2seq import Seq2Seq

LINES = [
    "the naïve cat sees 日本 🙂 .",
    "a dog reads the old book , and the cat sleeps .",
    "die naive Katze sieht 日本 🙂 .",
    "ein Hund liest das alte Buch , und die Katze schläft .",
]
SHAPE = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in (("layers", 2), ("ffn_dim", 24), ("attention_heads", 2))
}
T5_SHAPE = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
LANGUAGES = {
    "mbart": ("en_XX", "de_DE"),
    "mbart50": ("en_XX", "de_DE"),
    "m2m100": ("en", "de"),
    "nllb": ("eng_Latn", "deu_Latn"),
}
FAMILIES = (
    *("marian", "marian, two vocabularies", "bart", "t5", "t5 v1.1"),
    *LANGUAGES,
)


@cache
def spm(lines: tuple[str, ...] = tuple(LINES), **options: Any) -> bytes:
    """A sentencepiece model that knows every character of the lines."""
    model = io.BytesIO()
    settings = {"vocab_size": 90, "model_type": "unigram", "character_coverage": 1.0} | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*lines] * 3),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **settings,
    )
    return model.getvalue()


def pieces(model: bytes) -> list[str]:
    """The pieces of a sentencepiece model but its control tokens."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    found = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    return [piece for piece in found if not piece.startswith("<")]


def write_json(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return str(path)


def write_bytes(path: Path, value: bytes) -> str:
    path.write_bytes(value)
    return str(path)


def make_tokenizer(family: str, folder: Path) -> Any:
    """The tokenizer of a family, made from a few lines."""
    transformers = import_transformers()
    folder.mkdir(parents=True, exist_ok=True)
    with quiet():
        if family.startswith("marian"):
            return _marian(transformers, folder, separate="two" in family)
        if family == "bart":
            learnt = ByteLevelBPETokenizer()
            learnt.train_from_iterator(
                LINES,
                vocab_size=300,
                special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
                show_progress=False,
            )
            learnt.save_model(str(folder))
            merges = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")[1:-1]
            vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
            pairs = [tuple(line.split(" ")) for line in merges]
            return transformers.BartTokenizer(vocab=vocabulary, merges=pairs)
        words = [(piece, -float(n)) for n, piece in enumerate(pieces(spm()))]
        if family.startswith("t5"):
            vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *words]
            return transformers.T5Tokenizer(vocab=vocabulary, extra_ids=3)
        if family == "m2m100":
            known = ["<s>", "<pad>", "</s>", "<unk>", *(piece for piece, _ in words)]
            vocabulary = {piece: i for i, piece in enumerate(known)}
            return transformers.M2M100Tokenizer(
                write_json(folder / "vocab.json", vocabulary),
                write_bytes(folder / "sentencepiece.bpe.model", spm()),
            )
        return _fairseq(transformers, family, words)


def _marian(transformers: Any, folder: Path, *, separate: bool) -> Any:
    # A Marian config has one id of padding for both sides, so the source has more pieces here.
    sides = (tuple(LINES), tuple(LINES[2:])) if separate else (tuple(LINES),) * 2
    models = [spm(lines) for lines in sides]
    words = [["</s>", "<unk>", *pieces(model), "<pad>"] for model in models]
    files = [
        write_bytes(folder / f"{name}.spm", model)
        for name, model in zip(("source", "target"), models, strict=True)
    ]
    tables = [{piece: i for i, piece in enumerate(side)} for side in words]
    vocabulary = write_json(folder / "vocab.json", tables[0])
    options = {}
    if separate:
        path = write_json(folder / "target_vocab.json", tables[1])
        options = {"separate_vocabs": True, "target_vocab_file": path}
    return transformers.MarianTokenizer(*files, vocabulary, **options)


def _fairseq(transformers: Any, family: str, words: list[tuple[str, float]]) -> Any:
    """The vocabularies of mBART, mBART-50 and NLLB: specials, pieces, languages, mask."""
    kind = {
        "mbart": transformers.MBartTokenizer,
        "mbart50": transformers.MBart50Tokenizer,
        "nllb": transformers.NllbTokenizer,
    }[family]
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    if family == "nllb":
        best = {piece: rank for rank, (piece, _) in enumerate(words)}
        names = [token for token, _ in special] + list(best)
        return kind(vocab={name: i for i, name in enumerate(names)}, merges=[])
    return kind(vocab=[*special, *words])


def make_model(family: str, tokenizer: Any, **changes: Any) -> Any:
    """A random model of a family that fits a tokenizer; rows of its embeddings may be left over."""
    transformers = import_transformers()
    size = _size(family, tokenizer)
    shared = {"d_model": 16, "max_position_embeddings": 40, "vocab_size": size, **SHAPE}
    if family.startswith("marian"):
        ids = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0}
        if "two" in family:
            target = len(tokenizer.target_encoder)
            ids |= {"decoder_vocab_size": target, "share_encoder_decoder_embeddings": False}
            ids |= {"pad_token_id": target - 1, "decoder_start_token_id": target - 1}
        config = transformers.MarianConfig(**shared, **ids, scale_embedding=True, **changes)
        model = transformers.MarianMTModel(config)
    elif family.startswith("t5"):
        gated = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
        gated |= {"num_decoder_layers": 3}  # deeper than the encoder
        options = {"vocab_size": size, "decoder_start_token_id": 0, **T5_SHAPE}
        options |= gated if "1.1" in family else {}
        config = transformers.T5Config(**options, **changes)
        model = transformers.T5ForConditionalGeneration(config)
    else:
        ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
        kinds = {
            "bart": (transformers.BartConfig, transformers.BartForConditionalGeneration),
            "mbart": (transformers.MBartConfig, transformers.MBartForConditionalGeneration),
            "mbart50": (transformers.MBartConfig, transformers.MBartForConditionalGeneration),
            "m2m100": (transformers.M2M100Config, transformers.M2M100ForConditionalGeneration),
            "nllb": (transformers.M2M100Config, transformers.M2M100ForConditionalGeneration),
        }
        make, build = kinds[family]
        model = build(make(**shared, **ids, **changes))
    return _fill(model)


def _size(family: str, tokenizer: Any) -> int:
    if family.startswith("marian"):
        return len(tokenizer.encoder)
    if family == "m2m100":
        return max(tokenizer.lang_code_to_id.values()) + 9
    return len(tokenizer) + 5


def _fill(model: Any) -> Any:
    """Draws weights that are large enough to react, and a bias that is not zero."""
    generator = torch.Generator().manual_seed(5)
    scale = 0.25 if "T5" in type(model).__name__ else 0.4  # T5 divides no product of attention
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and "norm" not in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
        bias = getattr(model, "final_logits_bias", None)
        if bias is not None:
            bias.copy_(torch.randn(bias.shape, generator=generator))
    return model.eval()


def save_folder(family: str, folder: Path) -> Path:
    """Writes a folder as transformers writes it."""
    tokenizer = make_tokenizer(family, folder)
    with quiet():
        make_model(family, tokenizer).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


@cache
def wrapped(family: str) -> HuggingFaceFolder:
    """A wrapped model of a family; copy it before anything changes it."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = make_tokenizer(family, Path(folder))
    return wrap_model(make_model(family, tokenizer), tokenizer, languages(family), family)


def with_past_future(family: str, **settings: Any) -> Seq2Seq:
    """A wrapped model of a family with an untrained separator on top of it."""
    found, kind = wrapped(family), {"kind": "gdr", "d_capsule": 7, "lexicon": 5, **settings}
    separator = SeparatorConfig.model_validate(kind)
    shape = found.config.model.model_copy(update={"separator": separator})
    backbone = copy.deepcopy(found.model.backbone)
    torch.manual_seed(3)
    return Seq2Seq(backbone, PastFuture(shape, backbone.widths, found.tokenizers.sizes)).eval()


def languages(family: str) -> dict[str, str]:
    """The settings of [model] that a family needs."""
    names = ("source_language", "target_language")
    return dict(zip(names, LANGUAGES.get(family, ()), strict=False))
