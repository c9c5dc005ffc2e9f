"""`untold align` links the words of sentence pairs; `translate --align` those of translations."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from untold.commands.options import (
    check_output,
    load_trained,
    print_notice,
    say_outputs_if_stopped,
)
from untold.errors import UntoldError
from untold.files import writing
from untold.progress_bar import task

if TYPE_CHECKING:
    from untold.alignment.aligners import Aligner
    from untold.alignment.model_links import Unlinked
    from untold.config import AlignerConfig
    from untold.corpus.alignments import Alignment
    from untold.translator import Translation, Translator


T = TypeVar("T")
_PAIRS_AT_ONCE = 500  # between two looks at the progress

TrainSource = Annotated[
    list[Path] | None, typer.Option(help="Learn from this text instead; may be given again.")
]
WriteWords = Annotated[
    bool, typer.Option("--write-words", help="Write the words that links count beside them.")
]
Out = Annotated[
    Path | None, typer.Option(help="Write the links, i-j, to this file, even if it exists.")
]
Gold = Annotated[
    Path | None, typer.Option(help="True links, i-j sure, ipj possible: print the AER.")
]
Kind = Annotated[str | None, typer.Option(help="eflomal, fast_align, hmm, ibm1, ibm2 or ibm4.")]
SourceWords = Annotated[
    str | None, typer.Option(help="What a word is: blank, word, character or jieba [blank].")
]

FromModel = Annotated[
    Path | None, typer.Option(help="Train nothing: read what this model made of each word.")
]
By = Annotated[str | None, typer.Option(help="How: links, flips or assignments [links].")]


def align(
    source: Annotated[Path, typer.Option(help="Source text, a line each.")],
    target: Annotated[Path, typer.Option(help="Its translations, a line each.")],
    train_source: TrainSource = None,
    train_target: Annotated[list[Path] | None, typer.Option(help="And its translations.")] = None,
    aligner: Annotated[Path | None, typer.Option(help="Learn nothing: use a saved one.")] = None,
    out: Out = None,
    write_words: WriteWords = False,
    save: Annotated[Path | None, typer.Option(help="Keep the trained aligner here.")] = None,
    gold: Gold = None,
    kind: Kind = None,
    source_words: SourceWords = None,
    target_words: Annotated[str | None, typer.Option(help="The same for the target.")] = None,
    model: FromModel = None,
    by: By = None,
) -> None:
    """Link the words of sentence pairs by an aligner that is trained once and then frozen.

    Or by a model that separates past and future, for which nothing is trained.
    """
    from untold.alignment.aligners import split_pairs
    from untold.corpus.text import read_parallel

    corpora = _corpora(train_source or [], train_target or [])
    config = _aligner_config(kind=kind, source_words=source_words, target_words=target_words)
    _check_outputs(out, save, gold, write_words)
    _check_way(by, model)
    say_outputs_if_stopped(save, out)
    texts = read_parallel(source, target)
    known = _load(aligner) if aligner else None
    pairs = split_pairs(known.config if known else config, *texts)
    gold_links = _read_gold(gold, pairs) if gold else None
    if model:
        links = _timed("aligning", lambda: _link_by_model(model, by, texts))
    else:
        place = _place(save, out)
        trained = known or _timed("training", lambda: _train(config, corpora, texts, place))
        links = _timed("aligning", lambda: _align(trained, pairs))
    if save:
        print(f"{save}: {config.kind}")
    if out:
        _write_links(out, links, pairs if write_words else None)
    if gold_links is not None:
        _print_error_rate(links, gold_links)


def _corpora(sources: Sequence[Path], targets: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Pairs the files of --train-source and --train-target by their positions."""
    if len(sources) != len(targets):
        raise UntoldError(
            f"{len(sources)} of --train-source but {len(targets)} of --train-target: they come in "
            "twos"
        )
    return list(zip(sources, targets, strict=True))


def _aligner_config(**given: str | None) -> "AlignerConfig":
    """Checks the options that were given; the others have their defaults."""
    from untold.config import AlignerConfig, check_section

    values = {name: value for name, value in given.items() if value is not None}
    return check_section(
        AlignerConfig, values, "align", lambda names: f"--{names[0]}".replace("_", "-")
    )


def _check_outputs(
    out: Path | None, save: Path | None, gold: Path | None, write_words: bool
) -> None:
    """Finds mistakes before hours of training."""
    check_output(out)
    if not (out or save or gold):
        raise UntoldError("nothing to do with the links: give --out, --save or --gold")
    if save and save.exists():
        raise UntoldError(f"{save} exists: remove it or choose another name for --save")
    if write_words and not out:
        raise UntoldError("--write-words writes beside the links: give --out")


