"""Guided routing: the literal form, the split form and ours, forward and backward.

    python benchmarks/routing.py --threads 1

Time is measured side by side, memory in a process for each form: its peak beyond what it had before
the first pass. All forms of the MLP agreement give the same values and gradients (tests/property).
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from memory import measure
from race import CLOCKS, run_race, write_json
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


def make_inputs(shape: tuple[int, ...], agreement: str) -> Inputs:
    b, t, i, d, c = shape
    torch.manual_seed(1)
    config = SeparatorConfig.model_validate({"kind": "gdr", "agreement": agreement})
    states = torch.randn(b, i, d, requires_grad=True)
    guide = torch.randn(b, t, d, requires_grad=True)
    return Inputs(
        GuidedRouting(config, Widths(d, d, d), c), states, torch.ones(b, i, dtype=torch.bool), guide
    )


def ours(gdr: GuidedRouting, states: Tensor, mask: Tensor, guide: Tensor) -> Routed:
    return gdr(gdr.cast(states, mask), mask, guide)


FORMS: dict[str, tuple[Callable[..., Routed], str]] = {
    OURS: (ours, "mlp"),
    "split": (split_routing, "mlp"),
    "literal": (literal_routing, "mlp"),
    "ours, dot": (ours, "dot"),
}


def pass_once(name: str, shape: tuple[int, ...], *, run: bool) -> None:
    """One pass of a form, in a process of its own; without `run` only what it starts from."""
    form, agreement = FORMS[name]
    make_inputs((2, 3, 5, 16, 8), agreement).run(form)  # what torch itself sets up
    inputs = make_inputs(shape, agreement)
    if run:
        inputs.run(form)


def peak(name: str, shape: tuple[int, ...]) -> float:
    """Megabytes that one pass of a form needs."""
    return measure(_pass, name, shape).peak_mb - measure(_nothing, name, shape).peak_mb


def _pass(name: str, shape: tuple[int, ...]) -> None:
    pass_once(name, shape, run=True)


def _nothing(name: str, shape: tuple[int, ...]) -> None:
    pass_once(name, shape, run=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    races, memory = [], {}
    for shape in SHAPES:
        title = f"(B,T,I,d,d_c) = {shape}, {options.threads} thread(s)"
        contenders = {
            name: _contender(form, make_inputs(shape, agreement))
            for name, (form, agreement) in FORMS.items()
        }
        work = {"positions": shape[0] * shape[1]}
        races.append(run_race(title, contenders, [None], work, options))
        print(races[-1].table().replace("untold is", "ours, mlp, is"), flush=True)
        for name in FORMS:
            memory[f"{shape} {name}"] = peak(name, shape)
            print(f"{name:<34}{memory[f'{shape} {name}']:>14,.0f} MB", flush=True)
    if options.json:
        write_json(options.json, races, {"memory_mb": memory})


def _contender(form: Callable[..., Routed], inputs: Inputs) -> Callable[[None], None]:
    return lambda _: inputs.run(form)


if __name__ == "__main__":
    main()
