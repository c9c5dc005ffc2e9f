"""Reads the sentence pairs of a corpus in any format, and fingerprints the corpus.

Reads tables of sentence pairs row by row: TSV, JSONL, Parquet and Hugging Face datasets.

A cell is one line of text: a line break inside it becomes a space, and null becomes the empty text.
Any other value is an error that names the row.

The suffix of a table file selects its format in `CORPUS_FORMATS`. Other packages add formats to
that registry, as docs/formats.md describes.

Reads the text of a corpus once; later passes come from a temporary copy on disk.

Learning a vocabulary and encoding the corpus each need all of its text. Reading it again would
unpack, parse and, for a dataset of a hub, fetch it again, and it might have changed meanwhile.
"""

import hashlib
import itertools
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from untold.config.data import CorpusConfig
from untold.corpus.text import count_lines, open_bytes, read_lines, split_lines
from untold.errors import UntoldError, reason_and_cure
from untold.files import hash_file, writing
from untold.progress_bar import track
from untold.registry import Registry

_BATCH_ROWS = 1000  # rows that are held in memory at a time
_NESTED_COLUMN = "translation"  # Hugging Face datasets keep {"en": ..., "de": ...} in this column
_DEFAULT_COLUMNS = ("source", "target")
_BUILT_IN_SUFFIXES = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet")


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
        "tsv": "untold.corpus.corpora:read_tsv",
        "jsonl": "untold.corpus.corpora:read_jsonl",
        "parquet": "untold.corpus.corpora:read_parquet",
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


def match_files(root: Path, name: str) -> list[str]:
    """Lists the files that a name or a pattern stands for, in the order of their names."""
    if (root / name).exists():
        return [name]
    path = Path(name)
    fixed = [part for part in path.parts if not _is_pattern(part)]
    if len(fixed) == len(path.parts):
        return []
    start = next(k for k, part in enumerate(path.parts) if _is_pattern(part))
    base, pattern = root.joinpath(*path.parts[:start]), str(Path(*path.parts[start:]))
    found = sorted(found for found in base.glob(pattern) if found.is_file())
    return [str(Path(*path.parts[:start]) / each.relative_to(base)) for each in found]


def expand_corpus(corpus: CorpusConfig, root: Path) -> list[CorpusConfig]:
    """Makes one corpus of each file, or of each two parallel files, that the names match."""
    names = [name for name in (corpus.source, corpus.target, corpus.path) if name is not None]
    if not any(map(_is_pattern, names)):
        return [corpus]
    if corpus.path is not None:
        found = match_files(root, corpus.path)
        return [corpus.model_copy(update={"path": name}) for name in found]
    sources, targets = (match_files(root, name) for name in names)
    if len(sources) != len(targets):
        raise UntoldError(
            f"{names[0]} matches {len(sources)} files and {names[1]} matches {len(targets)}: they "
            "must be parallel, one by one in the order of their names"
        )
    pairs = zip(sources, targets, strict=True)
    return [corpus.model_copy(update={"source": one, "target": two}) for one, two in pairs]


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def read_pairs(corpus: CorpusConfig, root: Path) -> Iterator[Pair]:
    """Yields every pair of a corpus in order, also blank ones; paths are relative to `root`.

    Before the first pair comes out, the function has read .gz files to their end and has checked
    that parallel files have equal numbers of lines.
    """
    if corpus.source is not None and corpus.target is not None:
        source, target = root / corpus.source, root / corpus.target
        yield from _read_parallel_files(_require_file(source), _require_file(target))
    elif corpus.path is not None:
        yield from read_table(_require_file(root / corpus.path), corpus.columns)
    else:
        yield from _read_dataset(corpus, root)


def fingerprint_corpus(corpus: CorpusConfig, root: Path) -> str:
    """Returns a hash of the corpus's bytes and of how they are read.

    The hash does not depend on the place of the files.
    """
    if corpus.source is not None and corpus.target is not None:
        contents = [_hash(root / name) for name in (corpus.source, corpus.target)]
    elif corpus.path is not None:
        contents = [Path(corpus.path).suffixes[-2:], _hash(root / corpus.path)]
    else:
        contents = _fingerprint_dataset(corpus, root)
    described = json.dumps([contents, corpus.columns, corpus.split])
    return hashlib.sha256(described.encode()).hexdigest()


