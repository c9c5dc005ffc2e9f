"""How much memory a large corpus needs: to be tokenised into a store, read in batches, trained on.

Every stage runs in a process of its own, whose peak is that of the stage alone. The promise is that
training on a large corpus takes at most a gigabyte more than the same model takes on a small one.

    python benchmarks/memory.py --pairs 2000000 --json memory.json
"""

import argparse
import gzip
import json
import multiprocessing
import random
import re
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from untold.config import CorpusConfig, TokenizerConfig, parse_config
from untold.corpus.batching import TextCodec, plan_epoch
from untold.corpus.corpora import CorpusText, read_pairs
from untold.corpus.filters import Limits
from untold.corpus.store import open_store, prepare
from untold.corpus.tokenizer import Tokenizers, train_tokenizers
from untold.interruption import Interrupted
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel
from untold.training.distributed import ProcessGroup
from untold.training.log import NullReporter
from untold.training.progress import Progress
from untold.training.trainer import Hooks, RunContext, Trainer, make_optimizer

SOURCE, TARGET = "train.src.gz", "train.tgt.gz"
CORPUS = CorpusConfig(source=SOURCE, target=TARGET)
WORDS = 20_000
SAMPLE = 20_000  # pairs that the vocabulary is learnt from
VOCABULARY = 8_000
BATCH_TOKENS = 4096
SMALL = "small"  # the folder of a corpus of SAMPLE pairs
PRESETS = ("tiny", "base")
UPDATES = 2  # the first makes the optimizer's memory, the second works beside it
PROMISE_MB = 1000.0


@dataclass(frozen=True)
class Measurement:
    """What one stage took; `mapped_mb`, the peak of file pages, the system can take back."""

    stage: str
    seconds: float
    peak_mb: float
    mapped_mb: float
    result: Any


