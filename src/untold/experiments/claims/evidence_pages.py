"""Writes two pages from results: all tables and figures, and what they say of the paper's claims.

    python -m untold.experiments.claims.evidence_pages docs/evidence docs

makes docs/results.md and docs/claims.md from the folders under docs/evidence.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from untold import durable
from untold.experiments.claims.claim_list import CLAIMS, INCONSISTENCIES, Claim
from untold.experiments.claims.result_set import ResultSet, read_result_set
from untold.experiments.claims.verdicts import HOLDS, NO, Outcome
from untold.experiments.evidence_files import markdown_table
from untold.experiments.evidence_parts import EvidenceTable

__all__ = ["claims_page", "find_result_sets", "results_page", "write_pages"]

_MADE = "<!-- made by untold.experiments.claims.evidence_pages: do not edit -->"


def find_result_sets(root: Path) -> list[ResultSet]:
    """Reads every folder of results below a folder."""
    found = (read_result_set(folder) for folder in sorted(root.iterdir()) if folder.is_dir())
    return [results for results in found if results.items]


def write_pages(root: Path, out: Path) -> list[Path]:
    """Writes both pages."""
    sets = find_result_sets(root)
    pages = {"results.md": results_page(sets, os.path.relpath(root, out))}
    pages["claims.md"] = claims_page(sets)
    for name, text in pages.items():
        durable.write_file(out / name, text.encode())
    return [out / name for name in pages]


def results_page(sets: Sequence[ResultSet], folder: str) -> str:
    """Shows all tables and figures, by corpus; pictures lie in `folder`."""
    parts = [
        "# Results",
        _MADE,
        "This page has every table and figure that [`untold reproduce`](reproduce.md) made, each "
        "after its command. It is generated from the result files, which also hold every table as "
        "CSV and LaTeX. [Claims](claims.md) says what they mean.",
    ]
    for results in sets:
        parts.append(f"## {results.name}")
        for name, record in results.items.items():
            parts += _item(name, record, f"{folder}/{results.name}")
    return "\n\n".join(parts) + "\n"


def _item(name: str, record: Any, folder: str) -> list[str]:
    parts = [f"### {name}: {record['title']}", record["claim"]]
    if record["command"]:
        parts.append(f"```sh\n{record['command']}\n```")
    for table in record["tables"]:
        shown = EvidenceTable(table["title"], table["columns"], table["rows"])
        parts += [f"**{shown.title}**", markdown_table(shown)]
    parts += [f"![{title}]({folder}/{stem}.png)" for stem, title in record["pictures"]]
    parts.append("\n".join(f"- {note}" for note in record["notes"]))
    return [part for part in parts if part]


def claims_page(sets: Sequence[ResultSet]) -> str:
    """Says of each claim what was measured and whether it holds."""
    sections = [_section(number, claim, sets) for number, claim in enumerate(CLAIMS, 1)]
    rows = [
        [f"[{number}. {claim.statement}](#{_anchor(number)})", _summary(claim, sets)]
        for number, claim in enumerate(CLAIMS, 1)
    ]
    verdicts = markdown_table(EvidenceTable("", ["claim", "verdict"], rows))
    parts = [
        "# Claims",
        _MADE,
        "Does the paper hold? This page lists its claims, and some of ours, with the test of each "
        "and the outcome. It is generated from the result files behind [results](results.md), so "
        "that no number can drift. The models are small: what does not hold here may hold for "
        "larger models and corpora, and the other way round.",
        verdicts.replace("| --- | ---: |", "| --- | --- |"),
        *sections,
        "## Where the paper contradicts itself",
        "\n".join(f"- {each}" for each in INCONSISTENCIES),
    ]
    return "\n\n".join(parts) + "\n"


def _section(number: int, claim: Claim, sets: Sequence[ResultSet]) -> str:
    lines = [
        f'<a id="{_anchor(number)}"></a>',
        f"## {number}. {claim.statement}",
        f"The paper: {claim.paper} The test (`untold reproduce {claim.item}`): {claim.test}",
    ]
    if claim.untestable:
        lines.append(f"It cannot be tested here: {claim.untestable}.")
    outcomes = {results.name: _outcome(claim, results) for results in sets}
    lines.append(
        "\n".join(
            f"- {name}: **{outcome.verdict}**. {outcome.numbers}."
            for name, outcome in outcomes.items()
            if outcome is not None
        )
    )
    return "\n\n".join(line for line in lines if line)


def _outcome(claim: Claim, results: ResultSet) -> Outcome | None:
    found = [judge(results) for judge in claim.judges]
    known = [outcome for outcome in found if outcome is not None]
    if not known or len(known) < len(found):
        return None
    is_true = all(outcome.verdict == HOLDS for outcome in known)
    return Outcome(HOLDS if is_true else NO, "; ".join(outcome.numbers for outcome in known))


def _summary(claim: Claim, sets: Sequence[ResultSet]) -> str:
    if claim.untestable:
        return "cannot be tested here"
    found = {results.name: _outcome(claim, results) for results in sets}
    shown = [f"{name}: {each.verdict}" for name, each in found.items() if each is not None]
    return "; ".join(shown) or "not measured yet"


def _anchor(number: int) -> str:
    return f"claim-{number}"


if __name__ == "__main__":
    for path in write_pages(*(Path(argument) for argument in sys.argv[1:3])):
        print(path)
