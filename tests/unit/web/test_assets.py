"""The files of the pages: what is served, how they are joined, and what they may not do."""

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from untold import web
from untold.errors import CONTROLS
from untold.web import ASSETS, asset
from untold.web.pages import inline_template, join_modules, module_imports

FOLDER = Path(str(files(web)))
MODULES = sorted(name for name in ASSETS if name.endswith(".js"))
TEMPLATES = ("check_report.html", "explain_page.html")
# The name of a language, which is no address.
SVG = "http://www.w3.org/2000/svg"


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def test_every_file_is_served_with_its_type():
    kinds = {name.rsplit(".")[1]: asset(name)[1] for name in ASSETS}
    assert kinds == {
        "css": "text/css; charset=utf-8",
        "html": "text/html; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
    for name in ASSETS - set(TEMPLATES):
        assert asset(name)[0] == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", ["absent.js", "../errors.py", "__init__.py", ""])
def test_no_other_file_is_served(name):
    with pytest.raises(KeyError):
        asset(name)


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_small_and_obey_the_rule_of_joining(name):
    source = text(name)
    assert source.count("\n") <= 250
    assert max(map(len, source.split("\n"))) <= 160
    code = re.sub(r"/\*.*?\*/|^\s*//.*?$", "", source, flags=re.DOTALL | re.MULTILINE)
    assert len(re.findall(r"^import ", code, re.MULTILINE)) == len(module_imports(source))
    assert set(module_imports(source)) <= ASSETS
    assert not re.search(
        r"^export (?:default|\*|\{ \w)|\bimport\(| as \w+ ?[,}]", code, re.MULTILINE
    )
    assert "</" not in source and "<!--" not in re.sub(r'"<!--(data|title)-->"', "", source)


def test_no_name_is_given_twice_at_the_top_of_modules():
    """Joined modules share one scope."""
    found: dict[str, str] = {}
    pattern = r"^(?:export )?(?:async )?(?:function\*?|class|const|let) (\w+)"
    for name in MODULES:
        for given in re.findall(pattern, text(name), re.MULTILINE):
            assert given not in found, f"{given} stands in {found[given]} and in {name}"
            found[given] = name
    assert len(found) > 80, "the pattern finds names"


def test_joined_modules_stand_once_and_after_what_they_import():
    joined = join_modules("explain_page.js")
    names = re.findall(r"^// (\w+\.js)$", joined, re.MULTILINE)
    assert len(names) == len(set(names)) and names[-1] == "explain_page.js"
    for place, name in enumerate(names):
        assert set(module_imports(text(name))) <= set(names[:place])
    assert not re.search(r"^(import|export) ", joined, re.MULTILINE)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_page_of_one_file_needs_nothing_else(name):
    page = inline_template(name).replace(f'"{SVG}"', "")
    assert not re.search(r"https?://|@import|url\(|<iframe|fetch\(|XMLHttp| src=", page)
    assert re.findall(r"script-src ([^;]+);", page)[0].startswith("'sha256-")
    assert "unsafe" not in page
    assert page.count("<!--data-->") == 1


def test_nothing_that_is_shown_can_become_markup():
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.setHTML"
    for name in MODULES:
        assert not re.search(ways, text(name)), name


def test_the_live_page_has_nothing_inline_and_only_its_own_addresses():
    page = text("index.html")
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", page)
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert {address.removeprefix("static/") for address in addresses} - {"openapi.json"} <= ASSETS
    for name in MODULES:
        assert not re.search(r"https?://", text(name).replace(SVG, "")), name


def test_every_element_that_the_script_asks_for_is_in_the_page():
    joined = join_modules("live_page.js")
    asked = set(re.findall(r'byId\("([\w-]+)"\)', joined))
    ids = re.findall(r'id="([\w-]+)"', text("index.html"))
    assert asked - {"data"} <= set(ids) and len(ids) == len(set(ids)) and len(asked) > 20


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_control_characters_become_visible_as_in_python(tmp_path):
    """The browser test holds this, too; here all characters are compared."""
    from untold.errors import escape_controls

    signs = [
        chr(n) for n in (*range(0x300), *range(0x2020, 0x2070), 0xD800, 0xDFFF, 0xFFFE, 0xFFFF)
    ]
    script = tmp_path / "all.mjs"
    script.write_text(
        f"import {{ visible }} from {json.dumps((FOLDER / 'writing.js').as_uri())};\n"
        f"console.log(JSON.stringify({json.dumps(signs)}.map((sign) => visible(sign))));\n"
    )
    run = subprocess.run(["node", str(script)], capture_output=True, check=True, timeout=60)
    assert json.loads(run.stdout) == [escape_controls(sign) for sign in signs]
    assert any(CONTROLS.match(sign) for sign in signs)


def contrast(one: str, other: str) -> float:
    """Computes the contrast of WCAG 2: relative luminance, lighter over darker."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_all_text_has_contrast(scheme):
    found = re.findall(
        r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", text("style.css")
    )
    colour = {name: colours[scheme] for name, *colours in found}
    pairs = [(name, ground) for name in ("ink", "soft", "accent") for ground in ("paper", "ground")]
    pairs += [(f"{name}-ink", f"{name}-ground") for name in ("past", "future", "redundant")]
    pairs += [(name, f"{name}-ground") for name in ("omission", "addition", "damage")]
    pairs += [("ink", "well"), ("ink", "accent-ground"), ("paper", "accent"), ("soft", "well")]
    for shown, ground in pairs:
        assert contrast(colour[shown], colour[ground]) >= 4.5, (shown, ground)
    assert contrast(colour["edge"], colour["paper"]) >= 3  # of fields


def test_dark_light_and_narrow_screens_are_thought_of():
    style = text("style.css")
    for query in ("color-scheme: light dark", "prefers-reduced-motion", "max-width: 36rem"):
        assert query in style
