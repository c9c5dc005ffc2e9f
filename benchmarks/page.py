"""Writes the tables of docs/performance.md from benchmarks/results/, and draws its pictures.

    python benchmarks/page.py --write

A table stands between the markers `<!-- results: NAME begin -->` and `<!-- results: NAME end -->`
and comes from NAME.json. Files without markers of their own are named at the markers of the name
`others`. A test compares page and files, so that no number can drift. A further picture is one more
row of PICTURES.
"""

import argparse
import hashlib
import json
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from race import RESULTS, Race, Results, Table, format_cell, read_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
OTHERS = "others"
MARKER = re.compile(r"<!-- results: ([\w-]+) begin -->\n.*?<!-- results: \1 end -->", re.DOTALL)
# Each picture has a panel for every race of these files; files that are lacking are left out.
PICTURES: dict[str, tuple[str, ...]] = {
    "training-peers": (
        "train-peers-tiny-default",
        "train-peers-tiny-raised",
        "train-peers-base-default",
        "train-peers-base-raised",
    ),
    "past-future": (
        "train-past-future-tiny",
        "train-past-future-base",
        "decode-past-future-tiny",
        "decode-past-future-base",
    ),
    "decoding": ("decode-tiny", "decode-base"),
}
RELATIVE = ("past_future", "rnmt", "relative")  # facts of races of a model against itself
OURS, THEIRS = "#0b6e4f", "#9aa5b1"


def with_results(page: str, results: Path = RESULTS) -> str:
    """Returns the page with all tables as the files have them."""
    known = {path.stem: path for path in sorted(results.glob("*.json"))}
    placed = {name for name in MARKER.findall(page) if name != OTHERS}
    if unknown := sorted(placed - set(known)):
        raise SystemExit(
            f"{unknown[0]}: the page has its markers, but there is no {unknown[0]}.json"
        )

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name == OTHERS:
            others = (_file_and_date(other, known) for other in sorted(set(known) - placed))
            text = ", ".join(others) or "None"
        else:
            text = _section(name, read_json(known[name]))
        begin, end = (f"<!-- results: {name} {word} -->" for word in ("begin", "end"))
        return f"{begin}\n\n{text}\n\n{end}"

    return MARKER.sub(fill, page)


def _file_and_date(name: str, files: Mapping[str, Path]) -> str:
    return f"`benchmarks/results/{name}.json` ({read_json(files[name]).conditions['date']})"


def _section(name: str, results: Results) -> str:
    parts = [_race_table(race, is_relative(results)) for race in results.races]
    parts += [_table(table) for table in results.tables]
    if absent := results.facts.get("absent"):
        reasons = "; ".join(f"{toolkit} ({reason})" for toolkit, reason in absent.items())
        parts.append(f"Not taking part: {reasons}.")
    return "\n\n".join([*parts, _conditions(name, results)])


def is_relative(results: Results) -> bool:
    """Says if a race is a model against itself, so that shares of its speed are of interest."""
    return any(str(results.facts.get(name)) == "True" for name in RELATIVE)


def _race_table(race: Race, relative: bool) -> str:
    heading = "its share of the first one's speed" if relative else "the first one is faster"
    lines = [
        f"**{race.title}**",
        "",
        "| | " + " | ".join(f"{unit}/s" for unit in race.work) + f" | {heading} |",
        "|---|" + "---:|" * (len(race.work) + 1),
    ]
    first = next(iter(race.seconds))
    for name in race.seconds:
        speeds = [f"{work / race.median(name):,.1f}" for work in race.work.values()]
        spread = "" if name == first else race.spread(name, relative=relative)
        lines.append(f"| {name} | {' | '.join(speeds)} | {spread} |")
    return "\n".join(lines)


def _table(table: Table) -> str:
    lines = [f"**{table.title}**", "", "| " + " | ".join(table.columns) + " |"]
    lines.append("|---|" + "---:|" * (len(table.columns) - 1))
    lines += ["| " + " | ".join(map(format_cell, row)) + " |" for row in table.rows]
    return "\n".join(lines)


