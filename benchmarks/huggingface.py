"""What does a wrapped Hugging Face model cost, beside our own Transformer and transformers itself?

    python benchmarks/huggingface.py --json benchmarks/results/huggingface-tiny.json

Updates: the adapter beside our Transformer, plain and with past and future. Decoding: the adapter
beside our Transformer, prepared and not, and beside generate() of a Marian of that shape.
Weights are random, so every contender generates exactly as many tokens for a batch as its longest
source has. The last lines compare with what the adapter should reach.
"""

import argparse
from typing import Any

import torch

from contenders import (
    GDR,
    RATE,
    HuggingFace,
    SourceBatch,
    Untold,
    UntoldTraining,
    Workload,
    add_options,
    huggingface_settings,
    marian,
    read_workload,
    shape,
    source_batches,
    source_rows,
    training_batches,
    untrained,
    varied,
)
from race import Race, run_race, write_json
from untold.config import Config, parse_config
from untold.corpus.batching import plan_by_length
from untold.inference.model import prepare

OWN, ADAPTER, GENERATE = "untold's own Transformer", "adapter", "generate()"
UNPREPARED = "untold's own, not prepared"
MOST_UPDATE, MOST_DECODING, LEAST_GAIN = 1.15, 1.2, 3.0  # times the seconds of the other


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    workload = read_workload(options)
    races = [_race_updates(options, workload, name) for name in ("plain", "past and future")]
    rows = source_rows(workload, options.sentences)
    plan = plan_by_length([len(row) for row in rows], options.batch_tokens)
    ways = {
        "one sentence": [[row] for row in rows[: options.single]],
        "batches": [[rows[index] for index in indices] for indices in plan],
    }
    for way, groups in ways.items():
        jobs = source_batches(groups)
        races += [_race_decoding(options, way, jobs, beam) for beam in (1, options.beam)]
    for race in races:
        print(race.table())
    _print_targets(races)
    if options.json:
        write_json(options.json, races, vars(options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--batches", type=int, default=4, help="updates of each contender a round")
    parser.add_argument("--sentences", type=int, default=100, help="in batches")
    parser.add_argument("--single", type=int, default=20, help="of them, each alone")
    return parser.parse_args()


def adapter_config(config: Config, vocabulary: int) -> Config:
    """The configuration of a wrapped Marian that has the shape of our Transformer."""
    settings: dict[str, Any] = huggingface_settings(config, vocabulary)
    del settings["attn_implementation"]
    architecture = {"model_type": "marian", "is_encoder_decoder": True, **settings}
    model = {
        "backbone": "huggingface",
        "architecture": architecture,
        "dropout": settings["dropout"],
    }
    train = config.train.model_dump() | {"learning_rate": RATE}
    return parse_config({"model": model, "train": train})


def _race_updates(options: argparse.Namespace, workload: Workload, name: str) -> Race:
    own = shape(options.preset, 0.1)
    wrapped = adapter_config(own, options.vocabulary)
    changes = GDR if name == "past and future" else {}
    contenders = {
        contender: UntoldTraining(varied(config, changes), options.vocabulary, workload)
        for contender, config in ((ADAPTER, wrapped), (OWN, own))
    }
    batches = training_batches(workload, options.batch_tokens, options.batches)
    return run_race(
        f"Update, {name}, {options.preset}, {options.threads} thread(s)",
        {contender: training.update for contender, training in contenders.items()},
        batches,
        {"target tokens": sum(batch.target_tokens for batch in batches)},
        options,
    )


def _race_decoding(
    options: argparse.Namespace, way: str, jobs: list[SourceBatch], beam: int
) -> Race:
    config, size = shape(options.preset, 0.0), options.vocabulary
    own = untrained(config, size)
    searchers = [
        Untold(prepare(untrained(adapter_config(config, size), size)), beam, ADAPTER),
        Untold(prepare(own), beam, OWN),
        Untold(own, beam, UNPREPARED),
        HuggingFace(GENERATE, marian(config, size), beam),
    ]
    tokens = sum(len(row) + 1 for job in jobs for row in searchers[0].search(job))
    return run_race(
        f"Decoding, {way}, beam {beam}, {options.preset}, {options.threads} thread(s)",
        {searcher.name: searcher.search for searcher in searchers},
        jobs,
        {"sentences": sum(len(job.rows) for job in jobs), "tokens": tokens},
        options,
    )


def _print_targets(races: list[Race]) -> None:
    """Says how the adapter stands beside each other contender, and how it should."""
    for race in races:
        most = MOST_UPDATE if race.title.startswith("Update") else MOST_DECODING
        for name in (OWN, UNPREPARED):
            if name in race.seconds:
                times = 1 / race.median_ratio(name)
                print(f"{race.title}: {times:.2f} x the time of {name} (at most {most:g})")
        if GENERATE in race.seconds:
            gain = race.median_ratio(GENERATE)
            print(f"{race.title}: {gain:.2f} x as fast as {GENERATE} (at least {LEAST_GAIN:g})")


if __name__ == "__main__":
    main()
