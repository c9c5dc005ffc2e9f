"""Corpora in many files: patterns such as `part-*.en` stand for all files that they match."""

from pathlib import Path

from untold.config import CorpusConfig
from untold.errors import UntoldError


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
