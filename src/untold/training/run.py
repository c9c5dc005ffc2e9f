"""One training run: sets up data, model and objective, resumes or warm-starts, and trains.

Warm start: a new model takes over every tensor of another one that fits, and reports it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import nn

from untold.config import Config, idle_settings
from untold.corpus.tokenizer import Tokenizers
from untold.errors import UntoldError
from untold.files import lock_directory, remove_litter, write_file
from untold.hardware import check_precision, choose_precision, warn_of_memory
from untold.interruption import Interrupted, stop_signals
from untold.models.build import build_model_for
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import (
    BEST,
    CHECKPOINTS,
    TrainedModel,
    hugging_face_name,
    load_model,
    load_weights,
    read_config,
)
from untold.storage.summary import RunRecord, read_record, write_record
from untold.training.checkpoint import (
    Checkpoint,
    Checkpoints,
    check_init,
    check_unchanged,
    describe_resumption,
    run_facts,
)
from untold.training.data import TrainingData, check_files, prepare_data
from untold.training.distributed import ProcessGroup, check_compilation, compile_layers
from untold.training.log import NullReporter, Reporter
from untold.training.losses.objective import Objective, check_loss_names
from untold.training.progress import Progress, Validation
from untold.training.run_files import run_files
from untold.training.sequence.objective import make_objective
from untold.training.sequence.samples import Reward, make_reward
from untold.training.sharding import Shards, check_sharding
from untold.training.trainer import Hooks, RunContext, Trainer, make_optimizer
from untold.training.update_shares import advise_shares
from untold.training.validation import calibrate_best, make_validator

Shape = tuple[int, ...]


@dataclass(frozen=True)
class WarmStart:
    """Names the parameters that were taken over, are new, and were ignored in the other model.

    One of another shape is new and ignored at once; `reshaped` has its shapes there and here.
    """

    matched: tuple[str, ...]
    new: tuple[str, ...]
    ignored: tuple[str, ...]
    reshaped: Mapping[str, tuple[Shape, Shape]] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"{len(self.matched)} tensors taken over"]
        for words, names in self._others().items():
            if names:
                example = f", such as {names[0]}" if names[0] in self.reshaped else ""
                count = f"{len(names)} {words} ({_count_by_module(names)})"
                parts.append(f"{count}{example}{self._shapes(names[0])}")
        return "; ".join(parts)

    def listing(self) -> str:
        """Lists every name with what became of it, a line each."""
        rows = {"taken over": self.matched, **self._others()}
        return "".join(
            f"{words}: {name}{self._shapes(name)}\n"
            for words, names in rows.items()
            for name in names
        )

    def _others(self) -> dict[str, tuple[str, ...]]:
        """Sorts the names that were not taken over by the reason."""
        return {
            "of another shape": tuple(self.reshaped),
            "new": tuple(name for name in self.new if name not in self.reshaped),
            "not used": tuple(name for name in self.ignored if name not in self.reshaped),
        }

    def _shapes(self, name: str) -> str:
        there, here = self.reshaped.get(name, ((), ()))
        return f", {there} there and {here} here" if there or here else ""


@torch.no_grad()
def warm_start(model: nn.Module, other: nn.Module) -> WarmStart:
    """Copies into `model` each parameter of `other` that has the same name and shape."""
    theirs = dict(other.named_parameters())
    matched, reshaped = [], {}
    for name, parameter in model.named_parameters():
        if name not in theirs:
            continue
        if theirs[name].shape == parameter.shape:
            parameter.copy_(theirs[name])
            matched.append(name)
        else:
            reshaped[name] = (tuple(theirs[name].shape), tuple(parameter.shape))
    new = tuple(name for name, _ in model.named_parameters() if name not in matched)
    ignored = tuple(name for name in theirs if name not in matched)
    return WarmStart(tuple(matched), new, ignored, reshaped)


def _count_by_module(names: Iterable[str]) -> str:
    """Counts by module, such as "backbone.encoder 12, past_future 15"."""
    modules = Counter(
        ".".join(name.split(".")[: 2 if name.startswith("backbone.") else 1]) for name in names
    )
    return ", ".join(f"{module} {count}" for module, count in modules.items())


NAMES = "warm_start.txt"


@dataclass(frozen=True)
class RunOptions:
    """Says where a run writes, which model it starts from, and if changed settings may resume."""

    out: Path
    init: Path | None = None
    allow_changed: bool = False
    calibrate: bool = True  # fit probabilities of omissions when the run is over


@dataclass(frozen=True)
class TrainResult:
    """Says how a run ended; `signal` is not zero if it was interrupted."""

    out: Path
    progress: Progress
    signal: int = 0
    rank: int = 0


def train(config: Config, options: RunOptions, reporter: Reporter | None = None) -> TrainResult:
    """Trains until the run is over; a run with checkpoints goes on from the last one."""
    device = _device(config)
    check_precision(config.train.precision, device)
    if config.train.compile:
        check_compilation(device)
    record = read_record(options.out)
    # These fail before anything is written.
    _check_rates(config)
    _check_search(config)
    check_sharding(config)
    check_files(config.data, None if record is None else record.root)
    check_loss_names(config.train)
    reward = _reward(config)
    processes = ProcessGroup.init(device.type, config.train.timeout_minutes)
    try:
        if config.train.threads is not None:
            torch.set_num_threads(config.train.threads)
        if not processes.is_main:
            reporter = NullReporter(options.out, config.train.steps)
        reporter = reporter or Reporter(options.out, config.train.steps)
        context = RunContext(processes, reporter, Interrupted())
        # A launcher's processes must agree when to stop, so they note signals from the beginning.
        patient = processes.world_size > 1
        signals = stop_signals(context.interrupted, launched=True) if patient else nullcontext()
        with _lock(options.out, processes), reporter, signals:
            return _train(config, options, context, device, reward)
    finally:
        processes.destroy()


def _train(
    config: Config,
    options: RunOptions,
    context: RunContext,
    device: torch.device,
    reward: Reward | None,
) -> TrainResult:
    processes, reporter = context.processes, context.reporter
    checkpoints = Checkpoints(options.out, config.train.keep)
    checkpoint, init = _find_start(config, options, checkpoints, context)
    other = None if checkpoint is not None or init is None else _load_init(config, init)
    known = _tokenizers_of_weights(checkpoint, other)
    config = _settle_precision(_take_over(config, checkpoint, other), processes, device)
    data = _prepare_data(config, known, options.out, context)
    facts = run_facts(config, data, processes.world_size)
    if checkpoint is not None:
        check_unchanged(checkpoint, facts, reporter.say, allowed=options.allow_changed)
        reporter.say(describe_resumption(options.out, checkpoint.progress, config.train))
    if processes.is_main:
        write_record(options.out, config, init)
    model = _build(config, data.tokenizers, reporter)
    warm = None if other is None else _warm_start(model, other, options, context)
    if config.train.freeze_backbone:
        _freeze(model, warm, is_resumed=checkpoint is not None)
    is_shared = config.train.shard and processes.world_size > 1
    trained = TrainedModel(model if is_shared else model.to(device), config, data.tokenizers)
    objective = make_objective(trained, reward)
    shards = _shard(trained, objective, checkpoint, processes, device) if is_shared else None
    optimizer = make_optimizer(trained, objective)
    files = run_files(checkpoints, trained, optimizer, facts, shards)
    progress = Progress() if checkpoint is None else files.restore(checkpoint)
    whole = trained if shards is None else shards.twin or trained
    hooks = Hooks(_validator(data, whole, context), objective=objective, shards=shards)
    if processes.is_main or is_shared:
        hooks = replace(hooks, save=files.save, save_best=files.save_best)
    trainer = Trainer(trained, optimizer, data.train, context, hooks)
    with _patience(context):
        reporter.begin(progress.step)
        progress = trainer.run(progress)
        if processes.is_main and options.calibrate:
            calibrate_best(options.out, data.valid_pairs, reporter, context.interrupted)
    processes.barrier()
    return TrainResult(options.out, progress, context.interrupted.signal, processes.rank)


def _validator(
    data: TrainingData, trained: TrainedModel, context: RunContext
) -> Callable[[], Validation] | None:
    if data.valid is None:
        return None
    return make_validator(trained, data.valid, data.valid_pairs, context.interrupted)


def _shard(
    trained: TrainedModel,
    objective: Objective,
    checkpoint: Checkpoint | None,
    processes: ProcessGroup,
    device: torch.device,
) -> Shards:
    """Shards a model, after it got the weights of its checkpoint while it was whole."""
    if checkpoint is not None:
        load_weights(trained.model, checkpoint.directory)
    return Shards(trained, objective, processes, device)


def _find_start(
    config: Config, options: RunOptions, checkpoints: Checkpoints, context: RunContext
) -> tuple[Checkpoint | None, Path | None]:
    """Finds the checkpoint to go on from, and the model that the run began or begins with."""
    processes, say = context.processes, context.reporter.say
    for line in idle_settings(config):
        say(line)
    if config.train.shard and processes.world_size == 1:
        say("train.shard has no effect: one process has nobody to share with; start it by torchrun")
    wanted = config.train
    if advice := advise_shares(wanted.accumulate, wanted.batch_tokens, processes.world_size):
        say(advice)
    found: tuple[Checkpoint | None, RunRecord | None] = processes.broadcast(
        (checkpoints.latest(say), read_record(options.out)) if processes.is_main else None
    )
    checkpoint, record = found
    if checkpoint is not None:
        check_init(options.init, record, say)
        return checkpoint, options.init if record is None else record.init
    if options.allow_changed:
        say(f"--allow-changed has no effect: {options.out} has no checkpoint to go on from")
    if processes.is_main:  # now, since preparing the data may take long
        write_record(options.out, config, options.init)
    return None, options.init


def _load_init(config: Config, init: Path) -> TrainedModel:
    """Reads the model that a run begins with; a Hugging Face folder needs the run's languages."""
    if hugging_face_name(init) is None:
        return load_model(init)
    if config.model.backbone != "huggingface":
        raise UntoldError(
            f"--init {init}: is a Hugging Face model, and model.backbone is "
            f'{config.model.backbone}: set model.backbone to "huggingface"'
        )
    names = ("source_language", "target_language", "source_prefix")
    given = {name: getattr(config.model, name) for name in names}
    return load_model(init, settings={name: value for name, value in given.items() if value})


