"""`untold align`: train or load a word aligner, link the words of a text, measure the links."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from pydantic import ValidationError

from untold.alignment.aligner import Aligner, load_aligner, train_aligner
from untold.config import AlignerConfig
from untold.corpus.alignments import (
    Alignment,
    alignment_error_rate,
    check_alignments,
    read_alignments,
    write_alignments,
)
from untold.corpus.lines import read_parallel
from untold.durable import write_file
from untold.errors import UntoldError

__all__ = ["AlignOptions", "aligner_config", "corpus_files", "run_align"]

Words = Sequence[str]


@dataclass(frozen=True)
class AlignOptions:
    """As the command line gives them; without a corpus or an aligner the text itself teaches."""

    source: Path
    target: Path
    corpus: Sequence[tuple[Path, Path]]
    aligner: Path | None
    out: Path | None
    save: Path | None
    gold: Path | None
    write_words: bool


def aligner_config(
    kind: str | None, source_words: str | None, target_words: str | None
) -> AlignerConfig:
    """The settings that were given, the others as they are by default."""
    given = {"kind": kind, "source_words": source_words, "target_words": target_words}
    try:
        return AlignerConfig.model_validate({k: v for k, v in given.items() if v is not None})
    except ValidationError as error:
        problem = error.errors()[0]
        option = str(problem["loc"][0]).replace("_", "-")
        raise UntoldError(f"--{option} {problem['input']}: {problem['msg']}") from None


def corpus_files(sources: Sequence[Path], targets: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Files of the same place belong together."""
    if len(sources) != len(targets):
        raise UntoldError(
            f"{len(sources)} of --train-source but {len(targets)} of --train-target: they come in "
            "twos"
        )
    return list(zip(sources, targets, strict=True))


def run_align(options: AlignOptions, config: AlignerConfig) -> None:
    """Align, write, and print the AER where there is gold."""
    _check(options)
    gold = read_alignments(options.gold) if options.gold else None
    sources, targets = read_parallel(options.source, options.target)
    started = process_time()
    aligner = _aligner(options, config, (sources, targets))
    pairs = aligner.split(sources, targets)
    if options.gold and gold is not None:
        check_alignments(options.gold, gold, pairs)
    ready = process_time()
    links = aligner.align(pairs)
    _print_time("loading" if options.aligner else "training", ready - started)
    _print_time("aligning", process_time() - ready)
    if options.save:
        aligner.save(options.save)
        print(f"{options.save}: {aligner.config.kind}")
    if options.out:
        _write(options, links, pairs)
    if gold is not None:
        error = alignment_error_rate(links, gold)
        print("AER -" if error is None else f"AER {error:.4f}")


def _print_time(what: str, seconds: float) -> None:
    print(f"{what}: {seconds:.2f} seconds of the processor")


def _check(options: AlignOptions) -> None:
    """What can be known before hours of training."""
    if not (options.out or options.save or options.gold):
        raise UntoldError("nothing to do with the links: give --out, --save or --gold")
    if options.aligner and (options.corpus or options.save):
        raise UntoldError("--aligner is trained already: leave out --train-source and --save")
    if options.save and options.save.exists():
        raise UntoldError(f"{options.save} exists: remove it or choose another name for --save")
    if options.write_words and not options.out:
        raise UntoldError("--write-words writes beside the links: give --out")


def _aligner(
    options: AlignOptions, config: AlignerConfig, texts: tuple[list[str], list[str]]
) -> Aligner:
    if options.aligner:
        return load_aligner(options.aligner)
    if options.corpus:
        corpora = [read_parallel(*files) for files in options.corpus]
        texts = [line for s, _ in corpora for line in s], [line for _, t in corpora for line in t]
    return train_aligner(*texts, config)


def _write(
    options: AlignOptions, links: Sequence[Alignment], pairs: Sequence[tuple[Words, Words]]
) -> None:
    assert options.out is not None
    write_alignments(options.out, links)
    total = sum(len(each.sure) for each in links)
    print(f"{options.out}: pairs: {len(links)}, links: {total}")
    for side, name in enumerate(("source", "target") if options.write_words else ()):
        text = "".join(f"{' '.join(pair[side])}\n" for pair in pairs)
        write_file(options.out.with_name(f"{options.out.name}.{name}"), text.encode())
