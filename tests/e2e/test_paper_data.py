"""docs/reproduce.md and configs/paper: every command can be parsed, and the recipes run.

The corpora of the paper may not be copied, so that the recipes run on toys of the same formats,
with models of a few numbers and one update.
"""

import contextlib
import itertools
import math
import random
import re
import shlex
from pathlib import Path

import pytest
import typer

from fuzz.in_process import run_in_process
from untold.cli import app
from untold.config import load_config
from untold.errors import UntoldError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
CONFIGS = sorted((ROOT / "configs" / "paper").glob("*.toml"))
COMMANDS = typer.main.get_command(app).commands


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def command_lines(text: str) -> list[list[str]]:
    """The words of every command line that starts with untold."""
    lines = re.sub(r"\\\n#?", " ", text).split("\n")
    words = [
        shlex.split(line.removeprefix("#"), comments=True) for line in lines if "untold " in line
    ]
    return [each[1:] for each in words if each[0] == "untold"]


LINES = [line for block in blocks("sh") for line in command_lines(block)]
HEADERS = [
    line
    for path in sorted((ROOT / "configs").rglob("*.toml"))
    for line in command_lines(re.sub(r"^[^#].*\n", "", path.read_text(), flags=re.MULTILINE))
]


def options(line: list[str], name: str) -> list[str]:
    return [after for option, after in itertools.pairwise(line) if option == name]


def parse(line: list[str]) -> None:
    """Parses a command line as untold does, without running it."""
    command = COMMANDS[line[0]]
    with contextlib.suppress(typer.Exit):
        command.make_context(line[0], line[1:])


def test_there_are_commands_for_every_configuration():
    assert len(LINES) > 25 and len(HEADERS) > 25
    named = {word for line in LINES for word in line if word.startswith("configs/")}
    assert named == {str(path.relative_to(ROOT)) for path in CONFIGS}


@pytest.mark.parametrize("line", LINES + HEADERS, ids=lambda line: " ".join(line)[:60])
def test_every_command_line_can_be_parsed(line):
    parse(line)
    for path in (word for word in line if word.startswith("configs/")):
        load_config(ROOT / path, options(line, "--set"))


@pytest.mark.parametrize(
    "line",
    [
        ["train", "a.toml", "--inti", "b"],
        ["evaluate", "--source", "a"],
        ["evaluate", "run", "--test", "a=b,c", "--samples", "many"],
    ],
)
def test_wrong_command_lines_are_noticed(line):
    with pytest.raises(Exception, match=r"(?i)no such option|missing parameter|must be a whole"):
        parse(line)


def test_models_that_commands_begin_with_were_made_before():
    """Every --init, compared and evaluated run is the --out of an earlier command."""
    made: set[str] = set()
    for line in LINES:
        if line[0] == "evaluate":
            runs = re.findall(r"(?<![\w/])runs/[\w-]+", " ".join(line))
        else:
            runs = options(line, "--init")
        assert set(runs) <= made, line
        made.update(options(line, "--out"))
    assert len(made) > 15


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configurations_hold_the_settings_of_the_paper(path):
    config = load_config(path)
    train, decode = config.train, config.decode
    assert (train.steps, train.batch_tokens, train.warmup) == (100_000, 25_000, 4000)
    assert train.label_smoothing == 0.1
    assert train.schedule == "inverse_sqrt"
    assert train.learning_rate == pytest.approx(1 / math.sqrt(512 * 4000), rel=1e-3)
    summaries = path.stem.startswith("lcsts")
    assert (decode.beam, decode.length_penalty) == ((10, 0.0) if summaries else (4, 0.6))
    assert (config.tokenizer.kind, config.tokenizer.size) == (
        ("char", 4000) if summaries else ("bpe", 32_000)
    )
    assert config.tokenizer.joint and config.model.preset == "base"
    assert config.data.max_words == (50 if path.stem.startswith("nist") else None)


PAST_FUTURE = [path for path in CONFIGS if path.stem.endswith("-past-future")]