def measure(function: Callable[..., Any], *arguments: Any) -> Measurement:
    """Call a module-level function in a fresh process and report that process's peak memory."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        sys.exit(f"{function.__name__} failed")  # the child has printed why
    finally:
        process.join()


def _run(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    done, mapped = threading.Event(), [_memory("RssFile")]
    watcher = threading.Thread(target=_watch, args=(done, mapped))
    watcher.start()
    start = time.perf_counter()
    try:
        result = function(*arguments)
    finally:
        seconds = time.perf_counter() - start
        done.set()
        watcher.join()
    name = function.__name__.replace("_", " ")
    sender.send(Measurement(name, seconds, _memory("VmHWM"), max(mapped), result))


def _watch(done: threading.Event, mapped: list[float]) -> None:
    while not done.wait(0.1):
        mapped.append(_memory("RssFile"))


def _memory(field: str) -> float:
    """Megabytes from /proc; without it only the peak is known."""
    try:
        status = Path("/proc/self/status").read_text()
    except FileNotFoundError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        unit = 1 if sys.platform == "darwin" else 1024
        return peak * unit / 1e6 if field == "VmHWM" else 0.0
    match = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) * 1024 / 1e6 if match else 0.0


def only_import() -> None:
    """What Python, numpy, torch and untold take before they do anything."""


def write_corpus(root: Path, pairs: int) -> int:
    """Sentences of made-up words; the target is the source in other words and reversed order."""
    characters = 0
    with (
        gzip.open(root / SOURCE, "wt", compresslevel=1, encoding="utf-8") as source,
        gzip.open(root / TARGET, "wt", compresslevel=1, encoding="utf-8") as target,
    ):
        for one, other in _sentences(pairs):
            characters += source.write(one + "\n") + target.write(other + "\n")
    return characters


def _sentences(pairs: int) -> Iterator[tuple[str, str]]:
    generator = random.Random(1)
    sources, targets = ([_word(generator) for _ in range(WORDS)] for _ in range(2))
    for _ in range(pairs):
        length = generator.randint(3, 30)
        # Squaring makes low numbers frequent, as in language some words are.
        words = [int(WORDS * generator.random() ** 2) for _ in range(length)]
        yield (
            " ".join([sources[word] for word in words]),
            " ".join([targets[word] for word in reversed(words)]),
        )


def _word(generator: random.Random) -> str:
    syllables = generator.randint(1, 4)
    return "".join(
        generator.choice("bdfgklmnprstvz") + generator.choice("aeiou") for _ in range(syllables)
    )


def learn_vocabulary(root: Path) -> int:
    sample = [pair for pair, _ in zip(read_pairs(CORPUS, root), range(SAMPLE), strict=False)]
    config = TokenizerConfig(size=VOCABULARY)
    tokenizers = train_tokenizers(
        config, (pair.source for pair in sample), (pair.target for pair in sample)
    )
    tokenizers.save(root)
    return len(tokenizers.source)


def build_store(root: Path) -> int:
    tokenizers = Tokenizers.load(root)
    encoder = TextCodec(tokenizers)
    with CorpusText((CORPUS,), root, root) as text:
        return len(prepare(root / "store", text, encoder, Limits(max_tokens=256)))


def read_one_epoch(root: Path) -> int:
    store, codec = open_store(root / "store"), TextCodec(Tokenizers.load(root))
    plan = plan_epoch(store, BATCH_TOKENS, seed=1, epoch=0)
    return sum(int(batch.target_mask.sum()) for batch in plan.batches(store, codec.batch))


def build_small_store(root: Path) -> int:
    small = root / SMALL
    small.mkdir()
    Tokenizers.load(root).save(small)
    write_corpus(small, SAMPLE)
    return build_store(small)


def train(root: Path, preset: str) -> str:
    """A few updates by the real trainer, which plans a whole epoch before the first."""
    tokenizers, store = Tokenizers.load(root), open_store(root / "store")
    config = parse_config(
        {"model": {"preset": preset}, "train": {"steps": UPDATES, "batch_tokens": BATCH_TOKENS}}
    )
    size = len(tokenizers.source)
    torch.manual_seed(1)
    model = build_model(config.model, (size, size), shared=True)
    trained = TrainedModel(model, config, tokenizers)
    setting = RunContext(ProcessGroup(), NullReporter(root, UPDATES), Interrupted())
    progress = Trainer(trained, make_optimizer(trained), store, setting, Hooks()).run(Progress())
    return f"{preset}, {len(store):,} pairs, {progress.step} updates"


def run(pairs: int, root: Path) -> list[Measurement]:
    stages: list[tuple[Any, ...]] = [
        (only_import,),
        (write_corpus, root, pairs),
        (learn_vocabulary, root),
        (build_store, root),
        (build_small_store, root),
        (read_one_epoch, root),
        *((train, place, preset) for preset in PRESETS for place in (root / SMALL, root)),
    ]
    done = []
    print(f"{'stage':<18}{'seconds':>10}{'peak MB':>10}{'mapped MB':>11}  result", flush=True)
    for stage in stages:
        m = measure(*stage)
        row = f"{m.stage:<18}{m.seconds:>10.1f}{m.peak_mb:>10.0f}{m.mapped_mb:>11.0f}  {m.result}"
        print(row, flush=True)
        done.append(m)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measurements = run(options.pairs, Path(directory))
        store = Path(directory) / "store"
        size = sum(file.stat().st_size for file in store.iterdir()) / 1e6
    print(f"store: {size:.0f} MB on disk")
    extra = _extra_for_size(measurements)
    for preset, megabytes in extra.items():
        print(
            f"training, {preset}: {megabytes:+.0f} MB for {options.pairs:,} pairs, not {SAMPLE:,}"
        )
    if options.json:
        report = {
            "pairs": options.pairs,
            "store_mb": size,
            "extra_mb": extra,
            "stages": list(map(asdict, measurements)),
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if broken := [preset for preset, megabytes in extra.items() if megabytes > PROMISE_MB]:
        sys.exit(f"more than {PROMISE_MB:.0f} MB for the size of the corpus: {', '.join(broken)}")


def _extra_for_size(measurements: list[Measurement]) -> dict[str, float]:
    """What the large corpus takes beyond the small one, for each preset."""
    peaks = [m.peak_mb for m in measurements if m.stage == train.__name__]
    pairs = zip(PRESETS, peaks[::2], peaks[1::2], strict=True)
    return {preset: large - small for preset, small, large in pairs}


if __name__ == "__main__":
    main()
