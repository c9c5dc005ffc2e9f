"""Writes evidence as Markdown, CSV, LaTeX, JSON, pictures and one page that needs nothing else.

Writes two pages from results: all tables and figures, and what they say of the paper's claims.

    python -m untold.lab.pages docs/evidence docs

makes docs/results.md and docs/claims.md from the folders under docs/evidence.
"""

import base64
import csv
import html
import io
import json
import os
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from untold import files as durable
from untold.lab.claims import (
    CLAIMS,
    HOLDS,
    INCONSISTENCIES,
    NO,
    Claim,
    Outcome,
    ResultSet,
    read_result_set,
)
from untold.lab.items import Evidence, EvidenceTable

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } caption { text-align: left; font-weight: 600; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid #8886; text-align: right; }
th:first-child, td:first-child { text-align: left; } img { max-width: 100%; background: #fff; }
.notes { opacity: .8; font-size: .9rem; } .scroll, pre { overflow-x: auto; }
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_evidence(evidence: Evidence, out: Path) -> list[Path]:
    """Writes all files of an item into a folder and returns them, the page first."""
    pictures = {
        f"{each.name}.{kind}": each.draw(kind)
        for each in evidence.pictures
        for kind in ("png", "svg")
    }
    files: dict[str, bytes] = {f"{evidence.name}.html": _html_report(evidence, pictures).encode()}
    files[f"{evidence.name}.md"] = _markdown_report(evidence).encode()
    for place, table in enumerate(evidence.tables):
        stem = f"{evidence.name}-{place + 1}" if len(evidence.tables) > 1 else evidence.name
        files[f"{stem}.csv"] = _csv_table(table).encode()
        files[f"{stem}.tex"] = latex_table(table).encode()
    files[f"{evidence.name}.json"] = _json_record(evidence).encode()
    files |= {**pictures, **evidence.files}
    for name, data in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        durable.write_file(out / name, data)
    _drop_old_tables(evidence.name, out, files)
    return [out / name for name in files]


def _drop_old_tables(item: str, out: Path, written: Collection[str]) -> None:
    """Deletes tables that an earlier run of an item wrote, and that it no longer has."""
    table = re.compile(rf"{re.escape(item)}(-\d+)?\.(csv|tex)")
    for path in out.iterdir():
        if table.fullmatch(path.name) and path.name not in written:
            path.unlink()


def _json_record(evidence: Evidence) -> str:
    """Formats all that an item has, but for the pictures themselves."""
    record = {
        "name": evidence.name,
        "title": evidence.title,
        "claim": evidence.claim,
        "command": evidence.command,
        "tables": [asdict(table) for table in evidence.tables],
        "pictures": [[each.name, each.title] for each in evidence.pictures],
        "notes": list(evidence.notes),
        "figures": evidence.figures,
    }
    return json.dumps(record, ensure_ascii=False, indent=1) + "\n"


def _markdown_report(evidence: Evidence) -> str:
    """Formats an item as Markdown; pictures lie beside it."""
    parts = [f"# {evidence.title}", evidence.claim]
    if evidence.command:
        parts.append(f"```sh\n{evidence.command}\n```")
    for table in evidence.tables:
        parts += [f"**{table.title}**", markdown_table(table)]
    parts += [f"![{each.title}]({each.name}.png)" for each in evidence.pictures]
    if evidence.notes:
        parts.append("\n".join(f"- {note}" for note in evidence.notes))
    return "\n\n".join(parts) + "\n"


def markdown_table(table: EvidenceTable) -> str:
    """Formats a table as Markdown."""
    marks = ["---", *["---:"] * (len(table.columns) - 1)]
    lines = [table.columns, marks, *table.rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def _csv_table(table: EvidenceTable) -> str:
    """Formats a table as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    return text.getvalue()


def latex_table(table: EvidenceTable) -> str:
    """Formats a table as LaTeX, with the rules of the package booktabs."""
    columns = "l" + "r" * (len(table.columns) - 1)
    lines = [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_row(table.columns),
        r"\midrule",
    ]
    lines += [_latex_row(row) for row in table.rows]
    return "\n".join([f"% {table.title}", *lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex_row(cells: Sequence[str]) -> str:
    escaped = ("".join(_LATEX.get(letter, letter) for letter in cell) for cell in cells)
    return " & ".join(escaped) + r" \\"


def _html_report(evidence: Evidence, pictures: dict[str, bytes]) -> str:
    """Formats an item as one page with its pictures inside."""
    body = [f"<h1>{_text(evidence.title)}</h1>", f"<p>{_text(evidence.claim)}</p>"]
    if evidence.command:
        body.append(f"<pre>{_text(evidence.command)}</pre>")
    body += [_html_table(table) for table in evidence.tables]
    for each in evidence.pictures:
        data = base64.b64encode(pictures[f"{each.name}.png"]).decode()
        title = _text(each.title)
        body.append(f'<p><img alt="{title}" src="data:image/png;base64,{data}"></p>')
    notes = "".join(f"<li>{_text(note)}</li>" for note in evidence.notes)
    body.append(f'<ul class="notes">{notes}</ul>')
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{_text(evidence.title)}</title><style>{_STYLE}</style>"
    )
    page = f'<html lang="en"><head>{head}</head>\n<body>{"".join(body)}</body></html>'
    return f"<!doctype html>\n{page}\n"


def _html_table(table: EvidenceTable) -> str:
    heads = "".join(f'<th scope="col">{_text(name)}</th>' for name in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_text(_unbroken(cell))}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="scroll"><table><caption>{_text(table.title)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _unbroken(cell: str) -> str:
    """Keeps a mean and its deviation on one line."""
    return cell.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")


def _text(text: str) -> str:
    return html.escape(text, quote=True)


_MADE = "<!-- made by untold.lab.pages: do not edit -->"


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
