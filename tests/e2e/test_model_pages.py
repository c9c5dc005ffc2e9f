"""docs/huggingface.md, followed from top to bottom on small models.

Names of files and models are those of the page: even models of the hub are folders here. Numbers
that cost time are smaller.
"""

import contextlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conversion_toys import toy_trained
from fuzz.in_process import run_in_process
from huggingface_toys import save_folder
from untold.huggingface.optional import quiet
from untold.storage.model_directory import save_model

ROOT = Path(__file__).parents[2]
SHORT = ("--set", "decode.max_length=6")
SMALLER = {
    "sample": ("--pairs", "400"),
    "adopt": ("--steps", "2"),
    "evaluate": SHORT,
    "translate": SHORT,
    "explain": SHORT,
    "train": (
        *("--set", "train.steps=2", "--set", "train.warmup=1", "--set", "train.validate_every=2"),
        *("--set", "train.save_every=2", "--set", "train.batch_tokens=500", *SHORT),
    ),
    "examples/train_marian.py": ("--steps", "2", "--vocabulary", "300"),
    "examples/finetune_with_trainer.py": ("--steps", "1", "--batch", "2"),
}
TESTED = 25  # lines of a test set


def blocks(page):
    """The language and the text of every block of code."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)


def commands(text):
    """The words of every command, and what is piped to it."""
    for line in text.replace("\\\n", " ").split("\n"):
        words = shlex.split(line, comments=True)
        piped = b""
        if "|" in words:
            echo, words = words[: words.index("|")], words[words.index("|") + 1 :]
            assert echo[0] == "echo"
            piped = f"{echo[1]}\n".encode()
        if words and words[0] != "pip":
            yield words, piped


def smaller(words):
    """The same command with numbers that cost less time."""
    changes, made = SMALLER.get(words[0], ()), list(words)
    if "--alignments" in words:  # nothing is translated
        return made
    for option, value in zip(changes[::2], changes[1::2], strict=True):
        if option in made and option != "--set":
            made[made.index(option) + 1] = value
        else:
            made += [option, value]
    return made


def run(words, piped, folder):
    """Runs a command of a page, and returns what it printed."""
    program, words = words[0], smaller(words[1:])
    if "export" in words:  # the page calls all folders alike
        shutil.rmtree(folder / "folder", ignore_errors=True)
    if any("onnx" in word for word in words):  # tracing does not mix with checks of types
        command = ["-m", "untold", *words] if program == "untold" else [ROOT / words[0], *words[1:]]
        command = [sys.executable, *map(str, command)]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return ended.stdout
    if program == "untold":
        ended = run_in_process(words, folder, piped)
        fine = (0, 1) if words[0] == "check" else (0,)  # 1: it has findings
        assert ended.code in fine, f"{words}: {ended.errors}"
        if words[0] == "sample":
            cut(folder / words[words.index("--out") + 1])
        return ended.output
    assert program == "python"
    command = [str(ROOT / words[0]), *words[1:]]
    with pytest.MonkeyPatch.context() as patched, contextlib.chdir(folder), quiet():
        patched.setattr(sys, "argv", command)
        runpy.run_path(command[0], run_name="__main__")
    return ""


def cut(corpus):
    """Leaves few lines of the development and test sets."""
    for path in (*corpus.glob("dev.*"), *corpus.glob("test.*")):
        lines = path.read_text(encoding="utf-8").split("\n")
        path.write_text("".join(f"{line}\n" for line in lines[:TESTED]), encoding="utf-8")


def follow(page, folder):
    """Runs every block of a page in its order; returns what its commands printed."""
    printed, settings = [], ""
    for language, text in blocks(page):
        if language == "toml":
            settings = text
        elif language == "python":
            with contextlib.chdir(folder), quiet():
                exec(text, {"__name__": "page"})
        else:
            assert language == "sh"
            for words, piped in commands(text):
                if words[1] == "train":  # with the settings that were shown last
                    (folder / words[2]).write_text(settings, encoding="utf-8")
                printed.append(run(words, piped, folder))
    return "".join(printed)


@pytest.fixture
def folder(tmp_path):
    """The files that a reader of the page has: parallel text, and models of his own."""
    run(["untold", "sample", "en-de", "--out", "text"], b"", tmp_path)
    (tmp_path / "multi30k").mkdir()
    for path in (tmp_path / "text").iterdir():
        shutil.copy(path, tmp_path)
        name = path.name.replace("dev", "val").replace("test", "test_2016")
        shutil.copy(path, tmp_path / "multi30k" / name)
    (tmp_path / "FILE").write_text("The child reads a book .\nA cat .\n")
    train = ["python", "examples/train_marian.py", "--source", "train.en", "--target", "train.de"]
    run([*train, "--out", "PATH"], b"", tmp_path)
    save_folder("nllb", tmp_path / "facebook" / "nllb-200-distilled-600M")
    save_folder("t5", tmp_path / "t5-small")
    save_model(tmp_path / "MODEL", toy_trained())
    return tmp_path


@pytest.mark.filterwarnings("ignore:.*pin_memory")
@pytest.mark.filterwarnings("ignore:Recommended")
def test_the_page_of_hugging_face_models_can_be_followed(folder):
    printed = follow("huggingface.md", folder)
    assert "translations unchanged: 30 of 30 compared" in printed
    assert (folder / "links.txt").read_text().count("\n") == 2
    for name in ("adopted", "finetuned", "native", "run"):
        assert run_in_process(["info", name], folder).code == 0
    assert {path.name for path in (folder / "folder").iterdir()} > {"encoder.onnx", "step.onnx"}
