"""What does guided routing cost as the paper writes it, split, and as ours, in time and memory?

    python benchmarks/routing.py --threads 1

Each form runs forward and backward. Time is measured side by side, memory in a process for each
form: its peak beyond what it had before the first pass. All forms of the MLP agreement give the
same values and gradients (tests/property).
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from race import Table, add_race_options, measure_peak, run_race, write_json
from untold.config import SeparatorConfig
from untold.models.backbone import Widths
from untold.models.routing import GuidedRouting, Routed, literal_routing, split_routing

SHAPES = ((64, 16, 16, 256, 64), (16, 50, 50, 512, 256), (4, 100, 100, 512, 256))
OURS = "ours, mlp"


@dataclass(frozen=True)
class Inputs:
    """One layer of capsules, source states and decoder states; no padding."""

    gdr: GuidedRouting
    states: Tensor
    mask: Tensor
    guide: Tensor

    def run(self, form: Callable[..., Routed]) -> None:
        """Forward and backward."""
        routed = form(self.gdr, self.states, self.mask, self.guide)
        (routed.capsules.sum() + routed.assignments.square().sum()).backward()


def make_inputs(shape: tuple[int, ...], preset: str) -> Inputs:
    b, t, i, d, c = shape
    torch.manual_seed(1)
    config = SeparatorConfig.model_validate({"kind": "gdr", "preset": preset})
    states = torch.randn(b, i, d, requires_grad=True)
    guide = torch.randn(b, t, d, requires_grad=True)
    return Inputs(
        GuidedRouting(config, Widths(d, d, d), c), states, torch.ones(b, i, dtype=torch.bool), guide
    )


def ours(gdr: GuidedRouting, states: Tensor, mask: Tensor, guide: Tensor) -> Routed:
    return gdr(gdr.cast(states, mask), mask, guide)


FORMS: dict[str, tuple[Callable[..., Routed], str]] = {
    OURS: (ours, "paper"),
    "split": (split_routing, "paper"),
    "literal": (literal_routing, "paper"),
    "ours, dot": (ours, "default"),
}


def pass_once(name: str, shape: tuple[int, ...]) -> None:
    """One pass of a form."""
    prepare_pass(name, shape).run(FORMS[name][0])


def prepare_pass(name: str, shape: tuple[int, ...]) -> Inputs:
    """What a pass starts from, with what torch itself sets up."""
    form, preset = FORMS[name]
    make_inputs((2, 3, 5, 16, 8), preset).run(form)
    return make_inputs(shape, preset)


def _nothing(name: str, shape: tuple[int, ...]) -> None:
    prepare_pass(name, shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add_race_options(parser, rounds=3)
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="so many, small ones first")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    races, peaks = [], []
    for shape in SHAPES[: options.shapes]:
        title = f"Routing, (B, T, I, d, d_c) = {shape}, {options.threads} thread(s)"
        contenders = {
            name: _contender(form, make_inputs(shape, preset))
            for name, (form, preset) in FORMS.items()
        }
        work = {"positions": shape[0] * shape[1]}
        races.append(run_race(title, contenders, [None], work, options))
        print(races[-1].table(), flush=True)
        for name in FORMS:
            before, after = (measure_peak(run, name, shape) for run in (_nothing, pass_once))
            peaks.append([f"{name}, {shape}", after.mb - before.mb])
    table = Table("Memory that one pass of routing needs", ["form, shape", "MB"], peaks)
    print(table.text())
    if options.json:
        write_json(options.json, races, vars(options), [table])


def _contender(form: Callable[..., Routed], inputs: Inputs) -> Callable[[None], None]:
    return lambda _: inputs.run(form)


if __name__ == "__main__":
    main()
