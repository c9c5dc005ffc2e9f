"""Does it pay to raise glibc's malloc thresholds? Updates of two processes, in turns.

Both ask for large pages, as `untold train` does; one of them also has raised thresholds. A ratio
above one means that the raised thresholds are faster. Processor time, one thread.

    python benchmarks/allocator.py --source train.en --target train.de --preset base
"""

import argparse
import multiprocessing
import os
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

import torch

from contenders import UntoldTraining, past_future_variants, shape, varied
from workload import add_options, read_workload, training_batches

LARGE_PAGES = {"THP_MEM_ALLOC_ENABLE": "1"}
RAISED = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}
DROPOUT, BATCH_TOKENS, BATCHES = 0.1, 4096, 3


def work(pipe: Connection, options: argparse.Namespace) -> None:
    """Makes all updates whenever it is asked to, and answers with their processor seconds."""
    torch.set_num_threads(1)
    workload = read_workload(options)
    batches = training_batches(workload, BATCH_TOKENS, BATCHES)
    changes: dict[str, Any] = past_future_variants()[options.variant]
    config = varied(shape(options.preset, DROPOUT), changes)
    training = UntoldTraining(config, options.vocabulary, workload)
    while pipe.recv():
        start = time.process_time()
        for batch in batches:
            training.update(batch)
        pipe.send(time.process_time() - start)


def start(options: argparse.Namespace, environment: dict[str, str]) -> Connection:
    """Starts a worker; glibc reads these variables before anything of ours runs."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    os.environ.update(environment)
    context.Process(target=work, args=(theirs, options), daemon=True).start()
    for name in environment:
        del os.environ[name]
    return ours


def ask(pipe: Connection) -> float:
    pipe.send(True)
    return pipe.recv()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--variant", choices=list(past_future_variants()), default="plain")
    options = parser.parse_args()
    plain, raised = start(options, LARGE_PAGES), start(options, LARGE_PAGES | RAISED)
    ask(plain), ask(raised)  # the first updates make the optimizer's memory
    ratios = []
    for number in range(options.rounds):
        if number % 2:
            slow, fast = ask(plain), ask(raised)
        else:
            fast, slow = ask(raised), ask(plain)
        ratios.append(slow / fast)
    plain.send(False), raised.send(False)
    print(
        f"{options.preset}, {options.variant}: raised thresholds "
        f"{statistics.median(ratios):.3f} x ({min(ratios):.3f} to {max(ratios):.3f} in "
        f"{options.rounds} rounds)"
    )


if __name__ == "__main__":
    main()
