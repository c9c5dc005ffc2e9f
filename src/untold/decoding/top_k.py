"""The best tokens of each row of log-probabilities. Of equal ones the lower ids are better.

A compiled kernel finds them in one pass; where there is none, torch needs some more.
"""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from untold.native import load

__all__ = ["COLUMN", "best_tokens", "top", "top_in_torch"]

COLUMN = 16  # measured: the height at which a large vocabulary is searched fastest
_MOST = 64  # tokens that the kernel finds: it keeps them sorted, which is slow for many


def best_tokens(
    log_probs: Float[Tensor, "b n v"], count: int
) -> tuple[Float[Tensor, "b n k"], Int[Tensor, "b n k"]]:
    """Finds the best tokens of each row and sorts them by id."""
    count = min(count, log_probs.shape[-1])
    values, tokens = top(log_probs, min(count + 1, log_probs.shape[-1]))
    if values.shape[-1] > count:
        last, next_best = values[..., count - 1], values[..., count]
        tied = (last == next_best) & (last > -torch.inf)
        values, tokens = values[..., :count], tokens[..., :count]
        if bool(tied.any()):  # topk returns any of the tied tokens
            tokens = tokens.clone()
            by_id = log_probs[tied].sort(descending=True, stable=True).indices
            tokens[tied] = by_id[:, :count]
    tokens = tokens.sort(-1).values
    return log_probs.gather(-1, tokens), tokens


def top(
    log_probs: Float[Tensor, "*b v"], count: int
) -> tuple[Float[Tensor, "*b k"], Int[Tensor, "*b k"]]:
    """Finds the best tokens of each row, best first."""
    kernels, wanted = load(), (torch.float32, "cpu")
    if kernels is None or count > _MOST or (log_probs.dtype, log_probs.device.type) != wanted:
        return top_in_torch(log_probs, count)
    log_probs = log_probs.contiguous()
    *many, size = log_probs.shape
    values = log_probs.new_empty(*many, count)
    tokens = torch.empty(*many, count, dtype=torch.long)
    rows, addresses = log_probs.numel() // size, (values.data_ptr(), tokens.data_ptr())
    kernels.largest(log_probs.data_ptr(), size, count, rows, *addresses)
    return values, tokens


def top_in_torch(
    log_probs: Float[Tensor, "*b v"], count: int
) -> tuple[Float[Tensor, "*b k"], Int[Tensor, "*b k"]]:
    """Computes topk in less time: the best `count` lie in the columns with the best maxima.

    Of equal tokens it returns any.

    The vocabulary is written as rows of `width` ids under each other; the ids that are left over
    are added at the end. Maxima over columns run at the speed of memory, which topk does not.
    """
    size = log_probs.shape[-1]
    width = size // COLUMN
    if width < COLUMN * count:
        return log_probs.topk(count)
    table = log_probs[..., : COLUMN * width].unflatten(-1, (COLUMN, width))
    columns = table.amax(-2).topk(count, sorted=False).indices
    tokens = (columns[..., None] + _starts(size, log_probs.device)).flatten(-2)
    if size > COLUMN * width:
        rest = torch.arange(COLUMN * width, size, device=log_probs.device)
        tokens = torch.cat([tokens, rest.expand(*tokens.shape[:-1], -1)], dim=-1)
    values, places = log_probs.gather(-1, tokens).topk(count)
    return values, tokens.gather(-1, places)


@lru_cache(maxsize=16)
def _starts(size: int, device: torch.device) -> Int[Tensor, " c"]:
    """Returns the first id of each row of the table."""
    width = size // COLUMN
    return torch.arange(0, COLUMN * width, width, device=device)
