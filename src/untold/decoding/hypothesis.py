"""What a search hands back."""

from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

__all__ = ["Hypothesis"]


@dataclass(frozen=True)
class Hypothesis:
    """One translation in ids; t counts its tokens and the EOS that ends it."""

    tokens: tuple[int, ...]  # neither BOS nor EOS
    # log_probability over the length penalty, and the coverage penalty: n-best lists go by it.
    score: float
    log_probability: float  # of all tokens and EOS, whatever constraints the search was under
    token_log_probabilities: tuple[float, ...]  # of each token and, last, of EOS
    finished: bool = True  # False: the length limit was reached, and EOS stands there by force
    attention: Float[Tensor, "t i"] | None = field(default=None, compare=False)
    # How each source word stood when each token was chosen: past, future, redundant.
    assignments: Float[Tensor, "t i g"] | None = field(default=None, compare=False)
    # The probability of copying each source word when each token was chosen.
    copying: Float[Tensor, "t i"] | None = field(default=None, compare=False)
