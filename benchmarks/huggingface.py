"""Compares a wrapped Marian with our own Transformer of its shape, and with transformers itself.

    python benchmarks/huggingface.py --json benchmarks/results/huggingface.json

Updates: the adapter beside our Transformer, plain and with past and future. Decoding: the adapter
beside our Transformer, prepared and not, beside one with Marian's norms, which an import makes, and
beside generate() of a Marian of that shape.
Weights are random, so every contender generates exactly as many tokens for a batch as its longest
source has. The last lines compare with what the adapter should reach.
"""

import argparse
from typing import Any

import torch

from contenders import RATE, UntoldTraining, huggingface_settings, marian, shape, varied
from race import Race, run_race, write_json
from searchers import HuggingFace, SourceBatch, Untold
from untold.config import Config, parse_config
from untold.corpus.batching import plan_by_length
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.inference.model import prepare
from untold.models.build import build_model
from workload import add_options, read_workload, training_batches

OWN, ADAPTER, GENERATE = "untold's own Transformer", "adapter", "generate()"
PLAIN, IMPORTED = "untold's own, not prepared", "imported"
GDR = {"model": {"separator": {"kind": "gdr"}}}
MOST_UPDATE, MOST_DECODING, LEAST_GAIN = 1.15, 1.2, 3.0  # times the seconds of the other


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    workload = read_workload(options)
    races = [_race_updates(options, workload, name) for name in ("plain", "past and future")]
    rows = [[*source, SENTENCEPIECE_IDS.eos] for source, _ in workload.pairs[: options.sentences]]
    plan = plan_by_length([len(row) for row in rows], options.batch_tokens)
    ways = {
        "one sentence": [[row] for row in rows[: options.single]],
        "batches": [[rows[index] for index in indices] for indices in plan],
    }
    for way, batches in ways.items():
        races += [_race_decoding(options, way, batches, beam) for beam in (1, options.beam)]
    for race in races:
        print(race.table())
    _print_targets(races)
    if options.json:
        facts = {name: str(value) for name, value in vars(options).items()}
        write_json(options.json, races, facts)


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


def _race_updates(options: argparse.Namespace, workload: Any, name: str) -> Race:
    own = shape(options.preset, 0.1)
    wrapped = adapter_config(own, options.vocabulary)
    changes = GDR if name == "past and future" else {}
    contenders = {
        ADAPTER: UntoldTraining(varied(wrapped, changes), options.vocabulary, workload),
        OWN: UntoldTraining(varied(own, changes), options.vocabulary, workload),
    }
    batches = training_batches(workload, options.batch_tokens, options.batches)
    return run_race(
        f"Update, {name}, {options.preset}, {options.threads} thread(s)",
        {each: contender.update for each, contender in contenders.items()},
        batches,
        {"target tokens": sum(batch.target_tokens for batch in batches)},
        options,
    )


def _race_decoding(options: argparse.Namespace, way: str, batches: list[Any], beam: int) -> Race:
    config, size = shape(options.preset, 0.0), (options.vocabulary,) * 2
    torch.manual_seed(1)
    own = build_model(config.model, size, shared=True).eval()
    after = varied(config, {"model": {"norm": "post"}})  # what `untold import` makes of a Marian
    imported = build_model(after.model, size, shared=True).eval()
    wrapped = build_model(adapter_config(config, size[0]).model, size, shared=True).eval()
    searchers = [
        Untold(prepare(wrapped), beam, ADAPTER),
        Untold(prepare(own), beam, OWN),
        Untold(own, beam, PLAIN),
        Untold(prepare(imported), beam, IMPORTED),
        HuggingFace(GENERATE, marian(config, size[0]), beam),
    ]
    jobs = [SourceBatch(batch, max(map(len, batch))) for batch in batches]
    tokens = sum(len(row) + 1 for job in jobs for row in searchers[0].search(job))
    return run_race(
        f"Decoding, {way}, beam {beam}, {options.preset}, {options.threads} thread(s)",
        {searcher.name: searcher.search for searcher in searchers},
        jobs,
        {"sentences": sum(map(len, batches)), "tokens": tokens},
        options,
    )


def _print_targets(races: list[Race]) -> None:
    """Says how the adapter stands beside each other contender, and how it should."""
    for race in races:
        most = MOST_UPDATE if race.title.startswith("Update") else MOST_DECODING
        for name in (OWN, PLAIN, IMPORTED):
            if name in race.seconds:
                times = 1 / race.median_ratio(name)
                print(f"{race.title}: {times:.2f} x the time of {name} (at most {most:g})")
        if GENERATE in race.seconds:
            gain = race.median_ratio(GENERATE)
            print(f"{race.title}: {gain:.2f} x as fast as {GENERATE} (at least {LEAST_GAIN:g})")


if __name__ == "__main__":
    main()
