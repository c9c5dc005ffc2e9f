"""`untold config` lists the settings of a configuration."""

from typing import TYPE_CHECKING, Annotated

import typer

from untold.errors import UntoldError, shorten

if TYPE_CHECKING:
    from untold.config.schema import SectionSummary


SectionName = Annotated[
    str | None, typer.Argument(help="Such as train, model.separator or decode.beam [all].")
]
Backbone = Annotated[str | None, typer.Option(help="Whose settings to list [transformer].")]
AsToml = Annotated[bool, typer.Option("--toml", help="Print a file to start a project from.")]


def config(
    section: SectionName = None,
    backbone: Backbone = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a page of them.")] = False,
    as_toml: AsToml = False,
) -> None:
    """List every setting with its type, limits, default and meaning."""
    from untold.config.describe import print_settings, settings_markdown, settings_toml

    if markdown and (section or backbone or as_toml):
        raise UntoldError("--markdown prints all settings of all backbones: give it alone")
    if as_toml and section:
        raise UntoldError(f"--toml prints all sections: leave out {shorten(section)}")
    if markdown:
        print(settings_markdown(), end="")
        return
    sections = _describe(backbone or "transformer")
    if as_toml:
        print(settings_toml(backbone or "transformer"), end="")
    else:
        print_settings(sections if section is None else _select(sections, section))


def _describe(backbone: str) -> "list[SectionSummary]":
    from untold.config import Config, model_config_class
    from untold.config.schema import describe_sections

    model_config_class(backbone)  # refuses one that is not there
    return describe_sections(Config, {"model": {"backbone": backbone}})


def _select(sections: "list[SectionSummary]", name: str) -> "list[SectionSummary]":
    """Keeps the settings of one section and of those inside it, or the one setting, of a name."""
    from dataclasses import replace

    kept = []
    for section in sections:
        keys = {each: f"{section.name}.{each.name}" for each in section.settings}
        settings = tuple(s for s, key in keys.items() if f"{key}.".startswith(f"{name}."))
        if settings:
            kept.append(replace(section, settings=settings))
    if not kept:
        known = ", ".join(section.name for section in sections)
        raise UntoldError(f"unknown section {shorten(name)}; known: {known}")
    return kept
