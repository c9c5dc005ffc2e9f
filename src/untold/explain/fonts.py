"""Chooses fonts for a picture: matplotlib's own, and installed ones for missing characters."""

import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

from matplotlib import font_manager

_OWN = "DejaVu Sans"
# So many characters to a glyph has a font that draws the same box for all of a script, or nothing,
# as Last Resort and Adobe Blank do.
_SHARING = 10
# These are tried first. Matplotlib takes each glyph from the first font that has it.
_PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "Source Han Sans",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti TC",
    "Microsoft YaHei",
    "SimHei",
    "Arial Unicode MS",
    "Unifont",
)


def families_for(texts: Iterable[str]) -> tuple[list[str], str]:
    """Returns the families to draw these texts with, and the characters that none of them has."""
    missing = {c for text in texts for c in text if not c.isspace()}
    missing = _without(missing, font_manager.findfont(_OWN))
    families = [_OWN]
    for name, path in _others().items() if missing else ():
        rest = _without(missing, path)
        if rest != missing:
            families.append(name)
            missing = rest
        if not missing:
            break
    return families, "".join(sorted(missing))


def display_width(text: str) -> int:
    """Measures text in Latin letters: Chinese characters count 2, combining marks count 0."""
    widths = {"W": 2, "F": 2}
    return sum(
        widths.get(unicodedata.east_asian_width(c), 1) for c in text if not unicodedata.combining(c)
    )


def _without(characters: set[str], path: str) -> set[str]:
    """Returns the characters that the font has no glyph for."""
    glyphs = _drawn_by(path)
    return {character for character in characters if ord(character) not in glyphs}


@cache  # the charmap of a font that covers all of Unicode takes half a second
def _drawn_by(path: str) -> frozenset[int]:
    """Returns the characters that have a glyph of their own in a font file."""
    try:
        font = font_manager.get_font(path)
        charmap = font.get_charmap()
    except (OSError, RuntimeError):  # matplotlib cannot read this font
        return frozenset()
    return frozenset() if len(charmap) > _SHARING * font.num_glyphs else frozenset(charmap)


def _others() -> dict[str, str]:
    """Returns a file of each other installed family, in the order to try them."""
    manager = font_manager.fontManager
    listed = {entry.fname for entry in manager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in listed:  # installed after matplotlib made its list
            with suppress(OSError, RuntimeError):
                manager.addfont(path)
    fonts = {e.name: e.fname for e in manager.ttflist if e.style == "normal" and e.name != _OWN}
    names = [*(name for name in _PREFERRED if name in fonts), *sorted(fonts)]
    return {name: fonts[name] for name in names}