def _conditions(name: str, results: Results) -> str:
    """Words what the figures depend on, in one line."""
    machine, versions, load = (results.conditions[part] for part in ("machine", "versions", "load"))
    caches = ", ".join(f"{kind} {size}" for kind, size in machine["caches"].items())
    rounds = {len(seconds) for race in results.races for seconds in race.seconds.values()}
    packages = ", ".join(f"{k} {v}" for k, v in versions.items() if k not in ("numpy", "commit"))
    others = load["other_processes"]
    beside = f"beside {others} other process(es)" if others else "on a quiet machine"
    parts = [
        f"`benchmarks/results/{name}.json`, {results.conditions['date']}, {beside}",
        f"{machine['processor']}, {machine['cores']} cores ({caches}), governor "
        f"{machine['governor']}",
        f"{packages}, commit {versions['commit']}",
    ]
    if rounds:
        parts.insert(1, f"medians (least to most) of {_range(rounds)} rounds")
    return f"<small>{'; '.join(parts)}.</small>"


def _range(counts: set[int]) -> str:
    return "-".join(str(count) for count in sorted({min(counts), max(counts)}))


def picture_path(name: str) -> Path:
    return PAGE.parent / "images" / f"speed-{name}.svg"


def picture_races(name: str, results: Path = RESULTS) -> list[Race]:
    """The races that a picture shows."""
    files = [results / f"{stem}.json" for stem in PICTURES[name]]
    return [race for path in files if path.exists() for race in read_json(path).races]


def picture_digest(races: Sequence[Race]) -> str:
    """A digest of what is drawn: the picture carries it, and a test compares."""
    return hashlib.sha256(json.dumps([race.as_json() for race in races]).encode()).hexdigest()


def draw_picture(races: Sequence[Race], path: Path) -> None:
    """Draws the speed of each contender as a share of the first one's, with its spread."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    heights = [0.9 + 0.27 * len(race.seconds) for race in races]
    with rc_context({"svg.hashsalt": "untold", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(7.5, sum(heights)), layout="constrained")
        axes = figure.subplots(len(races), height_ratios=heights, squeeze=False)
        for axis, race in zip(axes[:, 0], races, strict=True):
            _draw_race(axis, race)
        description = {"Date": None, "Description": picture_digest(races)}
        figure.savefig(path, format="svg", metadata=description)


def _draw_race(axis: "Axes", race: Race) -> None:
    names = list(race.seconds)
    shares = [[1 / ratio for ratio in race.ratios(name)] for name in names]
    middles = [statistics.median(rounds) for rounds in shares]
    spread = [
        [middle - min(rounds) for middle, rounds in zip(middles, shares, strict=True)],
        [max(rounds) - middle for middle, rounds in zip(middles, shares, strict=True)],
    ]
    colours = [OURS, *[THEIRS] * (len(names) - 1)]
    axis.barh(names, middles, xerr=spread, color=colours, height=0.62, error_kw={"lw": 1})
    for place, (middle, rounds) in enumerate(zip(middles, shares, strict=True)):
        axis.text(max(rounds) + 0.02, place, f"{middle:.2f}", va="center")
    axis.invert_yaxis()
    axis.axvline(1, color=OURS, lw=0.8, ls=":")
    axis.set_xlim(0, max(1.0, *map(max, shares)) * 1.12)
    axis.set_title(race.title, loc="left", fontsize=9, fontweight="bold", wrap=True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel("speed, the first one's = 1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="change the page and the pictures")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    if not options.write:
        sys.exit(0 if page == with_results(page) else "the page differs: use --write")
    PAGE.write_text(with_results(page), encoding="utf-8")
    for name in PICTURES:
        if races := picture_races(name):
            draw_picture(races, picture_path(name))


if __name__ == "__main__":
    main()
