"""Who may ask: names of the server, origins of pages, keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.commands.serve import _HOME_NAMES as HOME
from untold.commands.serve import _rules
from untold.serve.routes import is_right_key


@given(st.text(), st.text(min_size=1))
def test_only_the_right_key_is_right(given_key, key):
    safe = key.encode(errors="replace").decode()
    assert is_right_key(given_key, None)
    assert is_right_key(safe, safe)
    assert is_right_key(given_key, safe) == (given_key.encode(errors="replace") == safe.encode())


@pytest.mark.parametrize(
    ("host", "names", "hosts"),
    [
        ("127.0.0.1", [], HOME),
        ("127.0.0.1", ["A.example"], HOME | {"a.example"}),
        ("10.0.0.1", [], HOME | {"10.0.0.1"}),
        ("0.0.0.0", [], set()),  # any
        ("0.0.0.0", ["a.example"], HOME | {"a.example"}),  # and probes of the machine itself
    ],
)
def test_names_under_which_clients_may_ask(host, names, hosts):
    assert _rules(host, "0123456789abcdef", [], names).hosts == hosts
