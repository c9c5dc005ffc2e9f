"""Measures what this machine can do at most, and how much of it updates and decoding reach.

    python benchmarks/roofline.py                 # about five minutes
    python benchmarks/roofline.py --presets tiny

First the machine, in one run: matrix products by shape (in three forms, with weights that are in
the cache and with weights that are not), memory, and the dispatch of small operations. Then an
update, decoding and routing, part by part: seconds, the least seconds that the machine allows
(work_counter.py), and their ratio. Everything is measured in the processor's time on one thread.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contenders import UntoldTraining, shape
from race import RESULTS, Table, write_json
from routing import make_inputs, ours
from searchers import SourceBatch, Untold
from untold.models.build import build_model
from work_counter import ELSE, PARTS, PYTHON, Machine, Part, WorkCounter
from workload import small_workload, training_batches

VOCABULARY = 10_000
COLD_BYTES = 96e6  # of all copies of a weight together: beyond the last cache
SHAPES = {  # (d_in, d_out): queries, keys and values; feed-forward; output layer
    "tiny": ((128, 384), (128, 512), (512, 128), (128, VOCABULARY)),
    "base": ((512, 1536), (512, 2048), (2048, 512), (512, VOCABULARY)),
}
ROWS = (1, 4, 64, 1024)  # one hypothesis, a beam, a batch of beams, a batch of training
TURNS = 5
SIZES = {"L2": 256e3, "L3": 8e6, "memory": 256e6}
FORMS: dict[str, Callable[[Tensor, Tensor], tuple[Callable[..., Tensor], Tensor]]] = {
    "linear": lambda weight, _: (F.linear, weight),
    "transposed addmm": lambda weight, _: (torch.mm, weight.T.contiguous()),
    "packed": lambda weight, x: (_packed, torch.ops.mkldnn._reorder_linear_weight(weight, len(x))),
}


def _packed(x: Tensor, weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--presets", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--json", type=Path, default=RESULTS / "roofline.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    products = [
        product_table(preset, rows) for preset in options.presets for rows in (ROWS[:3], ROWS[3:])
    ]
    machine, limits = measure_machine(max(_speeds(products)))
    tables = [*products, limits]
    for table in tables:
        print(table.text(), end="\n\n", flush=True)
    for name, job in jobs(options.presets):
        tables.append(share_table(name, job, machine))
        print(tables[-1].text(), end="\n\n", flush=True)
    write_json(options.json, [], vars(options), tables)


def seconds_of(job: Callable[[], object], least: float = 0.05, rounds: int = 7) -> float:
    """Returns the median seconds of one call; a round lasts at least so long."""
    job()
    began = time.process_time()
    job()
    calls = max(1, round(least / max(time.process_time() - began, 1e-7)))
    found = []
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(calls):
            job()
        found.append((time.process_time() - began) / calls)
    return statistics.median(found)


def product_table(preset: str, rows: Iterable[int]) -> Table:
    """Measures all forms of the linear layers of a preset."""
    cells = []
    for m in rows:
        for d_in, d_out in SHAPES[preset]:
            speeds = []
            for is_cold in (False, True):
                speeds += [product_speed(form, (m, d_in, d_out), is_cold) for form in FORMS]
            cells.append([f"{m} x {d_in} x {d_out}", *speeds])
    columns = [f"{form}, {state}" for state in ("warm", "cold") for form in FORMS]
    return Table(
        f"GFLOP/s of matrix products, {preset}, {' or '.join(map(str, rows))} rows",
        ["rows x in x out", *columns],
        cells,
    )


def product_speed(form: str, sizes: tuple[int, int, int], is_cold: bool) -> float:
    """Returns GFLOP/s; a cold weight is another copy in every call, out of the cache."""
    m, d_in, d_out = sizes
    torch.manual_seed(1)
    x = torch.randn(m, d_in)
    copies = max(1, round(COLD_BYTES / (4 * d_in * d_out))) if is_cold else 1
    made = [FORMS[form](torch.randn(d_out, d_in), x) for _ in range(copies)]
    turn = 0

    def job() -> None:
        nonlocal turn
        multiply, weight = made[turn % len(made)]
        turn += 1
        multiply(x, weight)

    with torch.inference_mode():
        return 2 * m * d_in * d_out / seconds_of(job, least=0.03, rounds=5) / 1e9


def _speeds(tables: Iterable[Table]) -> list[float]:
    return [speed for table in tables for row in table.rows for speed in row[1:]]


def measure_machine(gflops: float) -> tuple[Machine, Table]:
    """Measures memory and dispatch; the best matrix product is given."""
    rows, bandwidths = [["best matrix product", gflops, "GFLOP/s"]], {}
    for name, size in SIZES.items():
        a = torch.ones(round(size / 8))  # two tensors of half the size each
        b = torch.ones_like(a)
        copied = size / seconds_of(lambda a=a, b=b: b.copy_(a))
        read = size / 2 / seconds_of(lambda a=a: a.sum())
        bandwidths[size if name != "memory" else float("inf")] = max(copied, read)
        rows += [[f"copy, {name}", copied / 1e9, "GB/s"], [f"read, {name}", read / 1e9, "GB/s"]]
    small, layer = torch.ones(4), nn.Identity()
    with torch.inference_mode():
        loop = seconds_of(lambda: None)
        dispatch = seconds_of(lambda: small.add_(1.0)) - loop
        module = seconds_of(lambda: layer(small)) - loop
        linear = nn.Linear(4, 4)
        whole = seconds_of(lambda: linear(small)) - loop
    rows += [
        ["one small operation", dispatch * 1e6, "us"],
        ["one module call", module * 1e6, "us"],
        ["nn.Linear(4, 4)", whole * 1e6, "us"],
    ]
    limits = Machine(gflops * 1e9, bandwidths, dispatch)
    return limits, Table("What the machine does at most", ["", "most", "unit"], rows)


def jobs(presets: Iterable[str]) -> Iterable[tuple[str, Callable[[], object]]]:
    """Makes an update, searches and routing of each preset."""
    workload = small_workload(VOCABULARY)
    (batch,) = training_batches(workload, 1024, 1)
    for preset in presets:
        training = UntoldTraining(shape(preset, 0.1), VOCABULARY, workload)
        yield f"One update, {preset}, 1,024 tokens", lambda t=training: t.update(batch)
        config = shape(preset, 0.0)
        model = build_model(config.model, (VOCABULARY, VOCABULARY), shared=True)
        for sentences in (1, 16):
            searcher = Untold(model, 4)
            rows = [[*range(7, 21), 3]] * sentences
            job = SourceBatch(rows, 15)
            yield (
                f"{sentences} sentence(s) of 15 tokens, {preset}, beam 4",
                lambda s=searcher, j=job: s.search(j),
            )
    inputs = make_inputs((16, 14, 14, 128, 64), "mlp")
    yield "Routing, forward and backward, (16, 14, 14, 128, 64)", lambda: inputs.run(ours)


def share_table(title: str, job: Callable[[], object], machine: Machine) -> Table:
    """Measures a job as it is and operation by operation, in turns."""
    totals, counted = [], []
    for number in range(TURNS + 1):
        began = time.process_time()
        job()
        spent = time.process_time() - began
        with WorkCounter.calibrated(machine) as counter:
            job()
        if number:  # the first turn warms up
            totals.append(spent)
            counted.append(counter.parts)
    total = statistics.median(totals)
    found = {
        name: Part(
            statistics.median(each[name].seconds for each in counted), part.limit, part.calls
        )
        for name, part in counted[0].items()
    }
    rest = total - sum(each.seconds for each in found.values())
    rows = [
        [name, part.seconds * 1e3, part.limit * 1e3, part.limit / part.seconds, part.calls]
        for name in [*PARTS, ELSE]
        if (part := found.get(name))
    ]
    limit = sum(part.limit for part in found.values())
    calls = sum(part.calls for part in found.values())
    rows.append([PYTHON, rest * 1e3, 0.0, 0.0, "-"])
    rows.append(["all", total * 1e3, limit * 1e3, limit / total, calls])
    return Table(title, ["part", "ms", "limit, ms", "share of the limit", "calls"], rows)


if __name__ == "__main__":
    main()
