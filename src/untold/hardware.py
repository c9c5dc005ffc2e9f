"""Choose how many threads torch computes with, and how long its idle threads spin.

OpenMP's threads wait for each other many times in every layer, and they spin while they wait. That
is fast on a quiet machine. Where other programs want the same processors, a spinning thread holds
the processor that the thread it waits for needs, and training becomes up to a hundred times slower.

OpenMP reads its settings once, when torch is imported. So `choose_at_startup` runs before that and
imports nothing heavy. The number of threads may change later: `ThreadKeeper` changes it during
training. docs/threads.md describes the rule and how to measure it.

Finds the control groups of this process, by which Linux limits processors, memory and tasks.
Says where bf16 is computed in hardware; elsewhere it is imitated, a hundred times slower.

Estimates the memory that models, training and search need, and refuses what cannot fit.

A process that takes more memory than there is gets killed without a word. The estimates are low:
they count what is certainly needed, so that nothing is refused that would have worked.
"""

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from untold.config import Config, DecodeConfig, ModelConfig
from untold.errors import UntoldError
from untold.models.build import build_model

ROOT = Path("/")
_BF16 = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
_IMITATED = 4.0  # times as long as in 32 bits: far above noise, and far below imitation


def cgroups(controller: str, root: Path = ROOT) -> Iterator[Path]:
    """Yields the directories of the groups that limit `controller`, such as cpu, inside out.

    Versions 1 and 2 of control groups may be mounted side by side.
    """
    for line in read_text(root / "proc/self/cgroup").split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0":  # version 2
            mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif controller in controllers.split(","):
            mounts = [f"sys/fs/cgroup/{controllers}", f"sys/fs/cgroup/{controller}"]
        else:
            continue
        for mount in mounts:
            yield from _upwards(root / mount, path)


def read_text(path: Path) -> str:
    """Reads a small file of the system; the text is empty if there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """Yields a group and those around it; in a container the path may not exist, its root does."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])


SMALL_MODEL = 30_000  # parameters; two threads train a smaller model no faster than one
_BUSY_SPIN = 1_000  # rounds that an idle thread spins on a busy machine before it sleeps
_CHECK_SECONDS = 10.0  # between two looks at the machine during training
_SAMPLES, _PAUSE = 5, 0.005  # one look: so many readings, so many seconds apart

# A user who sets one of these has chosen, and nothing is changed.
_SETTINGS = (
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME",
    "MKL_NUM_THREADS",
)
_CHOSEN = "UNTOLD_CHOSE"  # names the settings that we set, so that they are not taken for a user's


@dataclass(frozen=True)
class Surroundings:
    """Counts the cores that a process may use, its quota of them, and who else wants them."""

    cores: int
    quota: float | None = None  # in cores; None: no limit
    others: int = 0  # processes and threads of others that run or wait for a processor


@dataclass(frozen=True)
class ThreadPlan:
    """How many threads compute; `spin` None keeps OpenMP's own, long, spinning."""

    threads: int
    spin: int | None = None


def plan(around: Surroundings, parameters: int | None = None) -> ThreadPlan:
    """Give torch the cores that others leave; spin long only where nobody else wants them."""
    threads = around.cores - around.others
    if around.quota is not None:
        threads = min(threads, int(around.quota))
    if parameters is not None and parameters < SMALL_MODEL:
        threads = 1
    return ThreadPlan(max(threads, 1), _BUSY_SPIN if around.others else None)


def choose_at_startup(
    environ: MutableMapping[str, str] | None = None, root: Path = ROOT
) -> ThreadPlan | None:
    """Set OpenMP's variables before torch is imported; None: it is too late, or the user chose."""
    if environ is None:
        if "torch" in sys.modules:
            return None
        environ = os.environ
    if _user_chose(environ):
        return None
    around = read_surroundings(root)
    chosen = plan(around)
    settings: dict[str, str] = {}
    if chosen.threads < around.cores:
        settings["OMP_NUM_THREADS"] = str(chosen.threads)
    if chosen.spin is not None:
        settings["GOMP_SPINCOUNT"] = str(chosen.spin)
    for name in _SETTINGS:  # those that a parent process of ours had set
        environ.pop(name, None)
    environ.update(settings)
    environ[_CHOSEN] = ",".join(settings)
    return chosen


