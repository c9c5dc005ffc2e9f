"""Who takes part in races, and what they work on: models of one shape, and batches of ids.

Trainers make whole updates on the same batches: forward, smoothed loss, backward, clipping, Adam.
Searchers turn ids of a batch of sources into the best ids of each. Three of them have the very same
weights: untold, Hugging Face's M2M100 (the one of its translation models that norms before the
sublayers, as we do) and CTranslate2. Marian norms after them and keeps random weights of the same
shape, so it takes part only where the lengths are forced.
"""

import itertools
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from race import add_race_options
from untold.config import Config, CorpusConfig, DecodeConfig, TokenizerConfig, parse_config
from untold.corpus.batching import Batch, PairsInMemory, make_batch, pad_rows, plan_epoch
from untold.corpus.corpora import read_pairs
from untold.corpus.tokenizer import SENTENCEPIECE_IDS, Tokenizers
from untold.corpus.vocabulary import train_tokenizers
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.export.ctranslate2 import ctranslate2_spec
from untold.export.huggingface import bart_tensors
from untold.inference.model import PreparedModel
from untold.lab.grammars.sampling import load_grammar
from untold.lab.speed import TimedUpdates
from untold.models.build import build_model
from untold.models.seq2seq import Seq2Seq
from untold.models.transformer import Transformer
from untold.storage.model_directory import TrainedModel

PRESETS = ("tiny", "small", "base")
RATE, BETAS, EPSILON = 3e-4, (0.9, 0.98), 1e-9
SMOOTHING, CLIP = 0.1, 1.0
PAD, EOS = SENTENCEPIECE_IDS.pad, SENTENCEPIECE_IDS.eos
POSITIONS = 512  # that the converted models know

Changes = Mapping[str, Mapping[str, Any]]  # of a configuration: section, setting, value
GDR: Changes = {"model": {"separator": {"kind": "gdr"}}}


@dataclass(frozen=True)
class Workload(PairsInMemory):
    """Pairs of ids, the tokenizers that made them, and the texts."""

    tokenizers: Tokenizers
    texts: Sequence[tuple[str, str]]


def add_options(parser: ArgumentParser) -> None:
    """The options of races between models of one shape."""
    add_text_options(parser)
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    add_race_options(parser)


def add_text_options(parser: ArgumentParser) -> None:
    """What `read_workload` reads."""
    parser.add_argument("--source", type=Path, help="plain text, .gz or not; else the grammar's")
    parser.add_argument("--target", type=Path, help="its translation, line by line")
    parser.add_argument("--pairs", type=int, default=20_000, help="at most so many are read")
    parser.add_argument("--vocabulary", type=int, default=10_000, help="rows of the embedding")


def read_workload(options: Namespace, tokenizers: Tokenizers | None = None) -> Workload:
    """The pairs that the options ask for; without `tokenizers` they make their own vocabulary."""
    texts = _texts(options)
    if tokenizers is None:
        config = TokenizerConfig(size=options.vocabulary)
        tokenizers = train_tokenizers(config, (s for s, _ in texts), (t for _, t in texts))
    sources = tokenizers.source.encode([source for source, _ in texts])
    targets = tokenizers.target.encode([target for _, target in texts])
    return Workload(list(zip(sources, targets, strict=True)), tokenizers, texts)


def _texts(options: Namespace) -> list[tuple[str, str]]:
    if options.source is None:
        samples = itertools.islice(load_grammar("en-de").stream(1), options.pairs)
        return [(" ".join(sample.source), " ".join(sample.target)) for sample in samples]
    corpus = CorpusConfig(source=str(options.source), target=str(options.target or options.source))
    pairs = itertools.islice(read_pairs(corpus, Path()), options.pairs)
    return [(pair.source, pair.target) for pair in pairs]


def small_workload(vocabulary: int, pairs: int = 2000) -> Workload:
    """Pairs of the embedded grammar, for what has no options."""
    return read_workload(Namespace(source=None, target=None, pairs=pairs, vocabulary=vocabulary))


def training_batches(workload: Workload, batch_tokens: int, count: int) -> list[Batch]:
    """The first batches of an epoch: they differ in length as an epoch's batches do."""
    plan = plan_epoch(workload, batch_tokens, seed=1, epoch=0)
    count, special = min(count, len(plan)), workload.tokenizers.special_ids
    return [make_batch(workload, plan.indices(number), special) for number in range(count)]


