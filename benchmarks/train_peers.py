"""Races the training of other toolkits against ours: real updates on the same batches, in turns.

    python benchmarks/peer_environments.py        # once: an environment for each toolkit
    python benchmarks/train_peers.py --preset tiny
    python benchmarks/train_peers.py --preset base --malloc raised

Each toolkit runs in a process of its own, in its own environment, on one thread: its own model of
the same shape, its own loss, clipping and Adam (benchmarks/peers/). This process tells them whose
turn it is, so that no two work at the same time; the seconds are those of each one's processor.
What differs: Marian norms after the sublayers, the others before, and only Marian's two forms and
ours fuse Adam, since the others have no such option.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contenders import BETAS, CLIP, EPSILON, RATE, SMOOTHING, shape
from peer_environments import ENVIRONMENTS, environment_python
from race import Race, write_json
from untold.corpus.batching import Batch
from workload import read_workload, training_batches

HERE = Path(__file__).parent
OURS = "untold"
RAISED = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
WARM_UP = 2  # rounds that do not count


def main() -> None:
    options = _options()
    batches = training_batches(read_workload(options), options.batch_tokens, options.batches)
    title = (
        f"Training, {options.preset}, 1 thread, batches of {options.batch_tokens} tokens, "
        f"vocabulary {options.vocabulary}, {options.malloc} malloc thresholds"
    )
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        path = Path(directory) / "batches.npz"
        write_batches(path, options, batches)
        workers, absent = {}, {}
        for toolkit in options.toolkits or [OURS, *ENVIRONMENTS]:
            try:
                worker = stack.enter_context(Worker(toolkit, path, options.malloc))
            except ToolkitMissing as error:
                absent[toolkit] = str(error)
                print(f"{toolkit} does not take part: {error}", flush=True)
                continue
            print(f"{toolkit}: {worker.version}, {worker.parameters:,} parameters", flush=True)
            workers[worker.version] = worker
        race = run(title, workers, batches, options.rounds)
    print(race.table())
    if options.json:
        write_json(options.json, [race], vars(options) | {"absent": absent})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, help="plain text, .gz or not; else the grammar's")
    parser.add_argument("--target", type=Path, help="its translation, line by line")
    parser.add_argument("--pairs", type=int, default=20_000, help="at most so many are read")
    parser.add_argument("--vocabulary", type=int, default=10_000, help="rows of the embedding")
    parser.add_argument("--preset", choices=["tiny", "small", "base"], default="tiny")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--batches", type=int, default=4, help="updates of each toolkit a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--malloc", choices=["default", "raised"], default="default")
    parser.add_argument("--toolkits", nargs="*", help=f"of {OURS} {' '.join(ENVIRONMENTS)}")
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    return parser.parse_args()


def write_batches(path: Path, options: argparse.Namespace, batches: list[Batch]) -> None:
    """Writes what worker.py reads."""
    model = shape(options.preset, options.dropout).model
    common: dict[str, Any] = {
        name: getattr(model, name)
        for name in ("d_model", "d_ffn", "heads", "encoder_layers", "decoder_layers", "dropout")
    }
    common |= {"vocabulary": options.vocabulary, "smoothing": SMOOTHING, "clip": CLIP}
    common |= {"rate": RATE, "betas": BETAS, "epsilon": EPSILON}
    arrays: dict[str, Any] = {"shape": json.dumps(common), "count": len(batches)}
    for number, batch in enumerate(batches):
        arrays |= {
            f"source{number}": batch.source.numpy(),
            f"source_length{number}": batch.source_mask.sum(1).numpy(),
            f"prefix{number}": batch.prefix.numpy(),
            f"labels{number}": batch.labels.numpy(),
            f"target_length{number}": batch.target_mask.sum(1).numpy(),
        }
    np.savez(path, **arrays)


class ToolkitMissing(Exception):
    """A toolkit is not installed, or cannot make an update: the message says why."""


@dataclass
class Worker:
    """A toolkit in a process of its own, which makes updates on demand."""

    toolkit: str
    batches: Path
    malloc: str

    def __enter__(self) -> "Worker":
        python = sys.executable if self.toolkit == OURS else environment_python(self.toolkit)
        if not Path(python).exists():
            raise ToolkitMissing("it is not installed: run python benchmarks/peer_environments.py")
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [python, str(HERE / "peers" / "worker.py"), self.toolkit, str(self.batches)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=_environment(self.malloc, ours=self.toolkit == OURS),
        )
        try:
            hello = self._answer()
            self.version, self.parameters = hello["version"], hello["parameters"]
            self.update()  # a toolkit that starts may still fail at its first update
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()

    def update(self) -> float:
        """Makes one update, and returns the processor's seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._answer()["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return json.loads(line)
        self._process.wait()
        self._errors.seek(0)
        reasons = [line for line in self._errors.read().split("\n") if line.strip()]
        raise ToolkitMissing(reasons[-1].strip() if reasons else "it ended without a word")


def _environment(malloc: str, *, ours: bool) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    own = environment.pop("PYTHONPATH", "")
    if ours:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [own, str(HERE)]))
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return environment | {"OMP_NUM_THREADS": "1"} | offline | (RAISED if malloc == "raised" else {})


def run(title: str, workers: Mapping[str, Worker], batches: list[Batch], rounds: int) -> Race:
    """Lets the toolkits take turns, update by update, in a rotating order."""
    names = list(workers)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for worker in workers.values():  # __enter__ made one update: the next round begins at batch 0
        for _ in range(len(batches) - 1):
            worker.update()
    for number in range(WARM_UP - 1 + rounds):
        spent = dict.fromkeys(names, 0.0)
        for place in range(len(batches)):
            turn = (number + place) % len(names)
            for name in names[turn:] + names[:turn]:
                spent[name] += workers[name].update()
        if number >= WARM_UP - 1:
            for name in names:
                seconds[name].append(spent[name])
    return Race(title, seconds, {"target tokens": sum(batch.target_tokens for batch in batches)})


if __name__ == "__main__":
    main()
