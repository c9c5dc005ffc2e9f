import csv
import io
import json

from untold.lab.items import Evidence, EvidenceTable, Picture
from untold.lab.pages import latex_table, markdown_table, write_evidence

TABLE = EvidenceTable(
    "a & b",
    ["system", "BLEU"],
    [["A_1 | <b>50%</b>", "12.50 ± .30"], ['"quoted", #2', "$1 {x} ^~\\"]],
)


def test_latex_has_no_letter_that_it_would_read():
    text = latex_table(TABLE)
    assert r"A\_1 | <b>50\%</b> & 12.50 $\pm$ .30 \\" in text
    assert r"\#2" in text and r"\$1 \{x\} \textasciicircum{}\textasciitilde{}" in text
    assert text.count(r"\\") == 3 and r"\begin{tabular}{lr}" in text


def test_markdown_keeps_its_columns():
    lines = markdown_table(TABLE).split("\n")
    assert lines[2] == r"| A_1 \| <b>50%</b> | 12.50 ± .30 |" and len(lines) == 4


def test_everything_is_written(tmp_path):
    hostile = "</script><img src=x onerror=alert(1)>"
    picture = Picture("drawn", hostile, lambda kind: f"{kind} bytes".encode())
    evidence = Evidence("item", hostile, "claim", [TABLE, TABLE], [picture], [hostile], {"n": 1})
    names = {path.name for path in write_evidence(evidence, tmp_path / "new")}
    assert names == {
        *("item.md", "item.json", "drawn.png", "drawn.svg"),
        *("item-1.csv", "item-1.tex", "item-2.csv", "item-2.tex"),
    }
    rows = list(csv.reader(io.StringIO((tmp_path / "new/item-1.csv").read_text(encoding="utf-8"))))
    assert rows == [list(TABLE.columns), *map(list, TABLE.rows)]
    assert json.loads((tmp_path / "new/item.json").read_text())["figures"] == {"n": 1}


def test_reports_name_the_command_that_makes_them(tmp_path):
    evidence = Evidence("item", "title", "claim", [TABLE], [], [], {}, command="made --of 'this'")
    write_evidence(evidence, tmp_path)
    assert "```sh\nmade --of 'this'\n```" in (tmp_path / "item.md").read_text(encoding="utf-8")


def test_an_item_with_fewer_tables_leaves_none_of_its_earlier_ones(tmp_path):
    other = tmp_path / "item-2-of-another.csv"
    other.write_text("kept")
    for tables in ([TABLE, TABLE], [TABLE]):
        write_evidence(Evidence("item", "title", "claim", tables, [], [], {}), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("item.md", "item.json", "item.csv", "item.tex", other.name)
    }
