"""Writes evidence as Markdown, CSV, LaTeX, JSON and pictures, and the page of all results.

    python -m untold.lab.pages docs/evidence docs

makes docs/results.md, the claims and the tables behind them, from the folders under docs/evidence.
"""

import csv
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
from untold.lab.claims import CLAIMS, INCONSISTENCIES, Claim, ResultSet, read_result_set
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
_MADE = "<!-- made by `make pages`: do not edit -->"
# Columns that the CSV files have and the page leaves out.
_DETAILS = {"p bootstrap", "p randomisation", "over seeds", "configuration"}


def write_evidence(evidence: Evidence, out: Path) -> list[Path]:
    """Writes all files of an item into a folder and returns them, the report first."""
    pictures = {
        f"{each.name}.{kind}": each.draw(kind)
        for each in evidence.pictures
        for kind in ("png", "svg")
    }
    files: dict[str, bytes] = {f"{evidence.name}.md": _markdown_report(evidence).encode()}
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


def find_result_sets(root: Path) -> list[ResultSet]:
    """Reads every folder of results below a folder."""
    sets = (read_result_set(folder) for folder in sorted(root.iterdir()) if folder.is_dir())
    return [results for results in sets if results.items]


def write_results_page(root: Path, out: Path) -> Path:
    """Writes docs/results.md, or wherever `out` is."""
    text = results_page(find_result_sets(root), os.path.relpath(root, out))
    durable.write_file(out / "results.md", text.encode())
    return out / "results.md"


def results_page(sets: Sequence[ResultSet], folder: str) -> str:
    """Judges all claims, then shows all tables and figures; pictures lie in `folder`."""
    parts = [
        "# Results",
        _MADE,
        "Does the paper hold, and do the claims that this project adds? This page answers for "
        "small models on small corpora: a claim that does not hold here may hold for larger ones, "
        f"and the other way round. The page is generated from [the result files]({folder}/README.md"
        ") of [`untold reproduce`](reproduce.md), so that no number can drift. Those files hold "
        "every table in full, with all p-values, as CSV, LaTeX and JSON.",
        "## Claims",
        *_claims(sets),
        "## Where the paper contradicts itself",
        "\n".join(f"- {text}" for text in INCONSISTENCIES),
        "## Tables and figures",
        "Each row is a system, with the mean over its seeds and their standard deviation. A "
        "difference is that of the average from the first row.",
    ]
    for results in sets:
        parts.append(f"### {results.name}")
        for name, record in results.items.items():
            parts += _item(name, record, f"{folder}/{results.name}")
    return "\n\n".join(parts) + "\n"


def claims_page(results: ResultSet) -> str:
    """Judges all claims by one run of `untold reproduce`."""
    return "\n\n".join(["# Claims", *_claims([results])]) + "\n"


def _claims(sets: Sequence[ResultSet]) -> list[str]:
    """Returns a table of verdicts, and a paragraph for each claim."""
    verdicts = [
        [f"[{number}](#claim-{number})", claim.statement, _verdict(claim, sets)]
        for number, claim in enumerate(CLAIMS, 1)
    ]
    table = markdown_table(EvidenceTable("", ["", "claim", "at this size"], verdicts))
    sections = [_section(number, claim, sets) for number, claim in enumerate(CLAIMS, 1)]
    return [table.replace("| --- | ---: | ---: |", "| --- | --- | --- |"), *sections]


def _verdict(claim: Claim, sets: Sequence[ResultSet]) -> str:
    if claim.untestable:
        return "cannot be tested here"
    outcomes = [claim.outcome(results) for results in sets]
    words = {_short(outcome.verdict) for outcome in outcomes if outcome}
    return " / ".join(sorted(words)) or "not measured yet"


def _section(number: int, claim: Claim, sets: Sequence[ResultSet]) -> str:
    head = (
        f'<a id="claim-{number}"></a>**{number}. {claim.statement}** '
        f"The paper: {claim.paper} The test (`{claim.item}`): {claim.test}"
    )
    if claim.untestable:
        return f"{head} It cannot be tested here: {claim.untestable}."
    corpora: dict[str, list[str]] = {}  # by what was found on them
    for results in sets:
        if outcome := claim.outcome(results):
            text = f"**{_short(outcome.verdict)}**: {outcome.numbers}."
            corpora.setdefault(text, []).append(results.name)
    lines = [f"- {', '.join(names)}: {text}" for text, names in corpora.items()]
    return "\n\n".join([head, "\n".join(lines)])


def _short(verdict: str) -> str:
    return verdict.removesuffix(" at this size")


def _item(name: str, record: Any, folder: str) -> list[str]:
    parts = [f"**{name}: {record['title']}.** {record['claim']}"]
    if record["command"]:
        parts.append(f"```sh\n{record['command']}\n```")
    for table in record["tables"]:
        if table["title"].startswith("other differences"):
            continue  # the claims have them
        shown = _compact(EvidenceTable(table["title"], table["columns"], table["rows"]))
        title = [] if shown.title == record["title"] else [f"*{shown.title}*"]
        parts += [*title, markdown_table(shown)]
    parts += [f"![{title}]({folder}/{stem}.png)" for stem, title in record["pictures"]]
    return parts


def _compact(table: EvidenceTable) -> EvidenceTable:
    """Leaves out details, and turns a table of BLEU by joined sentences on its side."""
    if "sentences" in table.columns and "BLEU" in table.columns:
        table = _turned(table, "sentences", "BLEU")
    places = [place for place, name in enumerate(table.columns) if name not in _DETAILS]
    rows = [[row[place].replace(" ± ", "±") for place in places] for row in table.rows]
    return EvidenceTable(table.title, [table.columns[place] for place in places], rows)


def _turned(table: EvidenceTable, across: str, value: str) -> EvidenceTable:
    """Makes a row for each system, and a column for each value of `across`."""
    key, cell = table.columns.index(across), table.columns.index(value)
    cells: dict[str, dict[str, str]] = {}
    for row in table.rows:
        cells.setdefault(row[0], {})[row[key]] = row[cell]
    names = list(dict.fromkeys(row[key] for row in table.rows))
    rows = [[system, *(known.get(name, "") for name in names)] for system, known in cells.items()]
    heads = [f"{name} {across}" if name.isdigit() else name for name in names]
    return EvidenceTable(f"{value}: {table.title}", [table.columns[0], *heads], rows)


if __name__ == "__main__":
    print(write_results_page(*(Path(argument) for argument in sys.argv[1:3])))
