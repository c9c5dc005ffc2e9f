"""Compares two forms of one model step by step, as a search would call them."""

import random
from collections.abc import Sequence
from typing import Any

import torch


def assert_same_steps(
    general: Any,
    prepared: Any,
    batch: tuple[torch.Tensor, torch.Tensor],
    bos: int,
    words: Sequence[int],
) -> None:
    """Beams grow, change places and leave, and translations outgrow the first room."""
    ids, mask = batch
    dice = random.Random(3)
    with torch.inference_mode():
        sides = [[side, side.encode(ids, mask)] for side in (general, prepared)]
        states = [side.start(source, 1) for side, source in sides]
        last, live = torch.full((len(ids), 1), bos), len(ids)
        for step in range(38):
            found = [
                side.step(source, last, state, attention=step % 2 == 0)
                for (side, source), state in zip(sides, states, strict=True)
            ]
            _assert_same(*found)
            beams, width = last.shape[1], 1 + step % 3
            kept = [k for k in range(live) if live == 1 or step != 20 or k]
            rows = [k * beams + dice.randrange(beams) for k in kept for _ in range(width)]
            states = [each.state.select(torch.tensor(rows)) for each in found]
            if len(kept) < live:
                sides = [[side, source.select(torch.tensor(kept))] for side, source in sides]
                live = len(kept)
            last = torch.tensor([dice.choice(words) for _ in rows]).view(live, width)


def _assert_same(one: Any, other: Any) -> None:
    # The shaken weights amplify rounding: the general model is 1e-4 from double precision itself.
    torch.testing.assert_close(one.logits, other.logits, rtol=1e-3, atol=3e-4)
    for name in ("attention", "assignments", "copying"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None), name
        if left is not None:
            torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-4)
