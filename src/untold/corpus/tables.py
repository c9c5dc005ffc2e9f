"""Reads tables of sentence pairs row by row: TSV, JSONL, Parquet and Hugging Face datasets.

A cell is one line of text: a line break inside it becomes a space, and null becomes the empty text.
Any other value is an error that names the row.

The suffix of a table file selects its format in `CORPUS_FORMATS`. Other packages add formats to
that registry, as docs/formats.md describes.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untold.corpus.lines import read_lines
from untold.errors import UntoldError
from untold.registry import Registry

__all__ = [
    "CORPUS_FORMATS",
    "CorpusFormat",
    "Pair",
    "pairs_from_rows",
    "read_dataset",
    "read_jsonl",
    "read_parquet",
    "read_table",
    "read_tsv",
]

_BATCH_ROWS = 1000  # rows that are held in memory at a time
_NESTED_COLUMN = "translation"  # Hugging Face datasets keep {"en": ..., "de": ...} in this column
_DEFAULT_COLUMNS = ("source", "target")
_BUILT_IN_SUFFIXES = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet", ".lcsts", ".lcsts.gz")


@dataclass(frozen=True, slots=True)
class Pair:
    """Holds two texts that translate each other, and the line or row (from 1) they come from."""

    source: str
    target: str
    line: int
    file: str


Columns = tuple[str, str] | None
CorpusFormat = Callable[[Path, Columns], Iterator[Pair]]

CORPUS_FORMATS: Registry[CorpusFormat] = Registry(
    "corpus format",
    "untold.corpus_formats",
    {
        "tsv": "untold.corpus.tables:read_tsv",
        "jsonl": "untold.corpus.tables:read_jsonl",
        "parquet": "untold.corpus.tables:read_parquet",
        "lcsts": "untold.corpus.raw.lcsts:read_lcsts",
    },
)


def read_table(path: Path, columns: Columns) -> Iterator[Pair]:
    """Reads a table with the format that its suffix names; .gz may follow that suffix."""
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    name = suffix.removeprefix(".")
    if name not in CORPUS_FORMATS:
        raise _unknown_suffix(path)
    pairs = CORPUS_FORMATS[name](path, columns)
    return pairs if suffix in _BUILT_IN_SUFFIXES else _checked(pairs, name)


def read_tsv(path: Path, columns: Columns) -> Iterator[Pair]:
    """Reads fields between tabs; there is no quoting.

    Without `columns` the first two fields are source and target. Columns are numbers (from 1), or
    names that the first line lists.
    """
    rows = ((line, text.split("\t")) for line, text in enumerate(read_lines(path), start=1))
    first = next(rows, None)
    if first is None:
        return
    positions = _numbered_positions(columns)
    if positions is None:
        positions = _named_positions(columns, first[1], str(path))
    else:
        rows = itertools.chain([first], rows)
    width = max(len(first[1]), positions[0] + 1, positions[1] + 1)
    for line, fields in rows:
        if len(fields) != width:
            raise UntoldError(f"{path}:{line}: {len(fields)} fields, not {width} parted by tabs")
        yield Pair(fields[positions[0]], fields[positions[1]], line, str(path))


def read_jsonl(path: Path, columns: Columns) -> Iterator[Pair]:
    """Reads one JSON object a line."""
    return pairs_from_rows(_jsonl_rows(path), str(path), columns)


def read_parquet(path: Path, columns: Columns) -> Iterator[Pair]:
    """Reads the two columns of a Parquet file; a .gz around it is refused."""
    if path.suffix == ".gz":
        raise _unknown_suffix(path)
    return pairs_from_rows(_parquet_rows(path, columns or _DEFAULT_COLUMNS), str(path), columns)


def read_dataset(
    name: str, split: str, columns: Columns, directory: Path, *, streaming: bool = False
) -> Iterator[Pair]:
    """Reads a Hugging Face dataset from `directory` if that exists, else by its name.

    With `streaming` a dataset of a hub is not stored on this machine.
    """
    try:
        import datasets
    except ImportError:
        raise _needs("datasets", name) from None
    try:
        dataset = _load_split(datasets, name, split, directory, streaming=streaming)
        rows = _dataset_rows(_select(dataset, columns or _DEFAULT_COLUMNS))
        yield from pairs_from_rows(rows, name, columns)
    except UntoldError:
        raise
    except Exception as error:  # datasets does not document which exceptions it raises
        where = "" if directory.is_dir() else f"is no directory ({directory}), and "
        raise UntoldError(f"dataset {name}: {where}datasets says: {error}") from error


def pairs_from_rows(
    rows: Iterable[Mapping[str, Any]], name: str, columns: Columns
) -> Iterator[Pair]:
    """Takes both columns of each row; `name` is the file or dataset in errors.

    The columns are `source` and `target` unless given. They stand in the row itself or in its
    `translation`.
    """
    for line, row in enumerate(rows, start=1):
        place = f"{name}:{line}"
        source, target = (_text(cell, place) for cell in _cells(row, columns, place))
        yield Pair(source, target, line, name)


def _checked(pairs: Iterable[Pair], name: str) -> Iterator[Pair]:
    """Checks what the format of another package yields as the built-in formats check cells."""
    for pair in pairs:
        if not isinstance(pair, Pair):
            raise UntoldError(
                f"corpus format {name} yields {type(pair).__name__} and not Pair: mend the format"
            )
        place = f"{pair.file}:{pair.line}"
        source, target = _text(pair.source, place), _text(pair.target, place)
        yield Pair(source, target, pair.line, pair.file)


def _unknown_suffix(path: Path) -> UntoldError:
    shipped = [suffix.removeprefix(".") for suffix in _BUILT_IN_SUFFIXES]
    added = [f".{name}" for name in CORPUS_FORMATS.names if name not in shipped]
    *known, last = [*_BUILT_IN_SUFFIXES, *added]
    return UntoldError(
        f"{path}: a table is {', '.join(known)} or {last}; give plain text files as source and "
        "target"
    )


def _needs(package: str, name: str) -> UntoldError:
    return UntoldError(f"{name}: reading it needs {package}: pip install 'untold[hf]'")


def _cells(row: Mapping[str, Any], columns: Columns, place: str) -> list[Any]:
    nested = row.get(_NESTED_COLUMN)
    names = columns or _DEFAULT_COLUMNS
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


def _numbered_positions(columns: Columns) -> tuple[int, int] | None:
    """Returns the positions from 0 of columns given by number; None if they are given by name."""
    if columns is None:
        return 0, 1
    if all(re.fullmatch("[0-9]{1,9}", name) and int(name) for name in columns):
        return int(columns[0]) - 1, int(columns[1]) - 1
    return None


def _named_positions(columns: Columns, header: list[str], name: str) -> tuple[int, int]:
    cells = _cells({title: number for number, title in enumerate(header)}, columns, name)
    return cells[0], cells[1]


def _jsonl_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    for line, text in enumerate(read_lines(path), start=1):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UntoldError(f"{path}:{line}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise UntoldError(f"{path}:{line}: {text!r:.40} is not a JSON object")
        yield row


def _parquet_rows(path: Path, columns: tuple[str, str]) -> Iterator[Mapping[str, Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise _needs("pyarrow", str(path)) from None
    row = 0
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            chosen = _columns_to_read(file.schema_arrow.names, columns)
            for batch in file.iter_batches(_BATCH_ROWS, columns=chosen):
                for cells in _arrow_rows(batch):
                    row += 1
                    yield cells
    except UnicodeDecodeError as error:
        raise UntoldError(f"{path}:{row + 1}: not UTF-8: {error}") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise UntoldError(f"{path}: not a whole Parquet file: {error}") from None


def _arrow_rows(batch: Any) -> Iterator[Mapping[str, Any]]:
    """Yields the rows of an Arrow batch; rows before one that cannot be decoded still come out."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for number in range(batch.num_rows):
            yield from batch.slice(number, 1).to_pylist()


