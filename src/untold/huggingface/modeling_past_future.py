"""The modules of a model of transformers with past and future, its encoder and its folder.

The modules and the names of all parameters are untold's own. The folder serves both worlds:

    config.json, generation_config.json                      of transformers
    model.safetensors, or several files and their index      of transformers
    tokenizer files                                          of transformers, for AutoTokenizer
    untold.json, huggingface_tokenizer/, MANIFEST.json       of untold

The manifest lists what untold reads. Other files, such as a README, may lie beside them.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from untold.corpus.tokenizer import SpecialIds
from untold.errors import UntoldError, shorten
from untold.files import MANIFEST, seal_directory, writing
from untold.huggingface.backbone import FOLDED, HuggingFaceBackbone
from untold.huggingface.configuration_past_future import (
    PastFutureConfig,
    choose_languages,
    settings_with,
)
from untold.huggingface.folder import HuggingFaceFolder, read_folder
from untold.huggingface.optional import import_transformers, quiet
from untold.huggingface.tokenizer import FOLDER, HuggingFaceTokenizers, read_tokenizer
from untold.models.backbone import Source
from untold.models.build import build_model
from untold.models.past_future import PastFuture
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import CONFIG, OWN_CONFIG, WEIGHT_INDEX, WEIGHTS, weight_files

_transformers: Any = import_transformers()
_outputs: Any = import_transformers("modeling_outputs")
_VOTES = "votes_"
_RECORDED = ("output_attentions", "output_hidden_states")


@dataclass(frozen=True)
class TextFrame:
    """Says what a model reads beside text, such as language codes: no capsule holds it."""

    source: SpecialIds
    target: SpecialIds
    before: tuple[int, ...]  # ids before every source
    hidden: int  # positions before that of BOS, where nothing is separated
    longest: int | None  # positions of either side; None means any number

    @classmethod
    def of(cls, config: PastFutureConfig) -> "TextFrame":
        """Takes it from a configuration, once: checking settings takes time."""
        shape, sides = config.shape, (config.special("source"), config.special("target"))
        return cls(*sides, shape.source_before, len(shape.target_before), shape.longest)

    def check_length(self, length: int) -> None:
        """Refuses more tokens than there are positions."""
        if self.longest is not None and length > self.longest:
            raise UntoldError(
                f"{length} tokens with all that the tokenizer adds: the positions of the model end "
                f"at {self.longest}: divide the text, or lower max_new_tokens"
            )


@dataclass(frozen=True)
class FramedSource:
    """Holds sources as a tokenizer writes them, with language codes and the like."""

    ids: Int[Tensor, "b f"]  # padding is the id of padding
    real: Bool[Tensor, "b f"]  # False at padding
    places: Int[Tensor, "b i"]  # where the pieces of the text and its EOS are, row by row
    mask: Bool[Tensor, "b i"]  # False where a row has no more of them

    def pick(self, states: Float[Tensor, "b f d"]) -> Float[Tensor, "b i d"]:
        """Returns the states of the text alone."""
        return states.gather(1, self.places[:, :, None].expand(-1, -1, states.shape[2]))


def frame_source(ids: Int[Tensor, "b f"], mask: Tensor | None, frame: TextFrame) -> FramedSource:
    """Finds padding, and what a tokenizer puts around a text."""
    special, before = frame.source, ids.new_tensor(frame.before)
    real = ids != special.pad if mask is None else mask.bool()
    ids = ids.masked_fill(~real, special.pad)
    hidden = is_no_text(ids, special) | ~real
    if len(before):  # a prefix of a T5 is made of ordinary pieces: only its place tells
        place = real.long().cumsum(1) - 1
        first = real & (place < len(before))
        differs = first & (ids != before[place.clamp(0, len(before) - 1)])
        hidden = hidden | (first & ~differs.any(1, keepdim=True))
    counts = (~hidden).sum(1, keepdim=True)
    places = hidden.int().argsort(dim=1, stable=True)[:, : max(1, int(counts.max()))]
    mask = torch.arange(places.shape[1], device=ids.device) < counts
    return FramedSource(ids, real, places, mask)


def is_no_text(ids: Int[Tensor, "b t"], special: SpecialIds) -> Bool[Tensor, "b t"]:
    """Finds the ids that are no part of a text, nor its end."""
    return torch.isin(ids, ids.new_tensor(sorted(special.control - {special.eos})))


@dataclass
class PastFutureOutput(_outputs.Seq2SeqLMOutput):
    """Holds what transformers expects, and the shares of past, future and redundant.

    The columns of `assignments` are those of `input_ids`; they are zero at padding and at what is
    no part of the text, and before the first word of a translation can be said. Of the fields of
    transformers those are named here that need not have 32 bits.
    """

    loss: Any = None  # a number, or all fields in a dictionary: so accelerate copies outputs
    logits: Tensor | None = None
    decoder_hidden_states: tuple[Tensor, ...] | None = None
    decoder_attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None
    encoder_last_hidden_state: Tensor | None = None
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    encoder_attentions: tuple[Tensor, ...] | None = None
    assignments: Float[Tensor, "b t f g"] | None = None


@dataclass
class PastFutureEncoderOutput(_outputs.BaseModelOutput):
    """Holds an encoded source and its votes, under the names votes_0, votes_1 and so on.

    They are tensors of their own, so that generate() repeats them for its beams. Of the states,
    which are those of the whole frame, `places` and `mask` tell which are those of the text;
    `real` is zero at padding.
    """

    last_hidden_state: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    places: Tensor | None = None
    mask: Tensor | None = None
    real: Tensor | None = None

    @classmethod
    def of(cls, read: Any, framed: FramedSource, source: Source) -> "PastFutureEncoderOutput":
        """Takes over what an encoder of transformers gave, and the source that was cast."""
        encoded = cls(
            **{name: read.get(name) for name in ("hidden_states", "attentions")},
            last_hidden_state=read.last_hidden_state,
            places=framed.places,
            mask=source.mask,
            real=framed.real.long(),
        )
        for number, part in enumerate(source.votes):
            encoded[f"{_VOTES}{number}"] = part
        return encoded

    def source(self) -> Source:
        """Returns what separation reads: votes and mask. Of the states only their shape counts."""
        votes = tuple(self[name] for name in self if name.startswith(_VOTES))
        mask = self["mask"]
        states = self["last_hidden_state"][:, : mask.shape[1]]
        return Source(states.to(votes[0].dtype), mask, votes=votes)

    def repeat(self, times: int) -> "PastFutureEncoderOutput":
        """Repeats every sentence, each beside itself; leaves out what nothing reads any more."""
        repeated = copy.copy(self)
        for name, value in self.items():
            is_tensor = isinstance(value, Tensor)
            repeated[name] = value.repeat_interleave(times, dim=0) if is_tensor else None
        return repeated


class PastFutureEncoder(nn.Module):
    """Encodes and casts votes; generate() asks for it by get_encoder()."""

    main_input_name = "input_ids"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.owner = (model,)  # in a tuple, so that its parameters are not listed here again

    def forward(
        self,
        input_ids: Int[Tensor, "b f"] | None = None,
        attention_mask: Int[Tensor, "b f"] | None = None,
        **options: Any,
    ) -> PastFutureEncoderOutput:
        """Reads sources as the tokenizer writes them.

        `options` are those of transformers: output_attentions and output_hidden_states.
        """
        (model,) = self.owner
        if input_ids is None:
            raise UntoldError("a source is given as input_ids: embeddings do not tell its words")
        framed = frame_source(input_ids, attention_mask, model.frame)
        model.frame.check_length(framed.real.shape[1])
        read = model.stock.get_encoder()(
            framed.ids, attention_mask=framed.real.long(), **model.recorded(options)
        )
        states = framed.pick(read.last_hidden_state).to(model.capsule_dtype)
        source = model.separation.cast(Source(states, framed.mask))
        return PastFutureEncoderOutput.of(read, framed, source)


class PastFuturePreTrainedModel(_transformers.PreTrainedModel):
    """Joins a backbone with past and future."""

    config_class: ClassVar[Any] = PastFutureConfig
    main_input_name: ClassVar[str] = "input_ids"
    accepts_loss_kwargs: ClassVar[bool] = True  # the trainer gives num_items_in_batch
    supports_gradient_checkpointing: ClassVar[bool] = True
    _keep_in_fp32_modules_strict: Any = ("past_future",)
    backbone: Any  # a HuggingFaceBackbone
    past_future: Any  # a PastFuture, or what peft puts around it

    def __init__(
        self, config: PastFutureConfig, backbone: HuggingFaceBackbone | None = None
    ) -> None:
        """Builds an untrained model, or puts new modules on top of a backbone that is there."""
        super().__init__(config)
        untold, sizes = config.untold, config.sizes
        if backbone is None:
            built = build_model(untold.model, sizes, shared=sizes[0] == sizes[1])
            assert built.past_future is not None
            self.backbone, self.past_future = built.backbone, built.past_future
        else:
            self.backbone = backbone
            self.past_future = PastFuture(untold.model, backbone.widths, sizes)
        self.losses, self.frame = untold.train, TextFrame.of(config)
        self.tokenizer: Any = None  # save_pretrained writes it for untold's commands
        self.post_init()
        self._freeze()

    @classmethod
    def from_backbone(cls, name: str, *, dtype: torch.dtype | None = None, **settings: Any) -> Any:
        """Puts past and future on top of a folder or a model of the hub.

        `settings` are keys of the section [model.separator], keys of [train] about losses,
        `freeze_backbone` among them, and languages: see docs/huggingface.md. `dtype` is that of
        the backbone's weights, float32 by default.
        """
        model = cls.from_wrapped(read_folder(name, choose_languages(settings)), settings)
        return model if dtype is None else model.to(dtype)

    @classmethod
    def from_wrapped(cls, folder: HuggingFaceFolder, settings: Mapping[str, Any]) -> Any:
        """Puts past and future on top of a model that is wrapped already, and takes it over."""
        backbone = folder.model.backbone
        assert isinstance(backbone, HuggingFaceBackbone)
        stock, config = backbone.model, settings_with(folder.config, settings)
        model = cls(PastFutureConfig.of(folder, config, stock.config), backbone)
        model.tokenizer = folder.tokenizers.wrapped
        model.generation_config = copy.deepcopy(stock.generation_config)
        beginning = folder.tokenizers.framing.beginning  # which generate() then begins with
        model.generation_config.decoder_start_token_id = beginning[0]
        if len(beginning) > 1:
            model.generation_config.forced_bos_token_id = beginning[1]
        return model.eval()

    @classmethod
    def from_pretrained(cls, name: Any, *others: Any, **options: Any) -> Any:
        loaded = super().from_pretrained(name, *others, **options)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model._freeze()  # weights that were read are free again
        model.tokenizer = None if name is None else _find_tokenizer(str(name))
        return loaded

    def save_pretrained(self, save_directory: Any, **options: Any) -> None:
        """Writes a folder for transformers and for untold's commands.

        A model whose folder had no tokenizer cannot be used by the commands, and is not sealed.
        """
        folder = Path(save_directory)
        if options.get("push_to_hub"):
            raise UntoldError(
                "push_to_hub=True would send the folder before it is whole: call push_to_hub() of "
                "the model"
            )
        if not options.get("is_main_process", True):
            super().save_pretrained(folder, **options)
            return
        with writing(folder):  # without a manifest the folder counts as unfinished
            for name in (MANIFEST, WEIGHT_INDEX):  # an old index would stay beside one new file
                (folder / name).unlink(missing_ok=True)
        super().save_pretrained(folder, **options)
        with writing(folder):  # one old file would be read in place of several new ones
            if (folder / WEIGHT_INDEX).is_file():
                (folder / WEIGHTS).unlink(missing_ok=True)
        if self.tokenizer is not None:
            complete_folder(folder, self.config, self.tokenizer)

    @property
    def stock(self) -> Any:
        """The model of transformers below past and future."""
        return self.backbone.model

    @property
    def separation(self) -> PastFuture:
        """Past and future themselves, or the copy of them that peft trains."""
        around = self.past_future
        if isinstance(around, PastFuture):
            return around
        if around.disable_adapters or not around.active_adapters:
            return around.original_module
        return around.modules_to_save[around.active_adapters[0]]

    @property
    def capsule_dtype(self) -> torch.dtype:
        """The dtype of past and future."""
        return next(self.separation.parameters()).dtype

    @property
    def seq2seq(self) -> Seq2Seq:
        """Untold's model of the same modules; it costs nothing to make."""
        model = Seq2Seq(self.backbone, self.separation)
        model.training = self.training
        return model

    def get_encoder(self, *names: Any, **options: Any) -> nn.Module:  # noqa: ARG002
        return PastFutureEncoder(self)

    def recorded(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Picks what asks for attention weights and hidden states, here or in the settings."""
        asked = {name: options.get(name) for name in _RECORDED}
        asked = {k: getattr(self.config, k) if v is None else v for k, v in asked.items()}
        return {name: value for name, value in asked.items() if value}

    def get_input_embeddings(self) -> Any:
        return self.stock.get_input_embeddings()

    def get_output_embeddings(self) -> Any:
        return self.stock.get_output_embeddings()

    def resize_token_embeddings(self, *sizes: Any, **options: Any) -> nn.Module:
        if sizes or options:
            raise UntoldError(
                "resize_token_embeddings: past and future keep the vocabulary that they began "
                "with: give the tokens to the backbone, save it, and call from_backbone"
            )
        return self.get_input_embeddings()

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Names the weights that the backbone shares, as they are called here."""
        if all_submodels:
            return super().get_expanded_tied_weights_keys(all_submodels=True)
        tied = self.stock.all_tied_weights_keys
        return {f"backbone.model.{k}": f"backbone.model.{v}" for k, v in tied.items()}

    def set_attn_implementation(self, attn_implementation: Any, *others: Any) -> None:
        """Refuses another attention: masks have the form that this one reads."""
        if attn_implementation != FOLDED:
            raise UntoldError(
                f"attn_implementation = {shorten(attn_implementation)}: past and future need their "
                "own attention, which runs torch's scaled_dot_product_attention: leave it out"
            )
        super().set_attn_implementation(attn_implementation, *others)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Moves or converts all weights, as to() asks; past and future keep 32 bits.

        Coverage is a sum over the whole target, which 16 bits round away.
        """
        spared = {id(part) for p in self.past_future.parameters() for part in (p, p.grad)}

        def change(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            is_narrower = changed.itemsize < min(4, tensor.itemsize)
            return tensor.to(changed.device) if is_narrower and id(tensor) in spared else changed

        return super()._apply(change, recurse)

    def train(self, mode: bool = True) -> Any:
        """Sets the mode; a frozen backbone works as in translation, without dropout."""
        super().train(mode)
        if self.losses.freeze_backbone:
            self.backbone.eval()
        return self

    def _freeze(self) -> None:
        """Stops training of all that translations depend on, if the settings ask for it."""
        if self.losses.freeze_backbone:
            self.backbone.requires_grad_(False)
            self.past_future.fusion.requires_grad_(False)

    def _init_weights(self, module: nn.Module) -> None:
        """Does nothing: untold's modules initialise themselves, and the fusion stays zero."""


def complete_folder(folder: Path, config: PastFutureConfig, tokenizer: Any) -> None:
    """Adds untold's files to those of transformers, the manifest last."""
    weights = weight_files(folder)
    if not (folder / weights[0]).is_file():
        raise UntoldError(
            f"{folder}: untold reads {WEIGHTS}, and the weights have another name: leave out "
            "variant of save_pretrained"
        )
    tokenizers = HuggingFaceTokenizers.of(tokenizer, config.tokenizer_use(), str(folder))
    with writing(folder):
        text = config.untold.model_dump_json(indent=1) + "\n"
        (folder / OWN_CONFIG).write_text(text, encoding="utf-8")
        tokenizers.save(folder)
        with quiet():
            tokenizer.save_pretrained(str(folder))
        files = [path.relative_to(folder).as_posix() for path in (folder / FOLDER).rglob("*")]
        index = [] if weights == [WEIGHTS] else [WEIGHT_INDEX]
        seal_directory(folder, [CONFIG, *weights, *index, OWN_CONFIG, *files])


def _find_tokenizer(name: str) -> Any:
    """Reads the tokenizer of a folder or of a model of the hub; None if there is none."""
    folder = Path(name) / FOLDER
    if folder.is_dir():
        return read_tokenizer(folder)
    try:
        return read_tokenizer(name)
    except UntoldError:
        return None
