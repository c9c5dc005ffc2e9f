"""The command line: parse, call, print. Heavy imports stay inside the commands."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from untold.errors import UntoldError
from untold.threads import choose_at_startup

if TYPE_CHECKING:
    from untold.evaluation.metrics import Score
    from untold.translator import Translation, Translator

__all__ = [
    "align",
    "app",
    "average",
    "compare",
    "demo",
    "evaluate",
    "explain",
    "info",
    "main",
    "sample",
    "score",
    "train",
    "translate",
]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Neural machine translation that knows what it has said and what is still untold.",
)

Model = Annotated[Path, typer.Argument(help="A model directory or a training run.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, such as decode.beam=8."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def main() -> None:
    """Run the command line; a mistake of the user is one line and exit code 2."""
    choose_at_startup()
    try:
        app()
    except UntoldError as error:
        print(f"untold: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # as the shell reports a process that SIGPIPE ended


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="A TOML file.")],
    settings: Settings = None,
    init: Annotated[Path | None, typer.Option(help="A model to start from.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's directory [runs/CONFIG].")] = None,
    allow_changed: Annotated[
        bool, typer.Option("--allow-changed", help="Resume although settings or data changed.")
    ] = False,
) -> None:
    """Train a model, or go on with a run that was stopped."""
    from untold.config import load_config
    from untold.training.run import RunOptions
    from untold.training.run import train as run

    options = RunOptions(out or Path("runs") / config.stem, init, allow_changed)
    result = run(load_config(config, settings or []), options)
    progress = result.progress
    best = f"best {_number(progress.best)} at {progress.best_step}"
    if result.rank == 0:
        print(f"{result.out}: step {progress.step}, {best}")
    if result.signal:
        sys.exit(128 + result.signal)


@app.command()
def translate(
    model: Model,
    file: Annotated[Path | None, typer.Argument(help="Text, a line each [standard input].")] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at each step.")] = None,
    nbest: Annotated[int | None, typer.Option(help="Translations of each line.")] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--with", help="Another model to ensemble with.")
    ] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Translate lines of text, in their order, as they arrive."""
    translator = _load([model, *(ensemble or [])], settings, beam=beam, nbest=nbest)
    lines = _lines(file)
    for number, translation in enumerate(translator.stream(lines, copying=as_json)):
        if as_json:
            print(_as_json(translation), flush=True)
        elif translator.decode.nbest > 1:
            for each in (translation, *translation.alternatives):
                print(f"{number} ||| {each.text} ||| {each.score:.4f}", flush=True)
        else:
            print(translation.text, flush=True)