def source_rows(workload: Workload, count: int) -> list[list[int]]:
    """The first sources, each with its EOS."""
    return [[*source, EOS] for source, _ in workload.pairs[:count]]


def source_batches(groups: Sequence[list[list[int]]]) -> "list[SourceBatch]":
    """Batches whose translations all have the length of the longest source: equal work for all."""
    return [SourceBatch(group, max(map(len, group))) for group in groups]


def shape(preset: str, dropout: float, backbone: str = "transformer") -> Config:
    """The configuration that all contenders follow."""
    return parse_config(
        {
            "model": {"backbone": backbone, "preset": preset, "dropout": dropout},
            "train": {"learning_rate": RATE, "clip": CLIP, "label_smoothing": SMOOTHING},
        }
    )


def past_future_variants() -> dict[str, Changes]:
    """Changes of the configuration: plain, the losses of the paper alone, and the default's."""
    defaults = Config().train
    bow, bca = defaults.bow_weight or 0.1, defaults.bca_weight or 0.1
    beyond = {"counterfactual": 0.0, "ends_weight": 0.0, "lexicon_weight": 0.0}
    weights = {
        "GDR": (0.0, 0.0),
        "GDR + BoW": (bow, 0.0),
        "GDR + BCA": (0.0, bca),
        "GDR + BoW + BCA": (bow, bca),
    }
    of_the_paper = {
        name: {**GDR, "train": {"bow_weight": w[0], "bca_weight": w[1]} | beyond}
        for name, w in weights.items()
    }
    return {"plain": {}, **of_the_paper, "GDR, default": GDR}


def recurrent_variants() -> dict[str, Changes]:
    """Changes of the configuration of an RNMT."""
    return {"RNMT": {}, "RNMT + GDR": GDR, "PFRNN": {"model": {"backbone": "pfrnn"}}}


def varied(config: Config, changes: Changes) -> Config:
    """The configuration with some settings changed."""
    values = config.model_dump()
    for section, settings in changes.items():
        values[section] = values[section] | dict(settings)
    return parse_config(values)


def untrained(config: Config, vocabulary: int) -> Seq2Seq:
    """A model with random weights, ready to translate."""
    torch.manual_seed(1)
    return build_model(config.model, (vocabulary, vocabulary), shared=True).eval()


class UntoldTraining:
    """The update that `untold train` makes."""

    name = "untold"

    def __init__(self, config: Config, vocabulary: int, workload: Workload) -> None:
        self.model = untrained(config, vocabulary).train()
        self._updates = TimedUpdates(TrainedModel(self.model, config, workload.tokenizers))

    def update(self, batch: Batch) -> None:
        """Through the trainer itself."""
        self._updates(batch)


class MarianTraining:
    """Hugging Face's MarianMT with its fused attention, torch's own loss and fused Adam."""

    name = "Hugging Face Marian"

    def __init__(self, config: Config, vocabulary: int) -> None:
        self.model = marian(config, vocabulary).train()
        self._optimizer = torch.optim.Adam(
            self.model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, fused=True
        )

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
        hypotheses = search(self.model, sentences, config, self.wanted)
        return [list(best.tokens) for best, *_ in hypotheses]


class HuggingFace:
    """Calls `generate` of a Hugging Face model, which stops as soon as it may."""

    def __init__(self, name: str, model: Any, beam: int) -> None:
        self.name, self.model, self.beam = name, model.eval(), beam

    def search(self, batch: SourceBatch) -> list[list[int]]:
        """Makes one call for the batch."""
        fewest, most = batch.limits()
        ids, mask = pad_rows(batch.rows, PAD)
        with torch.inference_mode():
            outputs = self.model.generate(
                input_ids=ids,
                attention_mask=mask.long(),
                num_beams=self.beam,
                length_penalty=0.0,
                early_stopping=True,
                min_new_tokens=fewest,
                max_new_tokens=most + 1,
                do_sample=False,
            )
        return [_until_end(row[1:]) for row in outputs.tolist()]


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
        results = self._translator.translate_batch(
            [[_word(number) for number in row] for row in batch.rows],
            beam_size=self.beam,
            length_penalty=0.0,
            min_decoding_length=fewest,
            max_decoding_length=most + (batch.length is None),
            disable_unk=True,
        )
        return [[int(word[1:]) for word in result.hypotheses[0]] for result in results]


def m2m100_of(model: Seq2Seq, config: Config) -> Any:
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
