"""The demo from end to end, only much shorter than `make demo`."""

from io import StringIO
from pathlib import Path

from rich.console import Console

import untold
from untold.demo import run_demo


def test_the_demo_trains_translates_scores_and_says_what_is_next(tmp_path: Path) -> None:
    printed = Console(file=StringIO(), width=200)
    settings = ["train.steps=3", "train.validate_every=3", "decode.max_length=20"]
    scores = run_demo(tmp_path, settings, pairs=200, console=printed)
    text = printed.file.getvalue()  # type: ignore[attr-defined]
    assert [score.name for score in scores] == ["BLEU", "chrF2", "TER"]
    for expected in ("source", "translation", "reference", "Try next", "untold translate"):
        assert expected in text
    assert untold.load(tmp_path / "model").translate("He sleeps .").source_tokens
