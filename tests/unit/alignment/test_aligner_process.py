"""Training in another process gives the same aligner, and its errors arrive."""

from pathlib import Path

import pytest

from untold.alignment.aligner_process import train_in_process
from untold.alignment.aligners import train_aligner
from untold.config import AlignerConfig
from untold.errors import UntoldError

pytest.importorskip("thot", reason="sil-thot is not installed (extra align)")

SOURCES = ["the dog sleeps", "the cat sleeps", "a dog runs", "", "a cat runs"] * 5
TARGETS = ["der Hund schläft", "die Katze schläft", "ein Hund läuft", "", "eine Katze läuft"] * 5


@pytest.mark.parametrize("kind", ["hmm", "eflomal"])
def test_the_aligner_is_the_one_that_this_process_would_train(kind: str, tmp_path: Path) -> None:
    config = AlignerConfig.model_validate({"kind": kind, "iterations": 3})
    reports: list[tuple[int, int]] = []
    other = train_in_process(
        (SOURCES, TARGETS), config, tmp_path / "aligner", lambda *each: reports.append(each)
    )
    own = train_aligner(SOURCES, TARGETS, config)
    pairs = own.split(SOURCES, TARGETS)
    assert other.align(pairs) == own.align(pairs)
    assert other.backend.translates("dog", "Hund") == own.backend.translates("dog", "Hund") > 0.1
    done, totals = zip(*reports, strict=True)
    assert list(done) == list(range(1, len(done) + 1))
    assert set(totals) == {len(done)}
    assert kind == "eflomal" or len(done) == 2 * 2 * 3  # directions, models, iterations


def test_a_mistake_is_told_as_in_this_process(tmp_path: Path) -> None:
    texts = (["我们的新家有一台电梯。"] * 4, ["we have a lift"] * 4)
    with pytest.raises(UntoldError, match="choose jieba or character"):
        train_in_process(texts, AlignerConfig(), tmp_path / "aligner", lambda *_: None)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "aligner"
    with pytest.raises(UntoldError, match=r"file/aligner: could not be written"):
        train_in_process((SOURCES, TARGETS), AlignerConfig(kind="ibm1"), place, lambda *_: None)


def test_code_in_the_current_directory_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('run')")
    monkeypatch.chdir(tmp_path)
    config = AlignerConfig(kind="ibm1")
    aligner = train_in_process((SOURCES, TARGETS), config, tmp_path / "a", lambda *_: None)
    assert aligner.config == config
