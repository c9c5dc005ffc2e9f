"""A model of transformers with past and future: for its trainers, its generate() and its hub.

The modules, the losses and the names of all parameters are untold's own. Training runs as in
untold, over a whole target at once; generate() reads token by token with the caches of
transformers, where coverage is one more layer.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from untold.errors import UntoldError
from untold.huggingface.coverage_cache import read_coverage, write_coverage
from untold.huggingface.huggingface_backbone import HuggingFaceBackbone
from untold.huggingface.huggingface_folder import HuggingFaceFolder, read_folder
from untold.huggingface.pretrained_batch import TextFrame, frame_source, make_batch
from untold.huggingface.pretrained_config import PastFutureConfig, choose_languages, settings_with
from untold.huggingface.pretrained_folder import complete_folder, find_tokenizer, open_folder
from untold.huggingface.pretrained_outputs import PastFutureEncoderOutput, PastFutureOutput
from untold.huggingface.transformers_extra import import_transformers
from untold.models.backbone import Decoded, Source
from untold.models.build import build_model
from untold.models.past_future import PastFuture
from untold.models.seq2seq import Seq2Seq
from untold.training.losses.objective import Objective

__all__ = ["PastFutureForConditionalGeneration"]

_transformers: Any = import_transformers()
_Output: Any = PastFutureOutput  # type checkers do not know the fields that it inherits


class _VotingEncoder(nn.Module):
    """Encodes and casts votes; generate() asks for it by get_encoder()."""

    main_input_name = "input_ids"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.owner = (model,)  # in a tuple, so that its parameters are not listed here again

    def forward(
        self,
        input_ids: Int[Tensor, "b f"],
        attention_mask: Int[Tensor, "b f"] | None = None,
        **options: Any,  # noqa: ARG002 - transformers asks for dictionaries and the like
    ) -> PastFutureEncoderOutput:
        """Reads sources as the tokenizer writes them."""
        (model,) = self.owner
        framed = frame_source(input_ids, attention_mask, model.frame)
        encoder = model.stock.get_encoder()
        states = encoder(input_ids=framed.ids, attention_mask=framed.real.long()).last_hidden_state
        source = _active(model.past_future).cast(Source(framed.pick(states), framed.mask))
        return PastFutureEncoderOutput.of(states, framed.places, source)


class PastFutureForConditionalGeneration(
    _transformers.PreTrainedModel, _transformers.GenerationMixin
):
    """Puts past and future on top of Marian, BART, mBART, M2M100, NLLB or T5."""

    config_class: ClassVar[Any] = PastFutureConfig
    main_input_name: ClassVar[str] = "input_ids"
    accepts_loss_kwargs: ClassVar[bool] = True  # the trainer gives num_items_in_batch
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
    def from_backbone(cls, name: str, **settings: Any) -> Any:
        """Puts past and future on top of a folder or a model of the hub.

        `settings` are keys of the section [model.separator], keys of [train] about losses,
        `freeze_backbone` among them, and languages: see docs/huggingface.md.
        """
        return cls.from_wrapped(read_folder(name, choose_languages(settings)), settings)

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
        open_folder(folder)
        super().save_pretrained(folder, **options)
        if self.tokenizer is not None and options.get("is_main_process", True):
            complete_folder(folder, self.config, self.tokenizer)

    @property
    def stock(self) -> Any:
        """Returns the model of transformers below past and future."""
        return self.backbone.model

    @property
    def seq2seq(self) -> Seq2Seq:
        """Returns untold's model of the same modules; it costs nothing to make."""
        whole = Seq2Seq(self.backbone, _active(self.past_future))
        whole.training = self.training
        return whole

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: Any = None,
        labels: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Computes the loss of labels, or predicts what follows decoder_input_ids.

        `options` are those of transformers: past_key_values, num_items_in_batch, return_dict and
        decoder_attention_mask. With labels, logits are computed in evaluation mode alone.
        """
        if labels is not None:
            if input_ids is None:
                raise UntoldError("labels need input_ids: the losses read the words of the source")
            made = self._learn(input_ids, attention_mask, labels, decoder_input_ids, options)
        else:
            made = self._predict(
                input_ids, attention_mask, decoder_input_ids, encoder_outputs, options
            )
        return made if options.get("return_dict", True) else made.to_tuple()

    def _learn(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        labels: Tensor,
        decoder_input_ids: Tensor | None,
        options: Mapping[str, Any],
    ) -> PastFutureOutput:
        """Computes untold's objective, divided by the number of labels."""
        seq2seq, hidden = self.seq2seq, self.frame.hidden
        prefix = decoder_input_ids
        if prefix is None:
            prefix = self.prepare_decoder_input_ids_from_labels(labels)
        framed = frame_source(input_ids, attention_mask, self.frame)
        batch = make_batch(framed, labels, prefix, self.frame)
        encoded = self.backbone.encode_framed(framed.ids, framed.real)
        own = Source(framed.pick(encoded.states), framed.mask, encoded.memory)
        source = _active(self.past_future).cast(own)
        states = self.backbone.decode_framed(source, prefix).states
        outputs = seq2seq.decode(source, batch.prefix, decoded=Decoded(states[:, hidden:]))
        with self._draws():
            losses = Objective(seq2seq, self.losses)(batch, 1, outputs)
        count = options.get("num_items_in_batch")
        count = (labels != -100).sum() if count is None else count
        logits = None
        if not self.training:
            before = self.backbone.finish(states[:, :hidden])
            logits = seq2seq.logits(torch.cat([before, outputs.holistic], dim=1))
        assert outputs.assignments is not None
        shares = _spread(outputs.assignments, framed.places, hidden, input_ids.shape[1])
        return _Output(loss=losses.total / count, logits=logits, assignments=shares)

    def _predict(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        decoder_input_ids: Tensor | None,
        encoded: Any,
        options: Mapping[str, Any],
    ) -> PastFutureOutput:
        """Reads more tokens of each translation, after those that the cache holds."""
        if self.training and torch.is_grad_enabled():
            raise UntoldError(
                "no labels to train on: if the trainer smooths labels it takes them away: set "
                "label_smoothing of from_backbone, not label_smoothing_factor"
            )
        if decoder_input_ids is None:
            raise UntoldError("neither labels nor decoder_input_ids: give one of them")
        encoded = self._encoded(input_ids, attention_mask, encoded)
        cache = options.get("past_key_values")
        start = 0 if cache is None else int(cache.get_seq_length())
        read = self.stock.get_decoder()(
            input_ids=decoder_input_ids,
            attention_mask=options.get("decoder_attention_mask"),
            encoder_hidden_states=encoded.last_hidden_state,
            encoder_attention_mask=attention_mask,
            past_key_values=cache,
            use_cache=cache is not None,
        )
        states = read.last_hidden_state
        holistic, shares = self._read_out(encoded.source(), decoder_input_ids, states, start, cache)
        hidden, width = states.shape[1] - shares.shape[1], encoded.last_hidden_state.shape[1]
        return _Output(
            logits=self.seq2seq.logits(holistic),
            past_key_values=cache,
            encoder_last_hidden_state=encoded.last_hidden_state,
            assignments=_spread(shares, encoded.places, hidden, width),
        )

    def _encoded(self, input_ids: Tensor | None, mask: Tensor | None, encoded: Any) -> Any:
        """Returns what was encoded, or encodes."""
        if encoded is None:
            if input_ids is None:
                raise UntoldError("neither input_ids nor encoder_outputs: give one of them")
            return self.get_encoder()(input_ids, mask)
        if not isinstance(encoded, PastFutureEncoderOutput):
            raise UntoldError(
                "encoder_outputs have no votes: take them from get_encoder() of this model"
            )
        return encoded

    def _read_out(
        self, source: Source, ids: Tensor, states: Tensor, start: int, cache: Any
    ) -> tuple[Float[Tensor, "b t o"], Float[Tensor, "b u i g"]]:
        """Joins past and future to the states of positions from `start` on; u of them separate."""
        seq2seq, frame = self.seq2seq, self.frame.hidden
        hidden = min(len(ids[0]), max(0, frame - start))
        parts, shares = [self.backbone.finish(states[:, :hidden])], []
        covers = _active(self.past_future).coverage is not None
        if hidden < len(ids[0]) and (start <= frame or not covers):
            read = seq2seq.decode(source, ids[:, hidden:], decoded=Decoded(states[:, hidden:]))
            parts.append(read.holistic)
            shares.append(read.assignments)
            assert read.separated is not None
            if cache is not None and read.separated.covered is not None:
                write_coverage(cache, read.separated.covered[:, -1])
        elif hidden < len(ids[0]):
            covered = read_coverage(cache)
            for last, state in zip(ids.split(1, dim=1), states.split(1, dim=1), strict=True):
                step = seq2seq.read_step(source, last, Decoded(state), covered, begins=False)
                parts.append(step.holistic)
                shares.append(step.signals.assignments)
                assert step.covered is not None
                covered = step.covered
            write_coverage(cache, covered)
        none = states.new_zeros(len(ids), 0, source.mask.shape[1], 3)
        return torch.cat(parts, dim=1), torch.cat([none, *shares], dim=1)

    def generate(self, inputs: Any = None, generation_config: Any = None, **options: Any) -> Any:
        """Generates as transformers does; with return_dict_in_generate also gives `assignments`.

        assignments[:, t] are those before the token sequences[:, t + 1] was said: one parallel pass
        over the chosen sequences gives them. They are zero after the end of a sequence.
        """
        made = super().generate(inputs, generation_config, **options)
        if isinstance(made, Tensor):
            return made
        ids = options.get("input_ids") if inputs is None else inputs
        with torch.no_grad():
            made["assignments"] = self._shares_of(
                ids,
                options.get("attention_mask"),
                options.get("encoder_outputs"),
                made["sequences"],
            )
        return made

    def _shares_of(
        self, ids: Tensor | None, mask: Tensor | None, encoded: Any, sequences: Tensor
    ) -> Float[Tensor, "r t f g"]:
        """Reads whole sequences, of which each sentence has the same number."""
        if mask is None and ids is not None:
            mask = (ids != self.frame.source.pad).long()
        encoded = self._encoded(ids, mask, encoded)
        times = len(sequences) // len(encoded.last_hidden_state)
        rows = None if mask is None else mask.repeat_interleave(times, dim=0)
        read = self.forward(
            attention_mask=rows,
            decoder_input_ids=sequences[:, :-1],
            encoder_outputs=encoded.repeat(times),
        )
        said = sequences[:, 1:] != self.frame.target.pad
        return read.assignments * said[:, :, None, None]

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Shifts labels as the backbone does: mBART moves the last, a language, to the front."""
        stock = self.stock
        shift = getattr(stock, "prepare_decoder_input_ids_from_labels", None)
        if shift is not None:
            return shift(labels)
        start = torch.full_like(labels[:, :1], stock.config.decoder_start_token_id)
        shifted = torch.cat([start, labels[:, :-1]], dim=1)
        return shifted.masked_fill(shifted == -100, stock.config.pad_token_id)

    @staticmethod
    def create_masks_for_generate(attention_mask: Any = None, **options: Any) -> Any:  # noqa: ARG004
        """Leaves masks to the decoder, which knows its attention."""
        return attention_mask

    def get_encoder(self, *names: Any, **options: Any) -> nn.Module:  # noqa: ARG002
        """Returns the encoder, which also casts votes."""
        return _VotingEncoder(self)

    def get_input_embeddings(self) -> nn.Module:
        """Returns those of the backbone."""
        return self.stock.get_input_embeddings()

    def get_output_embeddings(self) -> nn.Module:
        """Returns the output layer of the backbone."""
        return self.stock.get_output_embeddings()

    def resize_token_embeddings(self, *sizes: Any, **options: Any) -> nn.Module:  # noqa: ARG002
        """Refuses: the bias and the lexicon have a row for each token, too."""
        raise UntoldError("resize the backbone, save it, and give that folder to from_backbone")

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Names the weights that the backbone shares, as they are called here."""
        if all_submodels:
            return super().get_expanded_tied_weights_keys(all_submodels=True)
        tied = self.stock.all_tied_weights_keys
        return {f"backbone.model.{k}": f"backbone.model.{v}" for k, v in tied.items()}

    def _freeze(self) -> None:
        """Stops training of all that translations depend on, if the settings ask for it."""
        if self.losses.freeze_backbone:
            self.backbone.requires_grad_(False)
            self.past_future.fusion.requires_grad_(False)

    def _init_weights(self, module: nn.Module) -> None:
        """Does nothing: untold's modules initialise themselves, and the fusion stays zero."""

    def _draws(self) -> AbstractContextManager[None]:
        """Lets evaluation draw the same numbers every time, and training go on with its own."""
        return nullcontext() if self.training else _same_draws()


@contextmanager
def _same_draws() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def _spread(
    shares: Float[Tensor, "b u i g"], places: Int[Tensor, "b i"], hidden: int, width: int
) -> Float[Tensor, "b t f g"]:
    """Puts shares to the columns of the input, behind positions at which nothing is separated."""
    whole = shares.new_zeros(len(shares), hidden + shares.shape[1], width, shares.shape[3])
    index = places[:, None, :, None].expand_as(shares)
    whole[:, hidden:].scatter_(2, index, shares)  # zero at places behind the end of a row
    return whole


def _active(past_future: Any) -> PastFuture:
    """Returns the module itself, or the copy of it that peft trains."""
    if isinstance(past_future, PastFuture):
        return past_future
    if past_future.disable_adapters or not past_future.active_adapters:
        return past_future.original_module
    return past_future.modules_to_save[past_future.active_adapters[0]]


_transformers.AutoConfig.register(PastFutureConfig.model_type, PastFutureConfig)
_transformers.AutoModelForSeq2SeqLM.register(PastFutureConfig, PastFutureForConditionalGeneration)