def _take_over(config: Config, checkpoint: Checkpoint | None, other: TrainedModel | None) -> Config:
    """Completes the settings by what only the weights to start from can tell."""
    if checkpoint is None:
        return config if other is None else config.starting_from(other.config.model)
    before = read_config(checkpoint.directory)
    if config.train.precision == "auto":  # another choice would change the numbers of the run
        config = _with_precision(config, before.train.precision)
    return config.starting_from(before.model)


def _settle_precision(config: Config, processes: ProcessGroup, device: torch.device) -> Config:
    """Chooses the precision if it is left open: the same one in all processes."""
    if config.train.precision != "auto":
        check_precision(config.train.precision, device)
        return config
    return _with_precision(config, processes.broadcast(choose_precision(device)))


def _with_precision(config: Config, precision: str) -> Config:
    train = config.train.model_copy(update={"precision": precision})
    return config.model_copy(update={"train": train})


def _patience(context: RunContext) -> AbstractContextManager[object]:
    """Lets a signal wait for the end of an update. Before the first update it stops at once."""
    if context.processes.world_size > 1:
        return nullcontext()
    return stop_signals(context.interrupted, context.reporter.say)


def _tokenizers_of_weights(
    checkpoint: Checkpoint | None, other: TrainedModel | None
) -> Tokenizers | None:
    """Returns the tokenizers that belong to the weights to start from, if there are such."""
    if checkpoint is not None:
        return Tokenizers.load(checkpoint.directory)
    return None if other is None else other.tokenizers


