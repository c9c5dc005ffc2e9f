"""Models are named, loaded and found."""

import pytest

from untold.errors import UntoldError
from untold.serve.service import read_model_names


def test_models_are_named_by_hand_or_by_their_directory():
    named = read_model_names(["a=x/y", "runs/demo"])
    assert {name: str(path) for name, path in named.items()} == {"a": "x/y", "demo": "runs/demo"}
    for wrong in (["=x"], ["a="], ["x/a", "a=b"]):
        with pytest.raises(UntoldError):
            read_model_names(wrong)
