"""Training speed against other toolkits: target tokens a second of whole updates, same batches.

    python benchmarks/train.py --source train.en --target train.de --threads 1

What is equal: the shape (layers, widths, heads, one embedding for source, target and output), the
vocabulary, dropout, fp32, label smoothing, clipping, fused Adam, the batches and their order. What
differs: Marian norms after the sublayers, and JoeyNMT smooths labels its own way. Marian gets the
fast form of everything it offers: fused attention and torch's cross-entropy. JoeyNMT is no part of
this project's environment and takes part where it can be imported.

With --past-future it is the model against itself: plain, GDR, GDR with each loss of the paper and
with both, and with all that teaches it by default. With --rnmt it is the recurrent models, and
beside them the limit: torch's own GRU in the same shape, without attention.
"""

import argparse
import os
from collections.abc import Mapping
from typing import Any

import torch

from contenders import (
    JoeyTraining,
    MarianTraining,
    TrainingContender,
    UntoldTraining,
    past_future_variants,
    shape,
    varied,
)
from race import run_race, write_json
from recurrent import GruLimit, recurrent_shape, recurrent_variants
from untold.config import Config
from workload import Workload, add_options, read_workload, training_batches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--batches", type=int, default=4, help="updates of each contender a round")
    parser.add_argument("--dropout", type=float, default=0.1)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--past-future", action="store_true", help="race what past/future costs")
    what.add_argument("--rnmt", action="store_true", help="race the recurrent models")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    workload = read_workload(options)
    batches = training_batches(workload, options.batch_tokens, options.batches)
    race = run_race(
        f"Training, {options.preset}, {options.threads} thread(s), batches of "
        f"{options.batch_tokens} tokens, vocabulary {options.vocabulary}",
        {c.name: c.update for c in _all_contenders(options, workload)},
        batches,
        {"target tokens": sum(batch.target_tokens for batch in batches)},
        options,
    )
    print(race.table(relative=options.past_future or options.rnmt))
    if options.json:
        write_json(options.json, [race], {"load": os.getloadavg(), **_facts(options)})


def _all_contenders(options: argparse.Namespace, workload: Workload) -> list[TrainingContender]:
    config = shape(options.preset, options.dropout)
    if options.past_future:
        return _variants(config, past_future_variants(), options.vocabulary, workload)
    if options.rnmt:
        config = recurrent_shape(config, options.preset)
        found = _variants(config, recurrent_variants(), options.vocabulary, workload)
        return [*found, GruLimit(config, options.vocabulary)]
    return _contenders(config, options.vocabulary, workload)


def _variants(
    config: Config, variants: Mapping[str, Any], vocabulary: int, workload: Workload
) -> list[TrainingContender]:
    found: list[TrainingContender] = []
    for name, changes in variants.items():
        variant = UntoldTraining(varied(config, changes), vocabulary, workload)
        variant.name = name
        found.append(variant)
    return found


def _contenders(config: Config, vocabulary: int, workload: Workload) -> list[TrainingContender]:
    found: list[TrainingContender] = [
        UntoldTraining(config, vocabulary, workload),
        MarianTraining(config, vocabulary),
    ]
    try:
        found.append(JoeyTraining(config, vocabulary))
    except ImportError as error:
        print(f"JoeyNMT does not take part: {error}")
    sizes = {c.name: sum(p.numel() for p in c.model.parameters()) for c in found}
    print("parameters: " + ", ".join(f"{name} {size:,}" for name, size in sizes.items()))
    return found


def _facts(options: argparse.Namespace) -> dict[str, str]:
    return {name: str(value) for name, value in vars(options).items()}


if __name__ == "__main__":
    main()
