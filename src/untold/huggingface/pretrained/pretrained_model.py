"""The modules of a model of transformers with past and future, its folder and its encoder.

Its modules and the names of all its parameters are untold's own.
"""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from untold.errors import UntoldError, shorten
from untold.huggingface.folded_attention import FOLDED
from untold.huggingface.huggingface_backbone import HuggingFaceBackbone
from untold.huggingface.huggingface_folder import HuggingFaceFolder, read_folder
from untold.huggingface.pretrained.pretrained_batch import TextFrame, frame_embedded, frame_source
from untold.huggingface.pretrained.pretrained_config import (
    PastFutureConfig,
    choose_languages,
    settings_with,
)
from untold.huggingface.pretrained.pretrained_folder import (
    complete_folder,
    find_tokenizer,
    open_folder,
    remove_old_weights,
)
from untold.huggingface.pretrained.pretrained_outputs import PastFutureEncoderOutput
from untold.huggingface.pretrained.pretrained_precision import sparing
from untold.huggingface.transformers_extra import import_transformers
from untold.models.backbone import Backbone, Source
from untold.models.build import build_model
from untold.models.past_future import PastFuture
from untold.models.seq2seq import Seq2Seq

__all__ = ["PastFuturePreTrainedModel", "VotingEncoder"]

_transformers: Any = import_transformers()
_RECORDED = ("output_attentions", "output_hidden_states")


class VotingEncoder(nn.Module):
    """Encodes and casts votes; generate() asks for it by get_encoder()."""

    main_input_name = "input_ids"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.owner = (model,)  # in a tuple, so that its parameters are not listed here again

    def forward(
        self,
        input_ids: Int[Tensor, "b f"] | None = None,
        attention_mask: Int[Tensor, "b f"] | None = None,
        inputs_embeds: Float[Tensor, "b f d"] | None = None,
        **options: Any,
    ) -> PastFutureEncoderOutput:
        """Reads sources as the tokenizer writes them, or the embeddings of such sources.

        `options` are those of transformers: output_attentions and output_hidden_states.
        """
        (model,) = self.owner
        if input_ids is not None and inputs_embeds is None:
            framed = frame_source(input_ids, attention_mask, model.frame)
            given: dict[str, Any] = {"input_ids": framed.ids}
        elif inputs_embeds is not None and input_ids is None:
            framed = frame_embedded(inputs_embeds, attention_mask, model.frame)
            given = {"inputs_embeds": inputs_embeds}
        else:
            raise UntoldError("a source is either input_ids or inputs_embeds: give one of them")
        model.frame.check_length(framed.real.shape[1])
        read = model.stock.get_encoder()(
            **given, attention_mask=framed.real.long(), **model.recorded(options)
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
    def from_wrapped(cls, found: HuggingFaceFolder, settings: Mapping[str, Any]) -> Any:
        """Puts past and future on top of a model that is wrapped already, and takes it over."""
        backbone = found.model.backbone
        assert isinstance(backbone, HuggingFaceBackbone)
        stock, config = backbone.model, settings_with(found.config, settings)
        model = cls(PastFutureConfig.of(found, config, stock.config), backbone)
        model.tokenizer = found.tokenizers.wrapped
        model.generation_config = copy.deepcopy(stock.generation_config)
        beginning = found.tokenizers.framing.beginning  # which generate() then begins with
        model.generation_config.decoder_start_token_id = beginning[0]
        if len(beginning) > 1:
            model.generation_config.forced_bos_token_id = beginning[1]
        return model.eval()

    @classmethod
    def from_pretrained(cls, name: Any, *others: Any, **options: Any) -> Any:
        """Reads a folder that save_pretrained wrote, or a model of the hub."""
        made = super().from_pretrained(name, *others, **options)
        model = made[0] if isinstance(made, tuple) else made
        model._freeze()  # weights that were read are free again
        model.tokenizer = None if name is None else find_tokenizer(str(name))
        return made

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
        open_folder(folder)
        super().save_pretrained(folder, **options)
        remove_old_weights(folder)
        if self.tokenizer is not None:
            complete_folder(folder, self.config, self.tokenizer)

    @property
    def stock(self) -> Any:
        """Returns the model of transformers below past and future."""
        return self.backbone.model

    @property
    def separation(self) -> PastFuture:
        """Returns past and future themselves, or the copy of them that peft trains."""
        around = self.past_future
        if isinstance(around, PastFuture):
            return around
        if around.disable_adapters or not around.active_adapters:
            return around.original_module
        return around.modules_to_save[around.active_adapters[0]]

    @property
    def capsule_dtype(self) -> torch.dtype:
        """Returns the kind of numbers that past and future compute with."""
        return next(self.separation.parameters()).dtype

    @property
    def seq2seq(self) -> Seq2Seq:
        """Returns untold's model of the same modules; it costs nothing to make."""
        return self.seq2seq_on(self.backbone)

    def seq2seq_on(self, backbone: Backbone) -> Seq2Seq:
        """Returns the same with a backbone that stands for this one's."""
        whole = Seq2Seq(backbone, self.separation)
        whole.training = self.training
        return whole

    def get_encoder(self, *names: Any, **options: Any) -> nn.Module:  # noqa: ARG002
        """Returns the encoder, which also casts votes."""
        return VotingEncoder(self)

    def recorded(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Picks what asks for attention weights and hidden states, here or in the settings."""
        asked = {name: options.get(name) for name in _RECORDED}
        asked = {k: getattr(self.config, k) if v is None else v for k, v in asked.items()}
        return {name: value for name, value in asked.items() if value}

    def get_input_embeddings(self) -> nn.Module:
        """Returns those of the backbone."""
        return self.stock.get_input_embeddings()

    def get_output_embeddings(self) -> nn.Module:
        """Returns the output layer of the backbone."""
        return self.stock.get_output_embeddings()

    def resize_token_embeddings(
        self,
        new_num_tokens: int | None = None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
    ) -> nn.Module:
        """Makes room for tokens that were added to `tokenizer`, also in the bias and the lexicon.

        Optimizers must be made afterwards.
        """
        if new_num_tokens is None and pad_to_multiple_of is None:
            return self.get_input_embeddings()
        multiple = pad_to_multiple_of or 1
        size = -(-(new_num_tokens or self.config.sizes[1]) // multiple) * multiple
        described = self.config.resized(size, self.tokenizer)  # refuses, before anything changes
        self.stock.resize_token_embeddings(size, mean_resizing=mean_resizing)
        if (bias := self.backbone.output_bias) is not None:
            longer = nn.functional.pad(bias.detach(), (0, size - len(bias)))
            self.backbone.output_bias = nn.Parameter(longer, bias.requires_grad)
        if (lexicon := self.separation.heads.lexicon) is not None:
            lexicon.resize((size, size))
        self.config.backbone = copy.deepcopy(self.stock.config)
        self.config.special_ids, self.config.vocab_size = described, size
        self.frame = TextFrame.of(self.config)
        self._freeze()  # rows that are new are free
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
        """Moves or converts all weights, as to() asks; past and future keep 32 bits."""
        return super()._apply(sparing(self.past_future, fn), recurse)

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
