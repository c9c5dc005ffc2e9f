"""What the tests of reports start from."""

from collections.abc import Callable

import pytest

from formula_explanations import explain_by_formula
from untold.explain.explanation import Explanation


@pytest.fixture
def by_formula() -> Callable[..., Explanation]:
    """Explanations in which source word i turns from future to past with target word i."""
    return explain_by_formula