def _prepare_data(
    config: Config, known: Tokenizers | None, out: Path, context: RunContext
) -> TrainingData:
    with context.processes.main_process_first():  # it prepares the files that the others read
        return prepare_data(config, known, out, context.reporter.say)


def _build(config: Config, tokenizers: Tokenizers, reporter: Reporter) -> Seq2Seq:
    """Builds the model with the weights that the seed gives."""
    sizes = (len(tokenizers.source), len(tokenizers.target))
    torch.manual_seed(config.train.seed)
    model = build_model_for(tokenizers, config.model)
    _check_int8(config, model)
    parameters = sum(p.numel() for p in model.parameters())
    reporter.say(f"vocabulary {sizes[0]} + {sizes[1]}, {parameters:,} parameters")
    if not config.train.freeze_backbone:
        # Weights, gradients and two means of Adam, in four bytes each.
        cure = "lower the sizes in [model] or tokenizer.size"
        warn_of_memory("training this model", 4 * 4 * parameters, cure)
    if config.train.compile and not compile_layers(model):
        reporter.say(
            f"train.compile has no effect: the backbone {config.model.backbone} has none of the "
            "layers that are compiled"
        )
    return model


def _warm_start(
    model: Seq2Seq, other: TrainedModel, options: RunOptions, context: RunContext
) -> WarmStart:
    """Takes over weights and says so; unless all were, a file tells what became of each."""
    warm, path = warm_start(model, other.model), options.out / NAMES
    where = f"; every name is in {path}" if warm.new or warm.ignored else ""
    if where and context.processes.is_main:
        write_file(path, warm.listing().encode())
    context.reporter.say(f"starting from {options.init}: {warm}{where}")
    return warm


