"""How fast do other toolkits train? Real updates on the same batches, in turns with ours.

    python benchmarks/train_peers.py --build            # once: an environment for each toolkit
    python benchmarks/train_peers.py --build joeynmt    # this one, anew
    python benchmarks/train_peers.py --preset tiny
    python benchmarks/train_peers.py --preset base --malloc raised

Each toolkit runs in a process of its own, in its own environment (build/peers/NAME), on one thread:
its own model of the same shape, its own loss, clipping and Adam (benchmarks/peers/). This process
tells them whose turn it is, so that no two work at the same time; the seconds are those of each
one's processor. What differs: Marian norms after the sublayers, the others before, and only
Marian's two forms and ours fuse Adam, since the others have no such option.

All environments get the same torch as this project. Where a toolkit's own requirements forbid it,
it is installed without them and its other requirements are named here. A toolkit that cannot be
installed is reported with pip's last line, and the others are built all the same.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from contenders import (
    BETAS,
    CLIP,
    EPSILON,
    PRESETS,
    RATE,
    SMOOTHING,
    add_text_options,
    read_workload,
    shape,
    training_batches,
)
from race import Race, Worker, WorkerFailed, write_json
from untold.corpus.batching import Batch

HERE = Path(__file__).parent
OURS = "untold"
FOLDER = Path(__file__).parents[1] / "build" / "peers"
TORCH = "torch==2.13.0"  # by this exact name the index gives the build for processors alone
# The environment of each toolkit; Marian with and without the Trainer share one.
ENVIRONMENTS = {
    "marian": "marian",
    "trainer": "marian",
    "joeynmt": "joeynmt",
    "sockeye": "sockeye",
    "eole": "eole",
    "opennmt": "opennmt",
}
# What is installed after torch, a command each.
STEPS: dict[str, list[list[str]]] = {
    "marian": [["transformers==5.22.2", "accelerate==1.15.0"]],
    "joeynmt": [["joeynmt==2.3.0", "importlib_metadata"]],
    # Sockeye 3 asks for torch 1; of the versions that do not, the last one needs MXNet.
    "sockeye": [
        ["--no-deps", "sockeye==3.1.34"],
        ["numpy<2", "pyyaml", "sacrebleu", "portalocker"],
    ],
    "eole": [["eole==0.6.4"]],
    # OpenNMT-py 3.5 asks for torch before 2.3.
    "opennmt": [
        ["--no-deps", "OpenNMT-py==3.5.1"],
        ["numpy", "configargparse", "pyyaml", "sacrebleu", "sentencepiece", "subword-nmt"],
        ["ctranslate2>=4", "flask", "waitress", "pyonmttok", "rapidfuzz", "six", "spacy"],
        ["fasttext-wheel", "pyahocorasick", "tensorboard"],
    ],
}
RAISED = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
WARM_UP = 1  # rounds that do not count, after the first update


def main() -> None:
    options = _options()
    if options.build is not None:
        names = options.build or list(STEPS)
        if unknown := sorted(set(names) - set(STEPS)):
            sys.exit(f"{unknown[0]}: there is no such toolkit: choose of {', '.join(STEPS)}")
        failed = [name for name in names if not build(name, anew=bool(options.build))]
        sys.exit(1 if failed else 0)
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
                name, worker = start(toolkit, path, options.malloc, stack)
            except WorkerFailed as error:
                absent[toolkit] = str(error)
                print(f"{toolkit} does not take part: {error}", flush=True)
                continue
            workers[name] = worker
        if not workers:
            sys.exit("no toolkit takes part")
        race = run(title, workers, batches, options.rounds)
    print(race.table())
    if options.json:
        write_json(options.json, [race], vars(options) | {"absent": absent})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--build", nargs="*", metavar="NAME", help=f"of {', '.join(STEPS)} [all]")
    add_text_options(parser)
    parser.add_argument("--preset", choices=PRESETS, default="tiny")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--batches", type=int, default=4, help="updates of each toolkit a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--malloc", choices=["default", "raised"], default="default")
    parser.add_argument("--toolkits", nargs="*", help=f"of {OURS} {' '.join(ENVIRONMENTS)}")
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    return parser.parse_args()


def write_batches(path: Path, options: argparse.Namespace, batches: list[Batch]) -> None:
    """Writes what peers/worker.py reads."""
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


def start(toolkit: str, batches: Path, malloc: str, stack: ExitStack) -> tuple[str, Worker]:
    """Starts a toolkit, which makes an update whenever it is asked to; returns its version, too."""
    python = sys.executable if toolkit == OURS else environment_python(toolkit)
    if not Path(python).exists():
        raise WorkerFailed("it is not installed: run python benchmarks/train_peers.py --build")
    command = [python, str(HERE / "peers" / "worker.py"), toolkit, str(batches)]
    with ExitStack() as failing:
        environment = worker_environment(malloc, ours=toolkit == OURS)
        worker = failing.enter_context(Worker(command, environment))
        hello = worker.receive()
        worker.ask()  # a toolkit that starts may still fail at its first update
        stack.push(failing.pop_all())
    print(f"{toolkit}: {hello['version']}, {hello['parameters']:,} parameters", flush=True)
    return hello["version"], worker


def worker_environment(malloc: str, *, ours: bool) -> dict[str, str]:
    """The variables of a toolkit's process."""
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
    for worker in workers.values():  # `start` made one update: the next round begins at batch 0
        for _ in range(len(batches) - 1):
            worker.ask()
    for number in range(WARM_UP + rounds):
        spent = dict.fromkeys(names, 0.0)
        for place in range(len(batches)):
            turn = (number + place) % len(names)
            for name in names[turn:] + names[:turn]:
                spent[name] += workers[name].ask()["seconds"]
        if number >= WARM_UP:
            for name in names:
                seconds[name].append(spent[name])
    return Race(title, seconds, {"target tokens": sum(batch.target_tokens for batch in batches)})


def environment_python(toolkit: str) -> str:
    """The interpreter of a toolkit's environment."""
    return str(FOLDER / ENVIRONMENTS[toolkit] / "bin" / "python")


def build(name: str, *, anew: bool) -> bool:
    """Makes an environment; a broken one is removed again, so that it never takes part."""
    folder = FOLDER / name
    if folder.exists() and not anew:
        print(f"{name}: exists already")
        return True
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    for step in [[TORCH], *STEPS[name]]:
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *step]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            shutil.rmtree(folder)
            print(f"{name}: {' '.join(step)}: {run.stderr.strip().rpartition(chr(10))[2]}")
            return False
    print(f"{name}: built")
    return True


if __name__ == "__main__":
    main()