def _columns_to_read(names: list[str] | None, columns: tuple[str, str]) -> list[str] | None:
    """Lists the columns to read from a wide table; None reads all of them."""
    if names is None or set(columns) <= set(names):
        return None if names is None else list(dict.fromkeys(columns))
    return [_NESTED_COLUMN] if _NESTED_COLUMN in names else None


def _load_split(datasets: Any, name: str, split: str, directory: Path, *, streaming: bool) -> Any:
    if not directory.is_dir():
        path, _, configuration = name.partition(":")
        return datasets.load_dataset(path, configuration or None, split=split, streaming=streaming)
    if (directory / "dataset_dict.json").exists():
        splits = datasets.load_from_disk(directory)
        if split not in splits:
            raise UntoldError(f"{directory}: no split {split!r}; there are: {', '.join(splits)}")
        return splits[split]
    if (directory / "state.json").exists():
        return datasets.load_from_disk(directory)
    return datasets.load_dataset(str(directory), split=split, streaming=True)


def _select(dataset: Any, columns: tuple[str, str]) -> Any:
    chosen = _columns_to_read(dataset.column_names, columns)
    return dataset if chosen is None else dataset.select_columns(chosen)


def _dataset_rows(dataset: Any) -> Iterator[Mapping[str, Any]]:
    for batch in dataset.iter(batch_size=_BATCH_ROWS):
        for cells in zip(*batch.values(), strict=True):
            yield dict(zip(batch, cells, strict=True))
