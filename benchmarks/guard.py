"""Has a kernel become slower? `make bench-check` fails if one has.

    python benchmarks/guard.py            # compare with benchmarks/results/guard.json
    python benchmarks/guard.py --record   # write that file anew: when a kernel changed on purpose

A kernel runs in turns with a reference of torch, many short rounds in the processor's time on one
thread. Its figure is the median over the rounds of reference / ours: how many times as fast as the
reference it is. A kernel whose figure lies more than 10 % below the recorded one is measured once
more, with twice the rounds, before the guard fails.

A further kernel is one more row of KERNELS: a function that makes what both work on and returns two
callables without arguments, ours and the reference. A call should take 0.2 to 20 milliseconds. The
guard compares ratios, so the reference must not change when ours does.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contenders import (
    HuggingFace,
    MarianTraining,
    SourceBatch,
    Untold,
    UntoldTraining,
    marian,
    shape,
    small_workload,
    training_batches,
    untrained,
)
from race import RESULTS, Race, describe_conditions, read_json, take_turns, write_json
from routing import make_inputs, ours
from untold.decoding.beam_search import best_tokens
from untold.inference.linear import BYTES, LAYOUTS, PANELS
from untold.inference.model import PreparedModel, prepare
from untold.models.backbone import LinearWeight
from untold.models.layers import Dropout, sigmoid_scores
from untold.models.routing import split_routing
from untold.models.routing_kernels import squash
from untold.models.seq2seq import Seq2Seq
from untold.training.losses.cross_entropy import label_smoothed_cross_entropy

Call = Callable[[], object]
Pair = tuple[Call, Call]  # ours, the reference
RECORD = RESULTS / "guard.json"
TOLERANCE = 0.10  # of the recorded ratio
ROUNDS = 40
ROUND_SECONDS = 0.02  # of each side: some calls of a short kernel, one of a long one
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"}
OURS, REFERENCE = "ours", "reference"
VOCABULARY = 2000


def _routing() -> Pair:
    inputs = make_inputs((16, 14, 14, 128, 64), "paper")
    return lambda: inputs.run(ours), lambda: inputs.run(split_routing)


def _cross_entropy() -> Pair:
    states = torch.randn(256, 128, requires_grad=True)
    embedding = torch.randn(VOCABULARY, 128, requires_grad=True)
    labels = torch.randint(VOCABULARY, (256,))

    def reference() -> None:
        logits = states @ embedding.T
        F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="sum").backward()

    def own() -> None:
        label_smoothed_cross_entropy(states, embedding, labels, 0.1)[0].backward()

    return own, reference


def _dropout() -> Pair:
    x = torch.randn(64, 16, 256, requires_grad=True)
    return _through(Dropout(0.1).train(), x), _through(nn.Dropout(0.1).train(), x)


def _best_tokens() -> Pair:
    log_probs = torch.randn(16, 4, 10_000).log_softmax(-1)
    return lambda: best_tokens(log_probs, 5), lambda: log_probs.topk(5)


def _sigmoid_scores() -> Pair:
    keys, query = (torch.randn(32, 20, 64, requires_grad=True) for _ in range(2))
    weight = torch.randn(64, requires_grad=True)

    def reference() -> None:
        hidden = (keys[:, None] + query[:, :, None]).sigmoid()
        (hidden @ weight).sum().backward()

    return lambda: sigmoid_scores(keys, query, weight).sum().backward(), reference


def _squash() -> Pair:
    s = torch.randn(16, 16, 6, 64, requires_grad=True)

    def reference(x: Tensor) -> Tensor:
        norm = x.norm(dim=-1, keepdim=True)
        return x * norm / (1 + norm.square())

    return _through(squash, s), _through(reference, s)


def _update() -> Pair:
    config, workload = shape("tiny", 0.1), small_workload(VOCABULARY)
    (batch,) = training_batches(workload, 512, 1)
    own, theirs = UntoldTraining(config, VOCABULARY, workload), MarianTraining(config, VOCABULARY)
    return lambda: own.update(batch), lambda: theirs.update(batch)


def _beam_search() -> Pair:
    return _search(untrained(shape("tiny", 0.0), VOCABULARY), sentences=4)


def _prepared_sentence() -> Pair:
    return _search(prepare(untrained(shape("tiny", 0.0), VOCABULARY)), sentences=1)


def _search(model: Seq2Seq | PreparedModel, sentences: int) -> Pair:
    job = SourceBatch([[7, 8, 9, 10, 11, 3]] * sentences, 6)
    theirs = marian(shape("tiny", 0.0), VOCABULARY)
    searchers = Untold(model, 4), HuggingFace("Marian", theirs, 4)
    return lambda: searchers[0].search(job), lambda: searchers[1].search(job)


def _prepared_linear(layout: str) -> Pair:
    weight, x = LinearWeight(torch.randn(10_000, 512), torch.randn(10_000)), torch.randn(4, 512)
    own = LAYOUTS[layout](weight)
    return lambda: own(x), lambda: F.linear(x, weight.weight, weight.bias)


def _through(function: Callable[[Tensor], Tensor], x: Tensor) -> Call:
    """Forward and backward."""
    return lambda: function(x).sum().backward()


KERNELS: dict[str, Callable[[], Pair]] = {
    "routing, against its split form": _routing,
    "cross entropy, against torch's": _cross_entropy,
    "dropout, against nn.Dropout": _dropout,
    "best tokens, against topk": _best_tokens,
    "sigmoid scores, against the formula": _sigmoid_scores,
    "squash, against the formula": _squash,
    "a tiny update, against Marian's": _update,
    "a tiny beam search, against Marian's": _beam_search,
    "one sentence prepared, against Marian's": _prepared_sentence,
    "weights in panels, against linear": lambda: _prepared_linear(PANELS),
    "8-bit weights, against linear": lambda: _prepared_linear(BYTES),
}


@dataclass(frozen=True)
class Loss:
    """A kernel that has lost speed against its reference."""

    kernel: str
    recorded: float
    measured: float

    def __str__(self) -> str:
        lost = 1 - self.measured / self.recorded
        return (
            f"{self.kernel}: {self.measured:.2f} x the reference's speed, recorded "
            f"{self.recorded:.2f} x, {lost:.0%} lost (at most {TOLERANCE:.0%}): make the kernel as "
            "fast as before, or record anew with `make bench-record` and say why in the commit"
        )


def measure(
    name: str, make: Callable[[], Pair], rounds: int, clock: Callable[[], float] = time.process_time
) -> Race:
    """Runs a kernel in turns with its reference."""
    torch.manual_seed(1)
    own, reference = make()
    for call in (own, reference, own, reference):  # what torch sets up at first
        began = clock()
        call()
        spent = clock() - began
    calls = max(1, min(50, round(ROUND_SECONDS / max(spent, 1e-6))))
    contenders = {OURS: lambda _: own(), REFERENCE: lambda _: reference()}
    return Race(name, take_turns(contenders, range(calls), rounds, clock), {"calls": calls})


def find_losses(
    kernels: Mapping[str, Callable[[], Pair]],
    recorded: Mapping[str, float],
    measure_kernel: Callable[[str, Callable[[], Pair], int], Race] = measure,
) -> list[Loss]:
    """Measures every kernel, and those that seem slower a second time."""
    losses = []
    for name, make in kernels.items():
        if name not in recorded:
            print(f"{name}: not recorded yet: run `make bench-record`")
            continue
        least, measured = recorded[name] * (1 - TOLERANCE), 0.0
        for rounds in (ROUNDS, 2 * ROUNDS):
            measured = max(measured, measure_kernel(name, make, rounds).median_ratio(REFERENCE))
            if measured >= least:
                break
        else:
            losses.append(Loss(name, recorded[name], measured))
        print(f"{name:<40}{measured:>8.2f} x, recorded {recorded[name]:.2f} x", flush=True)
    return losses


def record(kernels: Mapping[str, Callable[[], Pair]], path: Path) -> None:
    """Writes the ratios of all kernels as they are now."""
    races = []
    for name, make in kernels.items():
        races.append(measure(name, make, 3 * ROUNDS))
        print(f"{name:<40}{races[-1].median_ratio(REFERENCE):>8.2f} x", flush=True)
    write_json(path, races, {"clock": "cpu"})


def steady_malloc() -> None:
    """Starts this script anew if glibc would move its thresholds while kernels run.

    By default whether a large tensor costs page faults depends on what was freed before it, which
    moved ratios by a third from run to run.
    """
    if not os.environ.keys() >= MALLOC.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | MALLOC)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--record", action="store_true", help="write the recorded ratios anew")
    options = parser.parse_args()
    steady_malloc()
    torch.set_num_threads(1)
    if options.record:
        record(KERNELS, RECORD)
        return
    kept = read_json(RECORD)
    there, here = (c["machine"]["processor"] for c in (kept.conditions, describe_conditions()))
    if there != here:
        print(f"recorded on {there}, this is {here}: ratios may differ for that reason alone")
    recorded = {race.title: race.median_ratio(REFERENCE) for race in kept.races}
    if losses := find_losses(KERNELS, recorded):
        sys.exit("\n".join(map(str, losses)))


if __name__ == "__main__":
    main()