def ask_for_large_pages(environ: MutableMapping[str, str] | None = None) -> None:
    """Let torch ask Linux for pages of 2 MB, unless the user chose; before torch is imported.

    Weights of a large model lie on tens of thousands of small pages, and a step of one sentence,
    which reads each weight once, spends a good part of its time on looking those up.
    """
    environ = os.environ if environ is None else environ
    environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def is_ours_to_choose(environ: MutableMapping[str, str] | None = None) -> bool:
    """Return True if `choose_at_startup` chose for this process, and the user set nothing."""
    environ = os.environ if environ is None else environ
    return _CHOSEN in environ and not _user_chose(environ)


def _user_chose(environ: MutableMapping[str, str]) -> bool:
    ours = environ.get(_CHOSEN, "").split(",")
    return any(name in environ and name not in ours for name in _SETTINGS)


def read_surroundings(root: Path = ROOT) -> Surroundings:
    """Look at affinity, cgroup quota and load; this takes 20 milliseconds."""
    cpus, machine = _affinity(), os.cpu_count() or 1
    # The kernel counts the whole machine; on a part of it we expect our share of the others.
    others = round(count_others(root) * min(len(cpus) / machine, 1.0))
    return Surroundings(count_cores(cpus, root), read_quota(root), others)


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def count_cores(cpus: set[int], root: Path = ROOT) -> int:
    """Count the cores behind processor numbers: two hyper-threads of one core count once."""
    topology = root / "sys/devices/system/cpu"
    cores = {
        read_text(topology / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in cpus
    }
    return max(len(cores), 1)


def count_others(root: Path = ROOT, samples: int = _SAMPLES) -> int:
    """Count what runs or waits for a processor beside this process: the median of some readings.

    The load average would be a minute late.
    """
    others = []
    for number in range(samples):
        if number:
            time.sleep(_PAUSE)
        running = _running(root)
        if running is not None:
            others.append(max(running - _own_running(root), 0))
    return int(statistics.median(others)) if others else 0


def _running(root: Path) -> int | None:
    """Read the kernel's count, such as 3 in "0.58 0.79 0.56 3/89 10054"; None: no Linux."""
    fields = read_text(root / "proc/loadavg").split()
    count = fields[3].partition("/")[0] if len(fields) > 3 else ""
    return int(count) if count.isdigit() else None


def _own_running(root: Path) -> int:
    """Count the threads of this process that run or wait: spinning ones are among them."""
    states = (read_text(stat) for stat in (root / "proc/self/task").glob("*/stat"))
    own = sum(state.rpartition(")")[2].split()[:1] == ["R"] for state in states)
    return max(own, 1)  # this very thread runs


def read_quota(root: Path = ROOT) -> float | None:
    """Return the least processor quota of this process's cgroups, in cores; None: no limit."""
    quotas = (_quota_of(each) for each in cgroups("cpu", root))
    return min((quota for quota in quotas if quota is not None), default=None)


def check_threads(threads: int, root: Path = ROOT) -> None:
    """Refuse more threads than the system lets this process start: OpenMP would end it at once."""
    most = _startable_threads(root)
    if threads > most:
        raise UntoldError(
            f"train.threads = {threads}: the system lets this process start {most}: lower "
            "train.threads, or raise the limit of tasks"
        )


def _startable_threads(root: Path) -> int:
    """Count the tasks that cgroups and ulimit leave; torch starts two for each of its threads."""
    free = [resource.getrlimit(resource.RLIMIT_NPROC)[0]]
    for each in cgroups("pids", root):
        most, now = read_text(each / "pids.max"), read_text(each / "pids.current")
        if most.isdigit() and now.isdigit():
            free.append(max(0, int(most) - int(now)))
    return max(1, min((each for each in free if each >= 0), default=2048) // 2)


def _quota_of(cgroup: Path) -> float | None:
    """Read cpu.max (version 2) or cpu.cfs_quota_us (version 1)."""
    fields = read_text(cgroup / "cpu.max").split()
    if not fields:
        fields = [read_text(cgroup / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    try:
        quota, period = (int(field) for field in fields)
    except ValueError:  # "max", -1 below, or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


class ThreadKeeper:
    """Fits torch's number of threads to the machine while a model trains.

    A change also changes the order of float sums, so a run is repeated bit for bit only with the
    same number of threads throughout. Every change is told to `say` and kept in `facts["threads"]`.
    A run that must be repeatable sets train.threads, and then there is no keeper.
    """

    def __init__(
        self,
        parameters: int,
        say: Callable[[str], None],
        facts: dict[str, Any],
        look: Callable[[], Surroundings] = read_surroundings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parameters, self._say, self._facts = parameters, say, facts
        self._look, self._clock = look, clock
        self._checked = clock()
        self._wanted: int | None = None  # by the last look

    def start(self) -> "ThreadKeeper":
        """Choose for this model before its first update."""
        self._fit(self._look())
        return self

    def recheck(self, step: int) -> None:
        """Look at the machine now and then; change the threads when two looks in a row agree."""
        if self._clock() - self._checked < _CHECK_SECONDS:
            return
        around = self._look()
        self._checked = self._clock()
        wanted = plan(around, self._parameters).threads
        if wanted == self._wanted:
            self._fit(around, step)
        self._wanted = wanted

    def _fit(self, around: Surroundings, step: int = 0) -> None:
        import torch

        before, threads = torch.get_num_threads(), plan(around, self._parameters).threads
        if threads == before:
            return
        torch.set_num_threads(threads)
        self._say(f"threads {before} -> {threads}: {self._reason(around, before)}")
        known = self._facts.get("threads", before)
        self._facts["threads"] = f"{known}, {threads} after step {step}" if step else threads

    def _reason(self, around: Surroundings, before: int) -> str:
        if self._parameters < SMALL_MODEL:
            return "the model is small"
        if plan(around).threads > before:
            return "processors are free again"
        return "others use the processors" if around.others else "so many cores may be used"


_FLOAT = 4  # bytes
_SHORTEST = 10  # tokens that a translation may have, however short its source and max_ratio
_ARITHMETIC = {"mul", "mul_", "div", "div_", "normal_", "uniform_"}


@dataclass(frozen=True)
class Vocabularies:
    """Holds the sizes of both vocabularies, source first; `joint` means that they are one."""

    sizes: tuple[int, int]
    joint: bool


@dataclass(frozen=True)
class ModelSize:
    """Counts the parameters of a model, and the numbers that one token leaves for the gradient."""

    parameters: int
    activations: int


@dataclass(frozen=True)
class SearchCost:
    """Says how many tokens of decode.batch_tokens the memory of one sentence is worth."""

    of_sentence: float
    of_token: float  # for each token that its translation may have


def physical_memory(root: Path = ROOT) -> int:
    """Returns the bytes that this process may use: those of the machine, or of its cgroup."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for each in cgroups("memory", root):
        texts = (read_text(each / name) for name in ("memory.max", "memory.limit_in_bytes"))
        found += [int(text) for text in texts if text.isdigit()]
    return min(found)


def measure_model(config: ModelConfig, vocabularies: Vocabularies) -> ModelSize | None:
    """Builds a model without memory for its weights and measures it.

    None: a backbone of another package cannot be built so.
    """
    counterparts = [0] * vocabularies.sizes[0] if config.copying else None
    try:
        with torch.device("meta"), _WithoutValues():
            model = build_model(
                config,
                vocabularies.sizes,
                shared=vocabularies.joint,
                counterparts=counterparts,
            )
    except (NotImplementedError, RuntimeError, TypeError):
        return None
    linear = (each for each in model.modules() if isinstance(each, nn.Linear))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return ModelSize(parameters, sum(each.out_features for each in linear))


def check_loading(config: ModelConfig, vocabularies: Vocabularies, where: str) -> None:
    """Refuses a model whose weights do not fit, twice: they are read from a file and copied."""
    size = measure_model(config, vocabularies)
    if size is not None:
        what = f"{where}: a model of this shape ({_shape(config, vocabularies)})"
        cure = "use a larger machine, or mend config.json"
        _refuse_beyond(physical_memory(), what, {"weights": 2 * size.parameters}, cure)


def check_training(
    config: Config,
    vocabularies: Vocabularies,
    device: torch.device,
    tokens: int = 0,
    shards: int = 1,
) -> None:
    """Refuses to train a model whose weights, optimizer and one batch of tokens do not fit.

    So many processes share weights and optimizer, each with a device of its own.
    """
    size = measure_model(config.model, vocabularies)
    if size is None:
        return
    samples = config.train.sequence.samples if config.train.sequence.is_on else 1
    # weights, gradients and two means of Adam
    parts = {"weights and optimizer": 4 * size.parameters // shards}
    parts["one batch"] = tokens * samples * size.activations
    if config.train.freeze_backbone:  # then little is trained, and little kept
        parts = {"weights": size.parameters // shards}
    what = f"training a model of this shape ({_shape(config.model, vocabularies)})"
    cure = "lower the sizes in [model], tokenizer.size or train.batch_tokens"
    _refuse_beyond(_memory_of(device), what, parts, cure)


def estimate_search(
    decode: DecodeConfig, models: Sequence[ModelConfig], vocabulary: int, device: torch.device
) -> SearchCost:
    """Estimates what one sentence costs a search; refuses a beam that no sentence can have.

    A hypothesis has a score for each word of the vocabulary, and keys and values for each token
    and layer of the decoder if the backbone keeps them. A step holds each of them twice.
    """
    hypotheses = decode.nbest if decode.sample else decode.beam
    cached = sum(_width(config) * getattr(config, "decoder_layers", 0) for config in models)
    of_token = 2 * hypotheses * 2 * cached
    shortest = min(_SHORTEST, decode.max_length)
    of_sentence = 2 * hypotheses * vocabulary * len(models) + shortest * of_token
    memory = _memory_of(device)
    setting = "decode.nbest" if decode.sample else "decode.beam"
    what = f"a search with {setting} = {hypotheses} and a vocabulary of {vocabulary:,}"
    _refuse_beyond(memory, what, {"one sentence": of_sentence}, f"lower {setting}")
    unit = _FLOAT * decode.batch_tokens / (memory / 2)  # leaves half of the memory
    return SearchCost(unit * of_sentence, unit * of_token)


class _WithoutValues(TorchFunctionMode):
    """Skips whatever fills tensors with values.

    Arithmetic with tensors without memory would import torch's compiler, which takes seconds.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        is_filling = getattr(func, "__name__", "") in _ARITHMETIC
        if is_filling and sum(isinstance(each, Tensor) for each in args) == 1:
            return next(each for each in args if isinstance(each, Tensor))
        return func(*args, **named)


def _refuse_beyond(memory: int, what: str, parts: dict[str, int], cure: str) -> None:
    """Refuses parts, as numbers of floats, that together take more than the memory."""
    sizes = {name: _FLOAT * count for name, count in parts.items() if count}
    if sum(sizes.values()) > memory:
        needed = " and ".join(f"{size / 1e9:,.1f} GB for {name}" for name, size in sizes.items())
        raise UntoldError(f"{what} needs about {needed}; there are {memory / 1e9:,.1f} GB: {cure}")


def _memory_of(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return physical_memory()


def _shape(config: ModelConfig, vocabularies: Vocabularies) -> str:
    sizes = vocabularies.sizes[: 1 if vocabularies.joint else 2]
    words = " + ".join(f"{size:,}" for size in sizes)
    shape = [f"{name} {value}" for name, value in config.describe().items()]
    return ", ".join([*shape, f"vocabulary {words}"])


def _width(config: ModelConfig) -> int:
    return getattr(config, "d_model", 0)


def check_precision(precision: str, device: torch.device) -> None:
    """Refuses bf16 on a device that would imitate it."""
    if precision != "bf16" or _relative_time(device) < _IMITATED:
        return
    where = "GPU" if device.type == "cuda" else "CPU"
    raise UntoldError(
        'train.precision = "bf16" needs a GPU, or a CPU with AVX512_BF16 or AMX, that computes in '
        f'bf16, and this {where} does not: use "fp32", or "auto", which takes the faster one'
    )


def choose_precision(device: torch.device) -> str:
    """Returns bf16 if the device computes it in hardware and is faster so, else fp32."""
    return "bf16" if _relative_time(device) < 1.0 else "fp32"


def _relative_time(device: torch.device) -> float:
    """Measures how long a product takes in bf16, as a multiple of the same one in 32 bits."""
    if device.type == "cuda":
        return 0.0 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.inf
    if not any(getattr(torch.cpu, name, bool)() for name in _BF16):
        return torch.inf
    return _product_seconds(torch.bfloat16) / _product_seconds(torch.float32)


def _product_seconds(dtype: torch.dtype) -> float:
    """Times the product of a small layer: the best of a few, after one that sets it up."""
    states, weight = torch.ones(512, 256, dtype=dtype), torch.ones(256, 256, dtype=dtype)
    times = []
    for _ in range(4):
        states @ weight
        times.append(time.perf_counter())
    return min(later - earlier for earlier, later in pairwise(times))
