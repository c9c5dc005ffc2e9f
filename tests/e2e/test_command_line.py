"""The commands of the README, as a person runs them, on a corpus of a few sentences."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import in_process
from untold.version import __version__

SENTENCES = ["a dog sees a cat .", "the cat sees the dog .", "a cat sleeps .", "the dog sleeps ."]
CONFIG = """
[data]
train = { source = "train.src", target = "train.tgt" }
valid = { source = "train.src", target = "train.tgt" }
bleu_tokenize = "none"
[tokenizer]
size = 60
[model]
d_model = 16
d_ffn = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
dropout = 0.0
[train]
steps = 30
warmup = 5
learning_rate = 0.02
batch_tokens = 200
log_every = 10
validate_every = 15
save_every = 10
[decode]
max_length = 20
"""


DATA = ("--set", "data.root=FOLDER", "--out", "OUT")


def untold(*arguments: object, text: str | bytes = b"", code: int = 0) -> str:
    """Runs a command in this process; returns what it printed, or its error."""
    ended = in_process.untold(*arguments, text=text, code=code)
    return ended.errors if code else ended.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, a configuration and a trained run."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "train.src").write_text("".join(f"{text}\n" for text in SENTENCES * 8))
    (folder / "train.tgt").write_text("".join(f"{text.upper()}\n" for text in SENTENCES * 8))
    (folder / "config.toml").write_text(CONFIG)
    printed = untold(
        "train", folder / "config.toml", "--set", f"data.root={folder}", "--out", folder / "run"
    )
    assert "step 30" in printed
    return folder


def test_translate_keeps_lines_and_order(folder: Path) -> None:
    text = "a cat sleeps .\n\nthe dog sleeps .\r\n   \n"
    lines = untold("translate", folder / "run", text=text).split("\n")
    assert len(lines) == 5 and lines[4] == ""
    assert lines[0] and not lines[1] and lines[2] and not lines[3]
    (folder / "input.txt").write_text(text)
    assert untold("translate", folder / "run", folder / "input.txt").split("\n") == lines


def test_translate_announces_a_long_line(folder: Path) -> None:
    text = f"a cat sleeps .\na cat{' ' * 20_000}sleeps .\n"
    ended = in_process.untold("translate", folder / "run", text=text)
    assert ended.output.count("\n") == 2
    assert "line 2 has 20,013 characters" in ended.errors
    assert "line 1" not in ended.errors


def test_translate_prints_json_and_n_best(folder: Path) -> None:
    record = json.loads(untold("translate", folder / "run", "--json", text="a cat sleeps .\n"))
    assert record["tokens"] and record["score"] < 0
    lines = untold("translate", folder / "run", "--nbest", 3, text="a cat sleeps .\n")
    rows = [line.split(" ||| ") for line in lines.strip().split("\n")]
    assert [row[0] for row in rows] == ["0", "0", "0"]
    assert [float(row[2]) for row in rows] == sorted((float(row[2]) for row in rows), reverse=True)
    record = json.loads(untold("translate", folder / "run", "--json", "--nbest", 2, text="a cat\n"))
    assert len(record["alternatives"]) == 1


def test_evaluate_scores_and_writes_translations(folder: Path) -> None:
    source, reference = folder / "train.src", folder / "train.tgt"
    arguments = ("evaluate", folder / "run", "--source", source, "--reference", reference)
    printed = untold(*arguments, "--out", folder / "hypotheses")
    lines, legend = printed.rstrip("\n").split("\n\n")
    assert [line.split()[0] for line in lines.split("\n")] == ["BLEU", "chrF2", "TER"]
    assert re.match(r"BLEU \d+\.\d\d [\d./]+ BP .* ratio .* \(\d+/\d+\)  \[.*tok:none.*\]\n", lines)
    for row in ("BLEU (higher is better", "chrF2 (higher is better", "TER (lower is better"):
        assert f"\n  {row}" in f"\n{legend}"
    assert len((folder / "hypotheses").read_text().split("\n")) == 8 * len(SENTENCES) + 1
    scores = {each["name"]: each for each in json.loads(untold(*arguments, "--json"))}
    assert 0 <= scores["BLEU"]["value"] <= 100 and scores["TER"]["signature"]
    assert scores["TER"].keys() == {"name", "value", "signature", "details"}


def test_evaluate_takes_several_references(folder: Path) -> None:
    source, reference, other = (folder / name for name in ("train.src", "train.tgt", "other.tgt"))
    other.write_text("".join(f"x {line}\n" for line in reference.read_text().split("\n")[:-1]))
    arguments = ("evaluate", folder / "run", "--source", source, "--reference")
    several = (*arguments, reference, "--reference", other, "--metrics", "bleu,multi-bleu,chrf,ter")
    scores = json.loads(untold(*several, "--lowercase", "--json"))
    assert [each["name"] for each in scores] == ["BLEU", "BLEU", "chrF2", "TER"]
    for each in scores:
        assert "nrefs:2" in each["signature"] and "case:lc" in each["signature"]
    order = (*arguments, other, "--reference", reference, "--metrics", "bleu,multi-bleu,chrf,ter")
    assert json.loads(untold(*order, "--lowercase", "--json")) == scores
    (folder / "short.tgt").write_text("x\n")
    short = (*arguments, reference, "--reference", folder / "short.tgt")
    assert "short.tgt has 1: line by line they must belong together" in untold(*short, code=2)


def test_score_gives_a_line_for_each_pair(folder: Path) -> None:
    source, target = folder / "train.src", folder / "train.tgt"
    printed = untold("score", folder / "run", "--source", source, "--target", target)
    numbers = [float(line) for line in printed.strip().split("\n")]
    assert len(numbers) == 8 * len(SENTENCES) and max(numbers) < 0


def test_average_and_info(folder: Path) -> None:
    untold("average", folder / "run", "--last", 2, "--out", folder / "mean")
    record = json.loads(untold("info", folder / "mean", "--json"))
    assert record["parameters"] > record["parameters without embeddings"] > 0
    assert "16 / 16, 2 heads" in untold("info", folder / "mean")
    assert "ask for fewer" in untold(
        "average", folder / "run", "--last", 99, "--out", folder / "no", code=2
    )


def test_warm_start_says_what_was_taken_over(folder: Path) -> None:
    arguments = [
        "train",
        folder / "config.toml",
        "--init",
        folder / "run",
        "--out",
        folder / "warm",
    ]
    for setting in (f"data.root={folder}", "train.steps=2", "model.d_ffn=18"):
        arguments += ["--set", setting]
    errors = in_process.untold(*arguments).errors
    (line,) = (line for line in errors.split("\n") if "tensors taken over" in line)
    shapes = "(16, 16) there and (18, 16) here"
    assert f"such as backbone.encoder.0.ffn.inner.weight, {shapes}" in line
    assert "6 of another shape (backbone.encoder 3, backbone.decoder 3)" in line
    assert len(line) < 400 + len(str(folder)), "a summary, not a list"
    names = (folder / "warm" / "warm_start.txt").read_text()
    assert str(folder / "warm" / "warm_start.txt") in line
    assert f"of another shape: backbone.encoder.0.ffn.inner.weight, {shapes}\n" in names
    assert "taken over: backbone.encoder.0.attention.qkv.weight\n" in names


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["translate", "absent"], "absent: no such model"),
        (["translate", "RUN", "--set", "decode.bem=2"], "did you mean decode.beam?"),
        (["translate", "RUN", "--set", "train.steps=2"], "only decode settings"),
        (["translate", "RUN", "--beam", "2", "--set", "decode.beam=3"], "name the same setting"),
        (
            ["translate", "RUN", "--set", "decode.max_ratio=inf"],
            "must be a number above 0 to 1,000",
        ),
        (["translate", "RUN", "--set", "decode.beam=" + "[" * 5000], "nested too deeply"),
        (["train", "CONFIG", "--set", "train.keep=0"], "a whole number from 1 to"),
        (["train", "CONFIG", "--set", "data.root=nowhere"], "nowhere/train.src: no such file"),
        (["config", "zebra"], "unknown section zebra; known: data, data.train"),
        (["train", "absent.toml"], "no such configuration file"),
        (["train", "CONFIG", "--set", "train.stepz=1"], "did you mean train.steps?"),
        (["sample", "en-xx", "--out", "OUT"], "en-xx"),
        (["evaluate", "RUN", "--source", "CONFIG", "--reference", "RUN/metrics.jsonl"], "lines"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    folder: Path, arguments: list[str], expected: str
) -> None:
    places = {"RUN": folder / "run", "CONFIG": folder / "config.toml", "OUT": folder / "sample"}
    places["FOLDER"] = folder
    for name, place in places.items():
        arguments = [argument.replace(name, str(place)) for argument in arguments]
    error = untold(*arguments, text="x\n", code=2)
    assert expected in error and error.strip().count("\n") == 0


def test_bytes_that_are_not_text_name_the_line_and_lose_nothing_before_it(folder: Path) -> None:
    text = b"a cat sleeps .\nthe \xff dog\n"
    ended = in_process.untold("translate", folder / "run", text=text, code=2)
    assert "standard input:2:5: byte 0xff" in ended.errors
    assert len(ended.output.strip().split("\n")) == 1


def test_sample_is_deterministic(folder: Path) -> None:
    for name in ("one", "two"):
        untold("sample", "en-de", "--pairs", 50, "--seed", 3, "--out", folder / name)
    for path in sorted((folder / "one").iterdir()):
        assert path.read_bytes() == (folder / "two" / path.name).read_bytes()
    assert (folder / "one" / "train.align").read_text().count("\n") == 50


def test_the_tour_of_the_public_face(folder: Path) -> None:
    code = (
        "import sys, untold; t = untold.load(sys.argv[1]); "
        "print(t.translate('a cat sleeps .').text); print(len(t.translate(['a', 'b'])))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(folder / "run")],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert run.stdout.strip().endswith("2")


def test_a_new_project_starts_from_the_settings(folder: Path) -> None:
    (folder / "new.toml").write_text(untold("config", "--toml"))
    error = untold("train", folder / "new.toml", "--out", folder / "new", code=2)
    assert "data/train.en" in error, "all is right but for the example's files"
    assert untold("config", "decode.beam").startswith("decode.beam = 4 (a whole number from 1")


def test_the_version_is_printed():
    assert untold("--version") == f"untold {__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["info", "translate"])
def test_a_full_disk_behind_standard_output_is_one_line(folder: Path, command: str) -> None:
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [sys.executable, "-m", "untold", command, str(folder / "run")],
            input=b"a cat sleeps .\n",
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert run.returncode == 2
    assert run.stderr.count(b"\n") == 1
    assert b"No space left on device: free some space" in run.stderr


def test_a_closed_standard_input_is_one_line(folder: Path) -> None:
    script = f"exec {sys.executable} -m untold translate {folder / 'run'} <&-"
    run = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "untold: standard input is closed: name a file to translate\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--out", "missing/hypotheses"), "there is no directory"),
        (("--out", "."), "is a directory: name a file"),
        (("--tokenize", "xx"), "unknown tokenizer xx for BLEU; known: 13a, char"),
        (("--reference", "REFERENCE", "--metrics", "bleu,rouge"), "2 --reference files, but rouge"),
        (("--reference", "missing"), "missing: "),
        (("--metrics", "multi-bleu", "--tokenize", "13a"), "no effect on multi-bleu: leave it out"),
    ],
)
def test_evaluate_checks_its_options_before_it_translates(
    folder: Path, options: tuple[str, ...], expected: str
) -> None:
    texts = ("--source", folder / "train.src", "--reference", folder / "train.tgt")
    given = [folder / "train.tgt" if word == "REFERENCE" else word for word in options]
    assert expected in untold("evaluate", folder / "run", *texts, *given, code=2)


@pytest.mark.parametrize("last", ["0", "-1"])
def test_an_average_of_no_checkpoints_is_refused(folder: Path, last: str) -> None:
    assert f"{last}: must be a whole number from 1 to 1,000" in untold(
        "average", folder / "run", "--last", last, "--out", folder / "mean", code=2
    )


def test_deeply_nested_settings_are_one_line(folder: Path) -> None:
    deep = folder / "deep.toml"
    deep.write_text("x = " + "[" * 5000 + "]" * 5000 + "\n")
    assert untold("train", deep, code=2).count("\n") == 1


def test_a_reader_that_goes_away_ends_the_command_quietly(folder: Path) -> None:
    many = folder / "many"
    many.write_text("a cat sleeps .\n" * 5000)
    command = [sys.executable, "-m", "untold", "translate", str(folder / "run"), str(many)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.readline().strip()
        run.stdout.close()
        assert run.wait(timeout=300) == 141
        assert run.stderr.read() == b""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["trian"], "no such command 'trian'. Did you mean 'train'?: see untold --help"),
        (["train"], "missing argument 'config': see untold train --help"),
        (["info", "x", "--foo"], "no such option: --foo: see untold info --help"),
        (
            ["average", "x", "--out", "y", "--last", "abc"],
            "invalid value for '--last': abc: must be a whole number from 1 to 1,000: "
            "see untold average --help",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str], expected: str) -> None:
    assert untold(*arguments, code=2) == f"untold: {expected}\n"


def test_without_a_command_there_is_help():
    assert "translate" in untold()


def test_a_closed_standard_error_changes_no_exit_code():
    script = f"exec {sys.executable} -m untold info absent 2>&-"
    run = subprocess.run(["sh", "-c", script], capture_output=True)
    assert (run.returncode, run.stdout, run.stderr) == (2, b"", b"")
