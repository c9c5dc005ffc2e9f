"""The files that a server gives to browsers, by name."""

from functools import cache
from importlib.resources import files

from untold.web.inlining import PACKAGE, inline_template

__all__ = ["ASSETS", "asset"]

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_TEMPLATES = frozenset({"check_report.html", "explain_page.html"})  # are given in one piece


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]


ASSETS = frozenset(
    each.name for each in files(PACKAGE).iterdir() if _suffix(each.name) in _MEDIA_TYPES
)


@cache
def asset(name: str) -> tuple[bytes, str]:
    """Returns the content and the media type of a file; a name not in ASSETS is a KeyError.

    Templates of reports have their modules inside, and a place for data: a browser that fills it
    in has a page of one file.
    """
    if name not in ASSETS:
        raise KeyError(name)
    if name in _TEMPLATES:
        return inline_template(name).encode(), _MEDIA_TYPES[".html"]
    return files(PACKAGE).joinpath(name).read_bytes(), _MEDIA_TYPES[_suffix(name)]
