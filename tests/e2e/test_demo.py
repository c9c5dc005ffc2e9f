"""The demo from end to end, only much shorter than `make demo`."""

from io import StringIO
from pathlib import Path

from rich.console import Console

import untold
from untold.commands.demo_run import run_demo

PNG = b"\x89PNG"


def test_the_demo_trains_both_models_and_shows_what_is_told(tmp_path: Path) -> None:
    printed = Console(file=StringIO(), width=200)
    settings = ["train.steps=3", "train.validate_every=3", "decode.max_length=20"]
    result = run_demo(tmp_path, settings, pairs=200, console=printed)
    text = printed.file.getvalue()  # type: ignore[attr-defined]
    for scores in (result.plain, result.past_future):
        assert [score.name for score in scores] == ["BLEU", "chrF2", "TER"]
    assert result.separation.rule.accuracy > 0.8
    for expected in ("source", "reference", "accuracy off rule", "FUTURE", "Try next"):
        assert expected in text
    assert (tmp_path / "untold.png").read_bytes().startswith(PNG)
    assert "<html" in (tmp_path / "untold.html").read_text()
    translator = untold.load(tmp_path / "model")
    assert translator.translate("He sleeps .", assignments=True).assignments is not None
    assert not untold.load(tmp_path / "plain").separates