@pytest.mark.parametrize("path", PAST_FUTURE, ids=lambda path: path.stem)
def test_past_and_future_are_all_that_differs_from_the_baseline(path):
    ours, plain = load_config(path), load_config(path.with_stem(path.stem[: -len("-past-future")]))
    separator = ours.model.separator
    assert (separator.kind, separator.preset, separator.agreement) == ("gdr", "paper", "mlp")
    assert (separator.counts, separator.d_capsule, separator.num_iterations) == ((2, 2, 2), 256, 3)
    assert plain.model.separator.kind == "none"
    weights = {
        "bow_weight": 1.0,
        "bca_weight": 1.0,
        "bow_window": "paper",
        "bow_reduction": "sum",
        "bow_share": 1.0,
        "vocabulary_share": 1.0,
        "ends_weight": 0.0,
        "lexicon_weight": 0.0,
        "counterfactual": 0.0,
        "separator_rate": 1.0,
    }
    changed = {
        "model": plain.model.model_copy(update={"separator": separator}),
        "train": plain.train.model_copy(update=weights),
    }
    assert ours == plain.model_copy(update=changed)


CHINESE = ["我们", "他们", "今天", "明天", "学习", "喜欢", "北京", "天气"]
ENGLISH = ["We", "They", "today", "tomorrow", "study", "like", "Beijing", "weather"]


def sentences(dice: random.Random, count: int) -> list[tuple[str, str]]:
    drawn = [
        [dice.randrange(len(CHINESE)) for _ in range(dice.randint(4, 7))] for _ in range(count)
    ]
    return [
        ("".join(CHINESE[k] for k in each), " ".join(ENGLISH[k] for k in each) + ".")
        for each in drawn
    ]


def write_nist(root: Path) -> None:
    dice, folder = random.Random(1), root / "data" / "nist-zh-en"
    folder.mkdir(parents=True)
    pairs = sentences(dice, 40)
    (folder / "raw.zh").write_text("".join(f"{source}\n" for source, _ in pairs))
    (folder / "raw.en").write_text("".join(f"{target}\n" for _, target in pairs))
    for name in ("mt03", "mt04", "mt05", "mt06"):
        pairs = sentences(dice, 3)

        def document(side: int, system: str, pairs: list[tuple[str, str]] = pairs) -> str:
            texts = "".join(f"<seg id={k}>{each[side]}</seg>\n" for k, each in enumerate(pairs, 1))
            return f'<DOC docid="d" sysid="{system}">\n{texts}</DOC>\n'

        references = "".join(document(1, f"E0{number}") for number in range(1, 5))
        (folder / f"{name}.src.sgm").write_text(f"<srcset>\n{document(0, '')}</srcset>\n")
        (folder / f"{name}.ref.sgm").write_text(f"<refset>\n{references}</refset>\n")


def write_wmt(root: Path, name: str, target: str, test: str) -> None:
    dice, folder = random.Random(2), root / "data" / name
    folder.mkdir(parents=True)
    for part, count in (("train", 40), ("dev", 3), (test, 3)):
        pairs = sentences(dice, count)
        (folder / f"{part}.en").write_text("".join(f"{english}\n" for _, english in pairs))
        (folder / f"{part}.{target}").write_text("".join(f"{other}\n" for other, _ in pairs))


def write_lcsts(root: Path) -> None:
    dice, folder = random.Random(3), root / "data" / "lcsts"
    folder.mkdir(parents=True)
    for part, count in (("I", 40), ("II", 10), ("III", 10)):
        texts = []
        for number, (text, _) in enumerate(sentences(dice, count)):
            label = "" if part == "I" else f"<human_label>{number % 5 + 1}</human_label>\n"
            body = f"<summary>\n{text[:4]}\n</summary>\n<short_text>\n{text}\n</short_text>\n"
            texts.append(f"<doc id={number}>\n{label}{body}</doc>\n")
        (folder / f"PART_{part}.lcsts").write_text("".join(texts))


TINY = ["train.steps=1", "train.batch_tokens=200", "decode.max_length=5", "decode.beam=2"]
SHAPES = {
    "transformer": ["model.d_model=8", "model.heads=2", "model.decoder_layers=1"],
    "rnmt": ["model.d_embedding=8", "model.d_model=8"],
}


