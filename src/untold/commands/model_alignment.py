"""Links words by a model that separates past and future, for `untold align` and `translate`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from untold.commands.options import check_output, print_notice
from untold.durable import writing
from untold.errors import UntoldError
from untold.feedback import task

if TYPE_CHECKING:
    from untold.account.model_links import Unlinked
    from untold.corpus.alignments import Alignment
    from untold.translator import Translation, Translator

__all__ = ["check_link_file", "check_way", "link_by_model", "write_links"]


def check_way(by: str | None, model: Path | None) -> None:
    """Refuses an unknown way to link words, and one that no model is given for."""
    if by is None:
        return
    from untold.account.model_links import WAYS

    if by not in WAYS:
        raise UntoldError(f"--by {by[:40]}: must be one of {', '.join(WAYS)}")
    if model is None:
        raise UntoldError("--by says how to read a model, and there is none: give --model")


def link_by_model(
    model: Path, by: str | None, texts: tuple[Sequence[str], Sequence[str]]
) -> "list[Alignment]":
    """Links the words of parallel lines; refuses text that a model cannot link."""
    from untold.account.model_links import LinkReader, Unlinked
    from untold.storage.model_directory import load_model

    with task(f"loading {model}"):
        trained = load_model(model)
    reader = LinkReader(trained, by or "links", trained.config.decode.batch_tokens)
    pairs, links = list(zip(*texts, strict=True)), []
    with task("aligning", len(pairs)) as begun:
        for line, each in enumerate(reader.align(pairs, begun.advance), start=1):
            if isinstance(each, Unlinked):
                raise UntoldError(f"line {line}: {each.reason}")
            links.append(each)
    return links


def check_link_file(path: Path | None, text: Path | None) -> None:
    """Refuses a file that cannot be written, and the text itself, before the model is loaded."""
    check_output(path)
    if path is not None and text is not None and path.exists() and path.samefile(text):
        raise UntoldError(f"--align {path}: is the text to translate: choose another name")


def write_links(
    path: Path | None,
    translator: "Translator",
    groups: "Iterable[Sequence[tuple[str, Translation]]]",
) -> "Iterator[Translation]":
    """Yields translations, after a line with the links of each is written; without a path, alone.

    The file grows with the output, so that whoever reads both finds equally many lines.
    """
    if path is None:
        for group in groups:
            yield from (translation for _, translation in group)
        return
    linker = _Linker(translator)
    with writing(path):
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115
    try:
        for group in groups:
            lines = linker.lines([(source, found.text) for source, found in group])
            for (_, translation), line in zip(group, lines, strict=True):
                with writing(path):
                    print(line, file=file, flush=True)
                yield translation
    finally:
        with writing(path):
            file.close()
    linker.say_rest(path)


class _Linker:
    """Links translations with their sources, and says which ones it cannot link."""

    def __init__(self, translator: "Translator") -> None:
        from untold.account.model_links import LinkReader
        from untold.account.pair_account import NO_ACCOUNT

        separating = [each for each in translator.models if each.model.past_future is not None]
        if not separating:
            raise UntoldError(f"--align: {NO_ACCOUNT}")
        self._reader = LinkReader(separating[0], batch_tokens=translator.decode.batch_tokens)
        self._codec, self._most = translator.codec, translator.data.max_tokens
        self._line, self._unlinked = 0, Counter[str]()

    def lines(self, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
        """Yields the links of each pair as a line; an empty one if there are none."""
        from untold.account.model_links import Unlinked
        from untold.corpus.alignments import format_alignment

        lengths = [len(ids) for ids in self._codec.encode_sources([source for source, _ in pairs])]
        read = [pair for pair, n in zip(pairs, lengths, strict=True) if n <= self._most]
        found = self._reader.align(read)
        for length in lengths:
            self._line += 1
            each = next(found) if length <= self._most else self._divided(length)
            if isinstance(each, Unlinked):
                self._say(each.kind, each.reason)
            yield "" if isinstance(each, Unlinked) else format_alignment(each)

    def say_rest(self, path: Path) -> None:
        """Says how many lines have no links, if more than the one of each kind that was named."""
        total = sum(self._unlinked.values())
        if total > len(self._unlinked):
            print_notice(f"untold: {path}: lines without links for these reasons: {total:,}")

    def _divided(self, length: int) -> "Unlinked":
        from untold.account.model_links import Unlinked

        return Unlinked(
            "divided",
            f"its {length:,} pieces are translated in segments of at most {self._most:,} "
            "(data.max_tokens): divide it",
        )

    def _say(self, kind: str, reason: str) -> None:
        self._unlinked[kind] += 1
        if self._unlinked[kind] == 1:  # a text of many such lines is told once
            print_notice(f"untold: line {self._line:,} gets no links: {reason}")
