"""Peak memory of training: whole updates of a plain model, and with past and future.

Every variant trains in a process of its own, whose peak includes torch and the corpus.

    python benchmarks/update_memory.py --source train.en --target train.de --preset base
"""

import argparse
from typing import Any

import torch

from contenders import UntoldTraining, past_future_variants, shape, varied
from memory import measure
from race import format_cell
from workload import add_options, read_workload, training_batches

PLAIN = "plain"


def updates(options: argparse.Namespace, name: str) -> int:
    """Makes one update on each batch and returns the number of updates."""
    torch.set_num_threads(options.threads)
    workload = read_workload(options)
    batches = training_batches(workload, options.batch_tokens, options.batches)
    changes: dict[str, Any] = past_future_variants()[name]
    config = varied(shape(options.preset, options.dropout), changes)
    training = UntoldTraining(config, options.vocabulary, workload)
    for batch in batches:
        training.update(batch)
    return len(batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--batches", type=int, default=8, help="updates of each variant")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--variants", nargs="+", default=list(past_future_variants()))
    options = parser.parse_args()
    peaks: dict[str, float] = {}
    for name in options.variants:
        peaks[name] = measure(updates, options, name).peak_mb
        plain = peaks.get(PLAIN)
        beside = "" if plain is None else f"  {format_cell(peaks[name] / plain)} of plain"
        print(f"{name:<18}{peaks[name]:>8.0f} MB{beside}", flush=True)


if __name__ == "__main__":
    main()