def _read_gold(
    gold: Path, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> "list[Alignment]":
    from untold.corpus.alignments import check_alignments, read_alignments

    links = read_alignments(gold)
    check_alignments(gold, links, pairs)
    return links


def _load(path: Path) -> "Aligner":
    from untold.alignment.aligners import load_aligner

    return _timed("loading", lambda: load_aligner(path))


@contextmanager
def _place(save: Path | None, out: Path | None) -> Iterator[Path]:
    """Yields where a trained aligner is put: it stays at --save, and nowhere else."""
    from untold.files import remove_litter, scratch_directory

    beside = save or out or Path(gettempdir()) / "aligner"
    remove_litter(beside.absolute().parent)
    if save:
        yield save
    else:
        with scratch_directory(beside) as folder:
            yield folder / "aligner"


def _train(
    config: "AlignerConfig",
    corpora: Sequence[tuple[Path, Path]],
    texts: tuple[list[str], list[str]],
    place: AbstractContextManager[Path],
) -> "Aligner":
    """Trains on the corpora or, without any, on the texts that are to be aligned."""
    from untold.alignment.aligner_process import train_in_process
    from untold.corpus.text import read_parallel

    if corpora:
        read = [read_parallel(*files) for files in corpora]
        texts = [line for s, _ in read for line in s], [line for _, t in read for line in t]
    with place as path, task("training the aligner") as begun:

        def report(done: int, total: int) -> None:
            begun.total = total
            begun.advance(done - begun.done)

        return train_in_process(texts, config, path, report)


def _align(
    trained: "Aligner", pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> "list[Alignment]":
    links = []
    with task("aligning", len(pairs)) as begun:
        for first in range(0, len(pairs), _PAIRS_AT_ONCE):
            links += trained.align(pairs[first : first + _PAIRS_AT_ONCE])
            begun.advance(min(_PAIRS_AT_ONCE, len(pairs) - first))
    return links


def _timed(what: str, work: Callable[[], T]) -> T:
    """Does the work, and prints how long it took."""
    started = _seconds()
    done = work()
    print(f"{what}: {_seconds() - started:.2f} seconds of the processor")
    return done


def _seconds() -> float:
    """Counts the seconds of the processor that this process and its ended children have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _write_links(
    out: Path,
    links: "Sequence[Alignment]",
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]] | None,
) -> None:
    """Writes links and, if pairs are given, their words."""
    from untold.corpus.alignments import write_alignments

    write_alignments(out, links)
    print(f"{out}: pairs: {len(links)}, links: {sum(len(alignment.sure) for alignment in links)}")
    if pairs is not None:
        _write_words(out, pairs)


def _write_words(out: Path, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
    """Writes the words of both sides to OUT.source and OUT.target."""
    from untold.files import write_file

    for side, name in enumerate(("source", "target")):
        text = "".join(f"{' '.join(pair[side])}\n" for pair in pairs)
        write_file(out.with_name(f"{out.name}.{name}"), text.encode())


def _print_error_rate(links: "Sequence[Alignment]", gold: "Sequence[Alignment]") -> None:
    from untold.corpus.alignments import alignment_error_rate

    error = alignment_error_rate(links, gold)
    print("AER -" if error is None else f"AER {error:.4f}")


def _check_way(by: str | None, model: Path | None) -> None:
    """Refuses an unknown way to link words, and one that no model is given for."""
    if by is None:
        return
    from untold.alignment.model_links import WAYS

    if by not in WAYS:
        raise UntoldError(f"--by {by[:40]}: must be one of {', '.join(WAYS)}")
    if model is None:
        raise UntoldError("--by says how to read a model, and there is none: give --model")


def _link_by_model(
    model: Path, by: str | None, texts: tuple[Sequence[str], Sequence[str]]
) -> "list[Alignment]":
    """Links the words of parallel lines; refuses text that a model cannot link."""
    from untold.alignment.model_links import LinkReader, Unlinked

    trained = load_trained(model)
    reader = LinkReader(trained, by or "links", trained.config.decode.batch_tokens)
    pairs, alignments = list(zip(*texts, strict=True)), []
    with task("aligning", len(pairs)) as begun:
        for line, links in enumerate(reader.align(pairs, begun.advance), start=1):
            if isinstance(links, Unlinked):
                raise UntoldError(f"line {line}: {links.reason}")
            alignments.append(links)
    return alignments


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
            lines = linker.lines([(source, translation.text) for source, translation in group])
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
        from untold.alignment.model_links import LinkReader
        from untold.decoding.scoring import CANNOT_TELL

        separating = [one for one in translator.models if one.model.past_future is not None]
        if not separating:
            raise UntoldError(f"--align: {CANNOT_TELL}")
        self._reader = LinkReader(separating[0], batch_tokens=translator.decode.batch_tokens)
        self._most = translator.data.max_tokens
        self._line, self._unlinked = 0, Counter[str]()

    def lines(self, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
        """Yields the links of each pair as a line; an empty one if there are none."""
        from untold.alignment.model_links import Unlinked
        from untold.corpus.alignments import format_alignment

        encoded = self._reader.reader.encode(pairs)
        whole = [pair for pair in encoded if len(pair.ids[0]) <= self._most]
        alignments = self._reader.align_encoded(whole)
        for pair in encoded:
            self._line += 1
            length = len(pair.ids[0])
            links = next(alignments) if length <= self._most else self._divided(length)
            if isinstance(links, Unlinked):
                self._say(links.kind, links.reason)
            yield "" if isinstance(links, Unlinked) else format_alignment(links)

    def say_rest(self, path: Path) -> None:
        """Says how many lines have no links, if more than the one of each kind that was named."""
        total = sum(self._unlinked.values())
        if total > len(self._unlinked):
            print_notice(f"untold: {path}: lines without links for these reasons: {total:,}")

    def _divided(self, length: int) -> "Unlinked":
        from untold.alignment.model_links import Unlinked

        return Unlinked(
            "divided",
            f"its {length:,} pieces are translated in segments of at most {self._most:,} "
            "(data.max_tokens): divide it",
        )

    def _say(self, kind: str, reason: str) -> None:
        self._unlinked[kind] += 1
        if self._unlinked[kind] == 1:  # a text of many such lines is told once
            print_notice(f"untold: line {self._line:,} gets no links: {reason}")
