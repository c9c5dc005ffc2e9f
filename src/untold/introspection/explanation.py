"""Explains translations of any model that can be explained.

A model with past and future (a separator) is explained by the shares of its source words. A PFRNN
without a separator is explained by the states of its past and future layers.
"""

from collections.abc import Sequence
from typing import TypeAlias

from untold.errors import UntoldError
from untold.introspection.pfrnn_explanation import PfrnnExplanation, explain_pfrnn
from untold.introspection.pfrnn_states import has_pfrnn_states
from untold.introspection.share_explanation import ShareExplanation, explain_shares
from untold.translator import Translator

__all__ = ["Explanation", "explain", "explanation_kind"]

Explanation: TypeAlias = ShareExplanation | PfrnnExplanation


def explain(
    translator: Translator, sources: Sequence[str], targets: Sequence[str] = ()
) -> list[Explanation]:
    """Explains the model's own translation of each source, or the given targets, one for each."""
    if targets and len(targets) != len(sources):
        raise UntoldError(f"{len(sources)} sources but {len(targets)} targets: give one each")
    if explanation_kind(translator) == PfrnnExplanation.kind:
        return [*explain_pfrnn(translator, sources, targets)]
    return [*explain_shares(translator, sources, targets)]


def explanation_kind(translator: Translator) -> str:
    """Returns the `kind` of the explanations that `explain` gives for this translator."""
    first, *others = translator.models
    is_pfrnn_alone = not others and has_pfrnn_states(first) and first.model.past_future is None
    return PfrnnExplanation.kind if is_pfrnn_alone else ShareExplanation.kind
