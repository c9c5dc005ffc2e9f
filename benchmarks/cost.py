"""Checks the cost model: fits it to measured updates and predicts others, in time and memory.

    taskset -c 1 python benchmarks/cost.py             time is the processor's, of one thread
    python benchmarks/cost.py --layouts                predicts the paper's runs on 8 to 64 GPUs

The memory is that of all tensors that a forward pass keeps for the backward pass, each storage
once, without parameters. Half of the shapes fit the model and the other half check it.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from machine import describe_conditions
from untold.config import parse_config
from untold.corpus.batching import Batch, collate
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.models.build import build_model
from untold.training.losses.objective import Objective
from untold.training.parallel.cost_model import (
    Cluster,
    UpdateShape,
    fit_costs,
    predict,
    predict_layout,
)

COSTS = Path(__file__).with_name("cost_model.json")  # fitted, and the errors of predictions
LIMIT = 0.2  # of the prediction's relative error
CAPSULES = {"capsules": 6, "d_capsule": 32}


def shapes() -> list[UpdateShape]:
    """Shapes that differ in everything; every other one is held out."""
    rows = [
        # B, I, T, V, d, f, layers, with capsules
        (16, 12, 14, 1000, 64, 256, 2, False),
        (24, 20, 18, 2000, 128, 512, 2, False),
        (8, 40, 36, 4000, 128, 256, 3, False),
        (32, 10, 10, 8000, 64, 128, 2, False),
        (12, 24, 30, 1000, 256, 1024, 1, False),
        (16, 16, 20, 3000, 192, 512, 2, False),
        (6, 64, 60, 500, 64, 256, 2, False),
        (8, 48, 40, 1500, 128, 512, 2, False),
        (16, 14, 12, 6000, 128, 256, 1, True),
        (20, 16, 16, 3000, 128, 512, 2, True),
        (8, 44, 40, 1000, 64, 256, 2, True),
        (10, 30, 34, 2000, 128, 384, 2, True),
        (40, 10, 12, 500, 192, 768, 1, True),
        (24, 18, 14, 1500, 192, 512, 2, True),
        (12, 24, 20, 10000, 64, 256, 1, False),
        (16, 20, 24, 6000, 96, 384, 2, False),
    ]
    return [
        UpdateShape(b, i, t, v, d, f, 4, n, n, **(CAPSULES if separated else {}))
        for b, i, t, v, d, f, n, separated in rows
    ]


class Updates:
    """Updates of one shape: forward and backward pass, and Adam."""

    def __init__(self, shape: UpdateShape) -> None:
        torch.manual_seed(1)
        sizes: dict[str, Any] = {
            "d_model": shape.d_model,
            "d_ffn": shape.d_ffn,
            "heads": shape.heads,
        }
        layers = {"encoder_layers": shape.encoder_layers, "decoder_layers": shape.decoder_layers}
        separator = {"kind": "none"}
        if shape.capsules:
            separator = {"kind": "gdr", "d_capsule": shape.d_capsule, "lexicon": 0}
        train = {"bow_weight": 0.0, "bca_weight": 0.0, "ends_weight": 0.0, "lexicon_weight": 0.0}
        config = parse_config(
            {
                "model": sizes | layers | {"dropout": 0.1, "separator": separator},
                "train": train | {"counterfactual": 0.0},
            }
        )
        size = shape.vocabulary
        self.model = build_model(config.model, (size, size), shared=True)
        self.objective = Objective(self.model, config.train)
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)
        self.batch = make_batch(shape)

    def time(self) -> float:
        """The processor's seconds of one update."""
        began = time.process_time()
        self.optimizer.zero_grad(set_to_none=True)
        self.objective.backward(self.batch, 1, self.batch.target_tokens)
        self.optimizer.step()
        return time.process_time() - began

    def kept(self) -> float:
        """The bytes that a forward pass keeps."""
        own = {p.untyped_storage().data_ptr() for p in self.model.parameters()}
        found: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                found[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            losses = self.objective(self.batch, 1)
        assert losses.total.requires_grad
        return float(sum(found.values()))


def make_batch(shape: UpdateShape) -> Batch:
    """A batch without padding; the counts of the model include EOS."""
    generator = torch.Generator().manual_seed(2)

    def row(length: int) -> list[int]:
        return torch.randint(4, shape.vocabulary, (length - 1,), generator=generator).tolist()

    pairs = [(row(shape.source), row(shape.target)) for _ in range(shape.sentences)]
    return collate(pairs, range(shape.sentences), (SENTENCEPIECE_IDS, SENTENCEPIECE_IDS))


def measure(rounds: int) -> tuple[list[float], list[float]]:
    """Median seconds and kept bytes of each shape, all shapes in turns."""
    all_updates = [Updates(shape) for shape in shapes()]
    kept = [updates.kept() for updates in all_updates]
    for updates in all_updates:
        updates.time()
    times = [[updates.time() for updates in all_updates] for _ in range(rounds)]
    return [statistics.median(each) for each in zip(*times, strict=True)], kept


def check(name: str, counts: list[dict[str, float]], measured: list[float]) -> dict[str, Any]:
    """Fits on every other shape, predicts the rest, and prints the relative errors."""
    costs = fit_costs(counts[::2], measured[::2])
    errors = []
    for shape, count, value in list(zip(shapes(), counts, measured, strict=True))[1::2]:
        errors.append(predict(count, costs) / value - 1)
        capsules = f" J {shape.capsules} d_c {shape.d_capsule}" if shape.capsules else ""
        print(
            f"{name}: B {shape.sentences} I {shape.source} T {shape.target} d {shape.d_model} "
            f"V {shape.vocabulary}{capsules}: measured {value:.3g}, error {errors[-1]:+.1%}"
        )
    worst = max(map(abs, errors))
    print(f"{name}: worst error of {len(errors)} shapes that were not measured: {worst:.1%}")
    return {"costs": costs, "errors": errors, "worst": worst}


def check_base(costs: dict[str, float]) -> float:
    """Predicts the memory of a model that is ten times as large as those that were measured."""
    shape = UpdateShape(16, 25, 25, 8000)
    measured = Updates(shape).kept()
    error = predict(shape.kept(), costs) / measured - 1
    print(f"bytes: the base model: measured {measured:.3g}, error {error:+.1%}")
    return error


def print_layouts(kept_costs: dict[str, float]) -> None:
    """Predicts the paper's base and big models, with its updates and with larger ones."""
    cluster = Cluster(flops=110e12, inside=230e9, between=22e9)
    print("| model | tokens of an update | GPUs | compute | gradients | update | memory of a GPU |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, d, f, heads in (("base", 512, 2048, 8), ("big", 1024, 4096, 16)):
        for tokens in (25_000, 200_000):
            for gpus in (8, 16, 32, 64):
                sizes = (max(1, round(tokens / gpus / 25)), 25, 25, 32_000, d, f, heads)
                share = UpdateShape(*sizes, capsules=6, d_capsule=256, bow_share=1.0)
                found = predict_layout(share, gpus, cluster, kept_costs)
                print(
                    f"| {name} | {tokens:,} | {gpus} | {found.compute * 1e3:.0f} ms | "
                    f"{found.gradients * 1e3:.0f} ms | {found.seconds * 1e3:.0f} ms | "
                    f"{found.memory / 1e9:.1f} GB |"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layouts", action="store_true", help="only predict the paper's runs")
    parser.add_argument("--record", action="store_true", help=f"write {COSTS.name}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.layouts:
        kept = json.loads(COSTS.read_text())["memory"]["costs"]
        print_layouts(kept)
        return
    seconds, kept = measure(options.rounds)
    results: dict[str, Any] = {"conditions": describe_conditions()}
    results["time"] = check("seconds", [shape.work() for shape in shapes()], seconds)
    results["memory"] = check("bytes", [shape.kept() for shape in shapes()], kept)
    results["memory"]["base"] = check_base(results["memory"]["costs"])
    if options.record:
        COSTS.write_text(json.dumps(results, indent=1) + "\n")
    if max(results["time"]["worst"], results["memory"]["worst"]) > LIMIT:
        raise SystemExit(f"a prediction is more than {LIMIT:.0%} off")


if __name__ == "__main__":
    main()
