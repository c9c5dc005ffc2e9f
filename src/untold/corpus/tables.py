"""Tables of sentence pairs: TSV, JSONL, Parquet and Hugging Face datasets, a row at a time.

A cell is one line of text: a line break within it becomes a space, null becomes the empty text, and
anything but text is an error that names the row.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untold.corpus.lines import read_lines
from untold.errors import UntoldError

__all__ = ["Pair", "Table", "read_dataset", "read_table"]

_ROWS = 1000  # rows held at a time
_NESTED = "translation"  # where Hugging Face keeps {"en": ..., "de": ...}
_DEFAULT = ("source", "target")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts that translate each other, and where they stand: line or row, counted from 1."""

    source: str
    target: str
    line: int
    file: str


@dataclass(frozen=True)
class Table:
    """Which columns of what; without names, TSV gives its first two, others source and target."""

    name: str
    columns: tuple[str, str] | None
    split: str


def read_table(path: Path, columns: tuple[str, str] | None) -> Iterator[Pair]:
    """Pairs of a .tsv, .jsonl or .parquet file; the first two may also end in .gz."""
    table = Table(str(path), columns, split="")
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if kind == ".tsv":
        return _read_tsv(path, table)
    if kind == ".jsonl":
        return _pairs(_read_jsonl(path), table)
    if path.suffix == ".parquet":
        return _pairs(_read_parquet(path, columns or _DEFAULT), table)
    raise UntoldError(
        f"{path}: a table is .tsv, .tsv.gz, .jsonl, .jsonl.gz or .parquet; give plain text files "
        f"as source and target"
    )


def read_dataset(table: Table, directory: Path) -> Iterator[Pair]:
    """Pairs of a Hugging Face dataset: of `directory` if there is one, else by its name."""
    try:
        import datasets
    except ImportError:
        raise _needs("datasets", table.name) from None
    try:
        dataset = _select(_load(datasets, table, directory), table.columns or _DEFAULT)
        yield from _pairs(_unpack(dataset), table)
    except UntoldError:
        raise
    except Exception as error:  # the library promises no exception types
        where = "" if directory.is_dir() else f"is no directory ({directory}), and "
        raise UntoldError(f"dataset {table.name}: {where}datasets says: {error}") from error


def _needs(package: str, name: str) -> UntoldError:
    return UntoldError(f"{name}: reading it needs {package}: pip install 'untold[hf]'")


def _pairs(rows: Iterable[Mapping[str, Any]], table: Table) -> Iterator[Pair]:
    for line, row in enumerate(rows, start=1):
        place = f"{table.name}:{line}"
        cells = _cells(row, table.columns, place)
        source, target = (_text(cell, place) for cell in cells)
        yield Pair(source, target, line, table.name)


def _cells(row: Mapping[str, Any], columns: tuple[str, str] | None, place: str) -> list[Any]:
    nested = row.get(_NESTED)
    names = columns or _DEFAULT
    for cells in (row, nested if isinstance(nested, Mapping) else {}):
        if all(name in cells for name in names):
            return [cells[name] for name in names]
    known = nested if isinstance(nested, Mapping) else row
    missing = ", ".join(repr(name) for name in names if name not in known)
    there = ", ".join(repr(name) for name in known)
    raise UntoldError(f"{place}: no column {missing}; set columns to two of: {there}")


def _text(cell: Any, place: str) -> str:
    if cell is None:
        return ""
    if not isinstance(cell, str):
        raise UntoldError(f"{place}: {cell!r:.40} is {type(cell).__name__}, not text")
    try:
        cell.encode()
    except UnicodeEncodeError as error:
        code = f"U+{ord(cell[error.start]):04X}"
        raise UntoldError(
            f"{place}: lone surrogate {code} at character {error.start + 1}: not valid text"
        ) from None
    return cell.replace("\r\n", " ").replace("\n", " ")


def _read_tsv(path: Path, table: Table) -> Iterator[Pair]:
    """Tabs part fields, nothing is quoted; columns given by name stand in the first line."""
    rows = ((line, text.split("\t")) for line, text in enumerate(read_lines(path), start=1))
    head = next(rows, None)
    if head is None:
        return
    places = _positions(table.columns)
    if places is None:
        places = _find(table, head[1])
    else:
        rows = itertools.chain([head], rows)
    width = max(len(head[1]), places[0] + 1, places[1] + 1)
    for line, fields in rows:
        if len(fields) != width:
            raise UntoldError(f"{path}:{line}: {len(fields)} fields, not {width} parted by tabs")
        yield Pair(fields[places[0]], fields[places[1]], line, table.name)


def _positions(columns: tuple[str, str] | None) -> tuple[int, int] | None:
    """Where the columns are, from 0, if they are given by number (from 1) or not at all."""
    if columns is None:
        return 0, 1
    if all(name.isascii() and name.isdecimal() and int(name) for name in columns):
        return int(columns[0]) - 1, int(columns[1]) - 1
    return None


def _find(table: Table, header: list[str]) -> tuple[int, int]:
    cells = _cells({name: number for number, name in enumerate(header)}, table.columns, table.name)
    return cells[0], cells[1]


def _read_jsonl(path: Path) -> Iterator[Mapping[str, Any]]:
    for line, text in enumerate(read_lines(path), start=1):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UntoldError(f"{path}:{line}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise UntoldError(f"{path}:{line}: {text!r:.40} is not a JSON object")
        yield row


def _read_parquet(path: Path, columns: tuple[str, str]) -> Iterator[Mapping[str, Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise _needs("pyarrow", str(path)) from None
    row = 0
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            chosen = _chosen(file.schema_arrow.names, columns)
            for batch in file.iter_batches(_ROWS, columns=chosen):
                for cells in _decode(batch):
                    row += 1
                    yield cells
    except UnicodeDecodeError as error:
        raise UntoldError(f"{path}:{row + 1}: not UTF-8: {error}") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise UntoldError(f"{path}: not a whole Parquet file: {error}") from None


def _decode(batch: Any) -> Iterator[Mapping[str, Any]]:
    """Rows of an Arrow batch; one that cannot be decoded fails in its turn, not its whole batch."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for number in range(batch.num_rows):
            yield from batch.slice(number, 1).to_pylist()


def _chosen(names: list[str] | None, columns: tuple[str, str]) -> list[str] | None:
    """What is worth reading of a wide table; None, which is all, if the names are not known."""
    if names is None or set(columns) <= set(names):
        return None if names is None else list(dict.fromkeys(columns))
    return [_NESTED] if _NESTED in names else None


def _load(datasets: Any, table: Table, directory: Path) -> Any:
    if not directory.is_dir():
        name, _, configuration = table.name.partition(":")
        return datasets.load_dataset(name, configuration or None, split=table.split)
    if (directory / "dataset_dict.json").exists():
        splits = datasets.load_from_disk(directory)
        if table.split not in splits:
            raise UntoldError(
                f"{directory}: no split {table.split!r}; there are: {', '.join(splits)}"
            )
        return splits[table.split]
    if (directory / "state.json").exists():
        return datasets.load_from_disk(directory)
    return datasets.load_dataset(str(directory), split=table.split, streaming=True)


def _select(dataset: Any, columns: tuple[str, str]) -> Any:
    chosen = _chosen(dataset.column_names, columns)
    return dataset if chosen is None else dataset.select_columns(chosen)


def _unpack(dataset: Any) -> Iterator[Mapping[str, Any]]:
    for batch in dataset.iter(batch_size=_ROWS):
        for cells in zip(*batch.values(), strict=True):
            yield dict(zip(batch, cells, strict=True))
