"""Prints settings to the terminal, as a page of Markdown, and as a TOML file to start from."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from untold.config.load import Config
from untold.config.model import BACKBONES, ModelConfig, model_config_class
from untold.config.schema import SectionSummary, Setting, describe_sections, summarise_section
from untold.terminal import console as make_console

_HEADING = ("setting", "type and limits", "default", "meaning")
_PAGE = """# Settings

This page lists every setting of a configuration. `untold config` prints the same in the terminal:
`untold config decode` one section, `untold config decode.beam` one setting, and
`untold config model --backbone rnmt` the settings of another backbone. `untold config --toml`
prints a file to start from, in which every setting stands with its default.

Every number has a lower and an upper limit, in files, in `--set`, in options and in the
`config.json` of a model. The limits stop what would overflow or never end, and nobody else should
meet them. What the machine can hold is estimated before anything is built: a model, a training or
a beam that needs more memory than there is, is refused with the estimate.

`untold config --markdown > docs/settings.md` writes this page.
"""
_TOML = """# Every setting stands here with its default. Remove the # before those that you change.
# Start a run with: untold train THIS_FILE
"""
# What nobody can start without.
_DATA = """# A corpus is two text files as here, a table such as { path = "pairs.tsv" }, or a
# dataset of Hugging Face, { dataset = "NAME" }; train may be a list of corpora.
source_language = "en"
target_language = "de"
train = { source = "data/train.en", target = "data/train.de" }
valid = { source = "data/dev.en", target = "data/dev.de" }"""
_COMMENT: dict[str, Any] = {"width": 100, "initial_indent": "# ", "subsequent_indent": "# "}


def print_settings(sections: Sequence[SectionSummary], console: Console | None = None) -> None:
    """Prints a table for each section, or a line for each setting if there is no terminal."""
    console = console or make_console()
    for section in sections:
        if console.is_terminal:
            console.print(_terminal_table(section))
            continue
        for each in section.settings:
            line = f"{section.name}.{each.name} = {_shown(each)} ({each.allowed}): {each.meaning}"
            console.print(line, markup=False, soft_wrap=True)


def settings_markdown() -> str:
    """Writes the page of all sections, and of all backbones that untold ships."""
    parts = [_PAGE]
    for section in describe_sections(Config):
        if section.name == "model":
            parts.append(_markdown_section(summarise_section("model", ModelConfig)))
            parts += [_markdown_backbone(name) for name in BACKBONES.shipped]
        elif section.name != "data.valid":  # has the keys of data.train
            parts.append(_markdown_section(section))
    return "\n".join(parts)


def settings_toml(backbone: str) -> str:
    """Writes a configuration that loads as it is, with all that it need not have as comments."""
    lines, chosen = [_TOML], {"data": _DATA}
    if backbone != ModelConfig.model_fields["backbone"].default:
        chosen["model"] = f'backbone = "{backbone}"'
    for section in describe_sections(Config, {"model": {"backbone": backbone}}):
        if section.name in ("data.train", "data.valid"):
            continue
        lines += [fill(section.meaning, **_COMMENT), f"[{section.name}]"]
        lines += [chosen[section.name]] if section.name in chosen else []
        lines += [*_toml_lines(section, chosen.get(section.name, "")), ""]
    return "\n".join(lines)


def _terminal_table(section: SectionSummary) -> Table:
    title = escape(f"[{section.name}] {section.meaning}")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in _HEADING:
        table.add_column(heading, overflow="fold")
    for each in section.settings:
        table.add_row(*map(escape, (each.name, each.allowed, _shown(each), each.meaning)))
    return table


def _markdown_section(section: SectionSummary) -> str:
    return f"## `[{section.name}]`\n\n{section.meaning}\n\n{_markdown_table(section.settings)}"


def _markdown_backbone(name: str) -> str:
    """Writes the settings that one backbone adds, and its presets."""
    kind = model_config_class(name)
    summary = summarise_section("model", kind)
    own = [each for each in summary.settings if each.name not in ModelConfig.model_fields]
    presets = "".join(f"- `{preset}`: {_sizes(sizes)}\n" for preset, sizes in kind.presets.items())
    heading = f'### `backbone = "{name}"`\n\n{summary.meaning}\n'
    return f"{heading}\n{presets}\n{_markdown_table(own)}"


def _markdown_table(settings: Sequence[Setting]) -> str:
    rows = [_HEADING, ("---",) * len(_HEADING)]
    rows += [(f"`{s.name}`", s.allowed, f"`{_shown(s)}`", s.meaning) for s in settings]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows
    )


def _toml_lines(section: SectionSummary, chosen: str) -> Iterator[str]:
    """Writes every setting that is not chosen already."""
    for each in section.settings:
        if f"\n{each.name} =" not in f"\n{chosen}":
            yield fill(f"{each.meaning} ({each.allowed})", **_COMMENT)
            yield f"#{each.name} = {each.default or ''}".rstrip()


def _sizes(sizes: Mapping[str, Any]) -> str:
    return ", ".join(f"`{key}` {value}" for key, value in sizes.items())


def _shown(setting: Setting) -> str:
    return "unset" if setting.default is None else setting.default
