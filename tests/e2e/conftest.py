"""What several of these tests start from."""

from pathlib import Path

import pytest

from fuzz.workshop import build_workshop


@pytest.fixture(scope="session")
def shared_workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, a configuration, trained runs and an aligner; tests may add files."""
    folder = tmp_path_factory.mktemp("shared") / "workshop"
    build_workshop(folder)
    return folder