def small(line: list[str], *changes: str) -> list[str]:
    """A command to train with a model of a few numbers and one update."""
    config = load_config(ROOT / line[1])
    sizes = [*SHAPES[config.model.backbone], "model.d_ffn=8", "model.encoder_layers=1"]
    if config.model.separator.kind != "none":
        sizes.append("model.separator.d_capsule=4")
    words = [word for change in (*TINY, *sizes, *changes) for word in ("--set", change)]
    return [line[0], str(ROOT / line[1]), *line[2:], *words]


def follow(heading: str, folder: Path, *changes: str) -> str:
    """Runs every command of a section in its order; returns all that was printed."""
    (section,) = (each for each in PAGE.split("\n## ") if each.startswith(heading))
    printed = []
    for line in command_lines("".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))):
        quick = ["--samples", "5"] if "--test" in line else []
        run = small(line, *changes) if line[0] == "train" else [*line, *quick]
        ended = run_in_process(run, folder)
        assert ended.code == 0, f"{line}: {ended.errors}"
        printed.append(ended.output + ended.errors)
    return "".join(printed)


def run_python(number: int, folder: Path) -> None:
    with contextlib.chdir(folder):
        exec(blocks("python")[number], {"__name__": "program"})


def test_the_recipe_of_nist_runs(tmp_path):
    pytest.importorskip("rjieba", reason="the extra [zh] is not installed")
    pytest.importorskip("thot", reason="the extra [align] is not installed")
    write_nist(tmp_path)
    run_python(0, tmp_path)
    folder = tmp_path / "data" / "nist-zh-en"
    assert (folder / "mt04.en3").read_text() == (folder / "mt04.en0").read_text()
    assert (folder / "train.en").read_text().endswith(" .\n")
    printed = follow("NIST", tmp_path)
    assert printed.count("40 of 40 pairs kept") == 11
    assert "| mt04 | mt05 | mt06 | average |" in printed
    assert re.search(r"nrefs:4\|.*case:lc.*tok:none\|smooth:none", printed)
    for row in ("Transformer", "continued", "GDR", "+BoW", "+BCA", "both", "no-redundant"):
        assert f"\n| {row} |" in printed


@pytest.mark.parametrize(
    ("heading", "name", "target", "test"),
    [
        ("WMT14", "wmt14-en-de", "de", "newstest2014"),
        ("WMT16", "wmt16-en-ro", "ro", "newstest2016"),
    ],
)
def test_the_recipes_of_wmt_run_with_files(tmp_path, heading, name, target, test):
    write_wmt(tmp_path, name, target, test)
    assert "--set \"data.train={source='train.en',target='train.de'}\"" in PAGE
    corpora = [
        f"data.{key}={{source='{part}.en',target='{part}.{target}'}}"
        for key, part in (("train", "train"), ("valid", "dev"))
    ]
    printed = follow(heading, tmp_path, *corpora)
    assert printed.count("40 of 40 pairs kept") == 3
    assert f"| {test} |" in printed and "case:mixed" in printed and "tok:13a" in printed


def test_the_recipe_of_lcsts_runs(tmp_path, capsys):
    pytest.importorskip("rouge_score", reason="the extra [rouge] is not installed")
    write_lcsts(tmp_path)
    run_python(1, tmp_path)
    counts = [line.split()[:2] for line in capsys.readouterr().out.strip().split("\n")]
    assert counts == [["train", "40"], ["valid", "6"], ["test", "6"]]
    printed = follow("LCSTS", tmp_path)
    assert printed.count("training data: 40 of 40 pairs kept") == 3
    assert printed.count("validation data: 6 of 6 pairs kept") == 3
    assert printed.count("rougeL recall") >= 3


def test_a_configuration_whose_files_are_missing_names_them(tmp_path):
    ended = run_in_process(["train", str(CONFIGS[0]), "--out", "run"], tmp_path)
    assert ended.code == 2 and "data/lcsts/train.text: no such file" in ended.errors
    with pytest.raises(UntoldError):
        load_config(CONFIGS[0], ["data.max_words=0"])