@app.command()
def score(
    model: Model,
    source: Annotated[Path, typer.Option(help="Source text, a line each.")],
    target: Annotated[Path, typer.Option(help="Its translations, a line each.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print log p(target | source) of given pairs, a line each."""
    translator = _load([model], settings)
    sources, targets = _parallel(source, target)
    for each in translator.score(list(zip(sources, targets, strict=True))):
        print(_as_json(each) if as_json else f"{each.log_probability:.4f}")


@app.command()
def evaluate(
    model: Model,
    source: Annotated[Path, typer.Option(help="Source text, a line each.")],
    reference: Annotated[Path, typer.Option(help="Reference translations, a line each.")],
    metrics: Annotated[str, typer.Option(help="Of bleu, chrf, ter, rouge, cdr.")] = "bleu,chrf,ter",
    tokenize: Annotated[
        str | None, typer.Option(help="BLEU's tokenizer: 13a, char, intl, none, zh [the model's].")
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    aligner: Annotated[
        Path | None, typer.Option(help="For cdr: what untold align --save wrote.")
    ] = None,
    alignments: Annotated[
        Path | None,
        typer.Option(help="Word alignments: measure past, future and redundant instead."),
    ] = None,
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Measure what past and future bags know instead.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the translations to this file.")] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Translate a test set and score it: BLEU, chrF, TER, ROUGE, coverage, with signatures.

    With alignments or overlap nothing is translated: the references are read word by word, and what
    the model takes for said and for untold is compared with the truth.
    """
    translator = _load([model], settings)
    texts = _parallel(source, reference)
    if alignments is not None or overlap:
        from untold.commands.knowledge import overlap_of, separation_of

        if alignments is not None:
            print(separation_of(translator, texts, alignments, as_json=as_json))
        else:
            print(overlap_of(translator, texts, as_json=as_json))
    else:
        from untold.commands.scoring import make_scorer

        names = [name.strip() for name in metrics.split(",")]
        tokenize = tokenize or translator.data.bleu_tokenize
        scorer = make_scorer(names, tokenize, lowercase, aligner)
        _print_scores(scorer.scores(*texts, _translated(translator, texts[0], out)), as_json)


@app.command()
def align(
    source: Annotated[Path, typer.Option(help="Source text, a line each.")],
    target: Annotated[Path, typer.Option(help="Its translations, a line each.")],
    train_source: Annotated[
        list[Path] | None, typer.Option(help="Learn from this text instead; may be given again.")
    ] = None,
    train_target: Annotated[list[Path] | None, typer.Option(help="And its translations.")] = None,
    aligner: Annotated[Path | None, typer.Option(help="Learn nothing: use a saved one.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the links, i-j, to this file.")] = None,
    write_words: Annotated[
        bool, typer.Option("--write-words", help="Write the words that links count beside them.")
    ] = False,
    save: Annotated[Path | None, typer.Option(help="Keep the trained aligner here.")] = None,
    gold: Annotated[
        Path | None, typer.Option(help="True links, i-j sure, ipj possible: print the AER.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="eflomal, fast_align, hmm, ibm1, ibm2 or ibm4.")
    ] = None,
    source_words: Annotated[
        str | None, typer.Option(help="What a word is: blank, word, character or jieba [blank].")
    ] = None,
    target_words: Annotated[str | None, typer.Option(help="The same for the target.")] = None,
) -> None:
    """Link the words of sentence pairs by an aligner that is trained once and then frozen."""
    from untold.commands.align import AlignOptions, aligner_config, corpus_files, run_align

    corpus = corpus_files(train_source or [], train_target or [])
    options = AlignOptions(source, target, corpus, aligner, out, save, gold, write_words)
    run_align(options, aligner_config(kind, source_words, target_words))


@app.command()
def compare(
    runs: Annotated[
        list[str], typer.Argument(help="RUN, NAME=RUN or NAME=RUN,RUN (seeds); the baseline first.")
    ],
    test: Annotated[list[str], typer.Option(help="NAME=SOURCE,REFERENCE; may be given again.")],
    metric: Annotated[str, typer.Option(help="bleu or chrf.")] = "bleu",
    tokenize: Annotated[
        str | None, typer.Option(help="BLEU's tokenizer, as in evaluate [the baseline's].")
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    samples: Annotated[int, typer.Option(min=1, help="Trials of each significance test.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the trials.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Of the race for speed.")] = 5,
    no_speed: Annotated[bool, typer.Option("--no-speed", help="Leave speeds out.")] = False,
    settings: Settings = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs: sizes, speeds, scores on test sets, and significance against the first."""
    from untold.commands.compare import CompareOptions, run_compare
    from untold.evaluation.system_comparison import Trials

    options = CompareOptions(
        metric,
        tokenize,
        lowercase,
        Trials(samples, seed),
        0 if no_speed else rounds,
        settings or (),
    )
    run_compare(runs, test, options, "json" if as_json else "markdown" if markdown else "table")


@app.command()
def explain(
    model: Model,
    source: Annotated[list[str], typer.Option(help="A sentence; may be given again.")],
    target: Annotated[
        list[str] | None, typer.Option(help="Its translation, one for each source [the model's].")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .html, .json, .png or .svg file [the terminal].")
    ] = None,
    settings: Settings = None,
) -> None:
    """Show what was told and what was still untold of a source before each target word.

    Of a PFRNN without a separator: what its past and future layers took each target piece for.
    """
    from untold.commands.explain import run_explain
    from untold.report.pictures import check_format

    if out is not None:
        check_format(out)
    run_explain(_load([model], settings), source, target or [], out)


@app.command()
def average(
    run: Annotated[Path, typer.Argument(help="A training run.")],
    out: Annotated[Path, typer.Option(help="Where to write the model.")],
    last: Annotated[int, typer.Option(help="How many of the newest checkpoints.")] = 5,
) -> None:
    """Average the weights of a run's last checkpoints into one model."""
    from untold.storage.checkpoint_averaging import average_models, last_checkpoints
    from untold.storage.model_directory import save_model

    paths = last_checkpoints(run, last)
    save_model(out, average_models(paths))
    print(f"{out}: the mean of {', '.join(path.name for path in paths)}")


@app.command()
def info(model: Model, as_json: AsJson = False) -> None:
    """Say what a model is: its shape, size, vocabulary and settings."""
    from untold.storage.model_directory import load_model
    from untold.storage.model_summary import summarise

    summary = summarise(load_model(model), model)
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
    for name, value in () if as_json else summary.items():
        print(f"{name}: {value}")


@app.command()
def sample(
    grammar: Annotated[str, typer.Argument(help="en-de, zh-en, or a .grammar file.")],
    out: Annotated[Path, typer.Option(help="The directory to write to.")],
    pairs: Annotated[int, typer.Option(min=1, help="Training pairs.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same corpus.")] = 7,
    noise: Annotated[
        float, typer.Option(help="Share of training references that lose a clause.")
    ] = 0.0,
) -> None:
    """Write a corpus of a synchronous grammar: train, dev, test, with gold word alignments."""
    from untold.corpus.grammars import write_sample

    print(write_sample(grammar, pairs, seed, out, noise=noise))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The directory to work in.")] = Path("runs/demo"),
) -> None:
    """Train on the embedded corpus, translate unseen sentences, and show the scores."""
    from untold.demo import run_demo

    run_demo(out)


def _load(paths: list[Path], settings: list[str] | None, **flags: int | None) -> "Translator":
    from untold.commands.options import decode_changes
    from untold.translator import load

    translator = load(paths)
    changes = decode_changes(settings or [])
    given = {name: value for name, value in flags.items() if value is not None}
    if given.get("nbest", 1) > translator.decode.beam and "beam" not in given:
        given["beam"] = given["nbest"]  # an n-best list needs a beam as wide
    return translator.with_decoding(**changes, **given)


def _lines(file: Path | None) -> Iterator[str]:
    from untold.corpus.lines import read_lines, split_lines

    return split_lines(sys.stdin.buffer, "standard input") if file is None else read_lines(file)


def _parallel(source: Path, target: Path) -> tuple[list[str], list[str]]:
    from untold.corpus.lines import read_parallel

    return read_parallel(source, target)


def _translated(translator: "Translator", sources: list[str], out: Path | None) -> list[str]:
    hypotheses = [each.text for each in translator.translate(sources)]
    if out is not None:
        out.write_text("".join(f"{text}\n" for text in hypotheses), encoding="utf-8")
    return hypotheses


def _print_scores(scores: "list[Score]", as_json: bool) -> None:
    if as_json:
        print(json.dumps([vars(each) for each in scores]))
    for each in () if as_json else scores:
        print(f"{each.name} {each.value:.2f} {each.details}  [{each.signature}]")


def _as_json(translation: "Translation") -> str:
    from untold.commands.json_records import translation_record

    return json.dumps(translation_record(translation), ensure_ascii=False)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
