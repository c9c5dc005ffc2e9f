"""The files that cases start from: corpus, configuration, runs, aligner, sheet, a Marian folder."""

import contextlib
import hashlib
import io
import json
import shutil
import sys
from pathlib import Path

from huggingface_toys import save_folder

__all__ = ["CONFIG", "build_workshop", "seal", "use_workshop"]

SENTENCES = ("a dog sees a cat .", "the cat sees the dog .", "a cat sleeps .", "the dog sleeps .")
CONFIG = """
[data]
train = { source = "corpus.src", target = "corpus.tgt" }
valid = { source = "corpus.src", target = "corpus.tgt" }
bleu_tokenize = "none"
[tokenizer]
size = 60
[model]
d_model = 8
d_ffn = 8
heads = 2
encoder_layers = 1
decoder_layers = 1
separator = { kind = "gdr", d_capsule = 4, lexicon = 4 }
[train]
steps = 4
warmup = 2
batch_tokens = 200
log_every = 2
validate_every = 2
save_every = 2
[decode]
beam = 2
max_length = 12
"""
GRAMMAR = """\
languages xx yy
start S
feature num = sg pl
S -> NP[num] V[num] || NP V
NP[num=sg] -> "the dog" || "der Hund"
NP[num=pl] -> "the cats" || "die Katzen"
V[num=sg] -> "sleeps" || "schläft"
V[num=pl] -> "sleep" || "schlafen"
V[num=sg] -> "runs"~1 "away"~2 || "läuft"~1 "weg"~2
V[num=pl] -> "run"~1 "away"~2 || "laufen"~1 "weg"~2
"""


def build_workshop(folder: Path) -> None:
    """Writes everything into a new folder; runs the commands themselves, in this process."""
    folder.mkdir(parents=True)
    texts = {"src": SENTENCES * 6, "tgt": [text.upper() for text in SENTENCES * 6]}
    for side, lines in texts.items():
        (folder / f"corpus.{side}").write_text("".join(f"{line}\n" for line in lines))
    rows = list(zip(texts["src"], texts["tgt"], strict=True))
    (folder / "corpus.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in rows))
    records = (json.dumps({"source": s, "target": t}) for s, t in rows)
    (folder / "corpus.jsonl").write_text("".join(f"{record}\n" for record in records))
    links = (" ".join(f"{i}-{i}" for i in range(len(s.split()))) for s, _ in rows)
    (folder / "corpus.align").write_text("".join(f"{line}\n" for line in links))
    (folder / "config.toml").write_text(CONFIG)
    (folder / "toy.grammar").write_text(GRAMMAR, encoding="utf-8")
    (folder / "empty").mkdir()
    save_folder("marian", folder / "marian")
    with contextlib.chdir(folder):
        _run("train", "config.toml", "--out", "run")
        plain = ("--set", "model.separator.kind=none", "--set", "train.steps=2")
        _run("train", "config.toml", *plain, "--out", "plain")
        texts = ("--source", "corpus.src", "--target", "corpus.tgt")
        _run("align", *texts, "--kind", "ibm1", "--save", "aligner")
        systems = ("--system", "a=corpus.tgt", "--system", "b=corpus.src")
        _run("sheet", "--source", "corpus.src", *systems, "--number", "4", "--out", "sheet")
        text = (folder / "sheet" / "raters" / "sheet.csv").read_text(encoding="utf-8")
        (folder / "rated.csv").write_text(text.replace('"","","",""', '"4","","dog",""'))


def use_workshop(workshop: Path, folder: Path) -> None:
    """Copies the workshop, so that a case may spoil it."""
    shutil.copytree(workshop, folder)


def seal(directory: Path) -> None:
    """Writes the manifest anew, so that a change is met by the code behind the checksums."""
    entries = []
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name != "MANIFEST.json":
            data = path.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            name = path.relative_to(directory).as_posix()
            entries.append({"name": name, "size": len(data), "sha256": digest})
    (directory / "MANIFEST.json").write_text(json.dumps({"files": entries}))


def _run(*arguments: str) -> None:
    from untold.cli import main

    sys.argv = ["untold", *arguments]
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{arguments}: {output.getvalue()}") from end
