"""Tasks divide long lists, so that nobody waits long for them."""

from hypothesis import given
from hypothesis import strategies as st

from untold.serve.work import model_tasks
from untold.serve.work.model_tasks import _portions


@given(st.lists(st.integers(0, 2 * model_tasks._CELLS_AT_ONCE)))
def test_parts_are_small_and_all_there(cells):
    parts = [cells[part] for part in _portions(cells)]
    assert [each for part in parts for each in part] == cells
    for part in parts:
        assert 1 <= len(part) <= model_tasks._PAIRS_AT_ONCE
        assert len(part) == 1 or sum(part) <= model_tasks._CELLS_AT_ONCE