def _require_file(path: Path) -> Path:
    """Returns the path, or fails if it is no regular file: a pipe cannot be read twice."""
    if not path.is_file():
        raise UntoldError(f"{path}: {'not a regular file' if path.exists() else 'no such file'}")
    return path


def _hash(path: Path) -> str:
    try:
        return hash_file(_require_file(path))
    except OSError as error:
        raise UntoldError(f"{path}: {reason_and_cure(error)}") from None


def _read_parallel_files(source: Path, target: Path) -> Iterator[Pair]:
    counts = count_lines(source), count_lines(target)
    if counts[0] != counts[1]:
        raise UntoldError(
            f"{source} has {counts[0]} lines and {target} has {counts[1]}: "
            f"line by line they must translate each other"
        )
    name = str(source)
    with open_bytes(source) as source_file, open_bytes(target) as target_file:
        sources, targets = split_lines(source_file, name), split_lines(target_file, str(target))
        # The counts are equal, and strict=True would only add an exception of another type.
        for line, (one, other) in enumerate(zip(sources, targets, strict=False), start=1):
            yield Pair(one, other, line, name)


def _read_dataset(corpus: CorpusConfig, root: Path) -> Iterator[Pair]:
    name = str(corpus.dataset)
    return read_dataset(name, corpus.split, corpus.columns, root / name)


def _fingerprint_dataset(corpus: CorpusConfig, root: Path) -> list[str]:
    directory = root / str(corpus.dataset)
    if directory.is_dir():
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        return [f"{path.relative_to(directory)} {_hash(path)}" for path in files]
    # The name of a dataset does not change with its version, so the text itself is hashed.
    digest = hashlib.sha256()
    for pair in _read_dataset(corpus, root):
        digest.update(json.dumps([pair.source, pair.target]).encode())
    return [digest.hexdigest()]


class CorpusText:
    """Gives the pairs of corpora again and again, but reads the corpora only for the first time."""

    def __init__(self, corpora: Sequence[CorpusConfig], root: Path, directory: Path) -> None:
        """`directory` is where the temporary copy is put; the copy has no name and cannot stay."""
        self.corpora = tuple(file for each in corpora for file in expand_corpus(each, root))
        self.root = root
        self._directory = directory
        self._copy: IO[str] | None = None
        self._count = 0
        self._closing = ExitStack()

    def pairs(self) -> Iterator[Pair]:
        """Yields every pair in order, blank ones too. One pass must end before the next begins."""
        copy = self._whole_copy()
        copy.seek(0)
        while line := copy.readline():
            source, target, number, file = json.loads(line)
            yield Pair(source, target, number, file)

    def count(self) -> int:
        """Returns the number of pairs."""
        self._whole_copy()
        return self._count

    def fingerprints(self) -> list[str]:
        """Returns a hash of each corpus as it is on disk now."""
        return [fingerprint_corpus(corpus, self.root) for corpus in self.corpora]

    def __enter__(self) -> "CorpusText":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):  # of a full disk, which was told before; the copy is not needed now
            self._closing.close()
        self._copy = None

    def _whole_copy(self) -> IO[str]:
        if self._copy is None:
            self._copy = self._read()
        return self._copy

    def _read(self) -> IO[str]:
        with writing(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            return self._copy_pairs()

    def _copy_pairs(self) -> IO[str]:
        file = tempfile.TemporaryFile(  # noqa: SIM115 (__exit__ closes it)
            "w+", encoding="utf-8", newline="\n", dir=self._directory
        )
        copy = self._closing.enter_context(file)
        for pair in track(self._read_pairs(), "reading the corpus"):
            row = [pair.source, pair.target, pair.line, pair.file]
            copy.write(json.dumps(row, ensure_ascii=False) + "\n")
            self._count += 1
        copy.flush()  # here, where a full disk is told with its place
        return copy

    def _read_pairs(self) -> Iterator[Pair]:
        for corpus in self.corpora:
            yield from read_pairs(corpus, self.root)
