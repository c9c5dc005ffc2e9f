"""The way of one update and of one translation through the package may only become shorter."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

# Most that each may count; lower these when the way becomes shorter (docs/architecture.md).
LIMITS = {
    "update plain": {"depth": 10, "functions": 48, "files": 8, "values": 19},
    "translate plain": {"depth": 7, "functions": 77, "files": 13, "values": 36},
    "update gdr": {"depth": 12, "functions": 123, "files": 15, "values": 105},
    "translate gdr": {"depth": 7, "functions": 79, "files": 12, "values": 38},
}


@cache
def counts() -> dict[str, dict[str, int]]:
    """In a process of its own, where no function is wrapped to check shapes."""
    script = Path(__file__).with_name("corridors.py")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(run.stdout)


@pytest.mark.parametrize("way", LIMITS)
def test_the_way_is_no_longer_than_recorded(way):
    found = counts()[way]
    assert all(value > 0 for value in found.values())
    over = {name: value for name, value in found.items() if value > LIMITS[way][name]}
    assert not over, f"{way}: {found}, recorded {LIMITS[way]}"
