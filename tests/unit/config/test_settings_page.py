"""`untold config`: every setting is explained, in the terminal, in the documentation, in TOML."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from untold.cli import app
from untold.config import (
    BACKBONES,
    AlignerConfig,
    Config,
    CorpusConfig,
    load_config,
    model_config_class,
    parse_config,
)
from untold.config.describe import print_settings, settings_markdown, settings_toml
from untold.config.schema import describe_sections, list_sections, summarise_section
from untold.errors import UntoldError

ROOT = Path(__file__).parents[3]
SECTIONS = {
    **{name: kind for name, kind in list_sections(Config).items() if name},
    **{name: model_config_class(name) for name in BACKBONES.shipped},
    "aligner": AlignerConfig,
}


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["config", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_every_setting_and_every_section_has_a_sentence():
    for name, kind in SECTIONS.items():
        summary = summarise_section(name, kind)
        assert re.fullmatch(r"[A-Z].*\.", summary.meaning)
        inner = {each for each in kind.model_fields if each in ("separator", "sequence")}
        assert {each.name for each in summary.settings} == kind.model_fields.keys() - inner
        for each in summary.settings:
            assert re.fullmatch(r"[A-Z].{12,99}\.", each.meaning), f"{name}.{each.name}"


def test_the_sections_are_those_of_a_configuration():
    names = [section.name for section in describe_sections(Config)]
    assert names == [
        *("data", "data.train", "data.valid", "tokenizer", "model", "model.separator"),
        *("train", "train.sequence", "decode"),
    ]
    assert list_sections(Config)["data.train"] is CorpusConfig
    chosen = list_sections(Config, {"model": {"backbone": "rnmt"}})
    assert chosen["model"] is model_config_class("rnmt")


def test_a_line_has_type_limits_default_and_meaning():
    assert run("decode.beam") == (
        "decode.beam = 4 (a whole number from 1 to 1,000): Hypotheses that the search keeps at "
        "each step; 1 is greedy search.\n"
    )
    assert "train.patience = unset (a whole number from 1 to" in run("train")


@pytest.mark.parametrize("name", [*list_sections(Config)][1:])
def test_a_section_is_printed_with_those_inside_it(name):
    keys = [line.partition(" = ")[0] for line in run(name).strip().split("\n")]
    assert keys == [
        f"{section.name}.{each.name}"
        for section in describe_sections(Config)
        for each in section.settings
        if f"{section.name}.{each.name}.".startswith(f"{name}.")
    ]


def test_without_a_section_all_are_printed():
    assert len(run().strip().split("\n")) == sum(len(s.settings) for s in describe_sections(Config))


def test_a_backbone_has_its_own_keys():
    assert "model.future_layer" in run("model", "--backbone", "pfrnn")
    assert "model.future_layer" not in run("model")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["zebra"], "unknown section zebra; known: data, data.train, data.valid, tokenizer, model"),
        (["decode.be"], "unknown section decode.be"),
        (["x" * 500], "unknown section xxx"),
        (["--backbone", "rnn"], "unknown backbone rnn; did you mean"),
        (["--toml", "--backbone", "rnn"], "unknown backbone rnn"),
        (["decode", "--toml"], "--toml prints all sections: leave out decode"),
        (["decode", "--markdown"], "--markdown prints all settings of all backbones"),
        (["--markdown", "--toml"], "give it alone"),
    ],
)
def test_what_cannot_be_printed_is_refused(arguments, message):
    with pytest.raises(UntoldError) as caught:
        CliRunner().invoke(app, ["config", *arguments], catch_exceptions=False)
    assert message in str(caught.value) and len(str(caught.value)) < 200


@pytest.mark.parametrize("width", [60, 120])
def test_a_terminal_gets_tables_that_lose_nothing(width):
    text = io.StringIO()
    sections = describe_sections(Config)
    print_settings(sections, Console(file=text, force_terminal=True, width=width))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text.getvalue())
    assert all(len(line) <= width for line in plain.split("\n"))
    letters = re.sub(r"\W", "", plain)
    for section in sections:
        assert f"[{section.name}]" in plain
        for each in section.settings:
            assert re.sub(r"\W", "", each.name[:12]) in letters


def test_the_page_of_the_documentation_is_current():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == settings_markdown(), "run: untold config --markdown > docs/settings.md"
    assert run("--markdown") == page


def test_the_page_has_every_setting_of_every_backbone():
    page = settings_markdown()
    for kind in SECTIONS.values():
        if kind is not AlignerConfig:
            for each in summarise_section("", kind).settings:
                assert f"| `{each.name}` | {each.allowed} |" in page
    assert all(len(row.split(" | ")) == 4 for row in page.split("\n") if row.startswith("| `"))


@pytest.mark.parametrize("backbone", BACKBONES.shipped)
def test_the_toml_loads_as_it_is_and_with_everything_written_out(tmp_path, backbone):
    file = tmp_path / "new.toml"
    file.write_text(run("--toml", "--backbone", backbone), encoding="utf-8")
    config = load_config(file)
    assert config.data.train[0].source == "data/train.en"
    assert config == parse_config(
        {"data": config.data.model_dump(), "model": {"backbone": backbone}}
    ), "all the rest has its default"
    text = file.read_text()
    filled = re.sub(r"^#(\w+ = .+)$", r"\1", text, flags=re.MULTILINE)
    assert filled.count("\n#") < text.count("\n#") - 80, "what was a comment is a setting now"
    file.write_text(filled)
    assert load_config(file) == config
    keys = set(re.findall(r"^#?(\w+) =", text, re.MULTILINE))
    for name, kind in list_sections(Config, {"model": {"backbone": backbone}}).items():
        if name and kind is not CorpusConfig:
            assert {each.name for each in summarise_section(name, kind).settings} <= keys
    assert max(map(len, text.split("\n"))) <= 100


def test_the_toml_of_the_default_names_no_backbone():
    assert '\n#backbone = "transformer"\n' in settings_toml("transformer")
    assert '\nbackbone = "rnmt"\n' in settings_toml("rnmt")


def test_a_backbone_of_another_package_may_say_nothing():
    class Terse(model_config_class("transformer")):  # type: ignore[misc]
        backbone: str = "terse"
        loud: bool = False

    summary = {each.name: each for each in summarise_section("model", Terse).settings}
    assert summary["loud"].meaning == "" and summary["loud"].allowed == "true or false"
    assert summary["backbone"].meaning, "inherited"