def _freeze(model: Seq2Seq, warm: WarmStart | None, *, is_resumed: bool) -> None:
    if warm is None and not is_resumed:
        raise UntoldError(
            "train.freeze_backbone keeps the model that a run starts from: name one with --init"
        )
    translating = ("backbone.", "copy_layer.")
    if strange := [name for name in (warm.new if warm else ()) if name.startswith(translating)]:
        raise UntoldError(
            f"train.freeze_backbone: the model of --init has no {strange[0]} of the same shape "
            f"({len(strange)} such tensors), which would stay untrained: give [model] its shape"
        )
    model.freeze_backbone()


def _device(config: Config) -> torch.device:
    wanted = config.train.device
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UntoldError('train.device = "cuda": torch sees no GPU here; use "cpu" or "auto"')
    use_cuda = wanted != "cpu" and torch.cuda.is_available()
    if not use_cuda:
        return torch.device("cpu")
    torch.cuda.set_device(ProcessGroup.local_rank())
    return torch.device("cuda", ProcessGroup.local_rank())


def _reward(config: Config) -> Reward | None:
    """Makes the reward of sequence-level training; None means that the run has none."""
    sequence = config.train.sequence
    return make_reward(sequence, config.data.bleu_tokenize) if sequence.is_on else None


def _check_rates(config: Config) -> None:
    """Refuses a minimum above the maximum; models that were trained so can still be loaded."""
    least, most = config.train.min_learning_rate, config.train.learning_rate
    if least > most:
        raise UntoldError(
            f"train.min_learning_rate = {least:g} is above train.learning_rate = {most:g}: lower it"
        )


def _check_search(config: Config) -> None:
    """Refuses a search that the first validation would fail with."""
    decode, separates = config.decode, config.model.separator.kind != "none"
    by_past = decode.coverage_penalty > 0 and decode.coverage_source == "past"
    if config.train.validate_bleu and not separates and by_past:
        raise UntoldError(
            'decode.coverage_source = "past" needs a model with past and future: set '
            'model.separator.kind = "gdr", or leave it out'
        )


def _check_int8(config: Config, model: Seq2Seq) -> None:
    """Refuses 8-bit numbers in validation by BLEU if nothing can lay the model out for them."""
    asked = config.train.validate_bleu and config.decode.int8
    if asked and model.backbone.parts() is None:
        raise UntoldError(
            f"decode.int8 is for Transformers, and this model ({config.model.backbone}) cannot be "
            "laid out as one: leave it out"
        )


@contextmanager
def _lock(out: Path, processes: ProcessGroup) -> Iterator[None]:
    """Locks the directory of the run and clears what a crash left, in the main process."""
    with lock_directory(out) if processes.is_main else nullcontext():
        if processes.is_main:
            for parent in (out, out / CHECKPOINTS, out / BEST, out / "corpus"):
                remove_litter(parent)
        yield
