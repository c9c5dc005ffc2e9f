"""How fast is translation, beside other toolkits, with past and future, and in 8-bit numbers?

    python benchmarks/decode.py --source test.en --target test.de --model runs/mine --threads 1

There are three races: one sentence at a time with greedy search and with the beam, and batches with
the beam. A model with random weights translates up to the length limit, and two models stop at
different lengths; so every contender generates exactly as many tokens for a batch as its longest
source has, and the work is equal. With a trained --model one more race lets each contender stop
where it will: its contenders have the same weights, and a table says how many translations agree
and what BLEU they have. The model must be plain, as other toolkits know neither past nor future.
No contender has a length penalty, since formulas differ. All get the same batches of ids, sorted by
length and cut by tokens.

With --past-future the model races against itself: plain, and GDR with and without returning the
assignments of every step. With --int8 it races in 8-bit numbers, beside CTranslate2 in the same.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import chain

import torch

from contenders import (
    CTranslate2,
    HuggingFace,
    Searcher,
    SourceBatch,
    Untold,
    Workload,
    add_options,
    m2m100_of,
    marian,
    past_future_variants,
    read_workload,
    shape,
    source_batches,
    source_rows,
    untrained,
    varied,
)
from race import Race, Table, run_race, write_json
from untold.corpus.batching import plan_by_length
from untold.inference.model import prepare
from untold.metrics.base import corpus_scores
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import TrainedModel, load_model

MARIAN = "Hugging Face Marian"

MakeSearchers = Callable[[int], list[Searcher]]  # from the size of the beam


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    trained = load_model(options.model) if options.model else None
    if trained and trained.model.past_future is not None:
        sys.exit(f"{options.model}: it separates past and future: race a plain model")
    workload = read_workload(options, trained.tokenizers if trained else None)
    rows = source_rows(workload, options.sentences)
    order = plan_by_length([len(row) for row in rows], options.batch_tokens)
    batches = [[rows[index] for index in indices] for indices in order]
    alone = [[row] for row in rows[: options.alone]]
    make = _maker(trained or _untrained(options, workload), options)
    races = []
    for title, groups, beam in (
        ("one sentence, greedy", alone, 1),
        (f"one sentence, beam {options.beam}", alone, options.beam),
        (f"batches, beam {options.beam}", batches, options.beam),
    ):
        races.append(_race(title, make(beam), source_batches(groups), options))
    tables = []
    if trained:
        same = [searcher for searcher in make(options.beam) if searcher.name != MARIAN]
        jobs = [SourceBatch(batch, None) for batch in batches]
        races.append(_race(f"own lengths, beam {options.beam}", same, jobs, options))
        tables.append(_compare_texts(same, jobs, workload, list(chain(*order))))
        print(tables[-1].text())
    if options.json:
        write_json(options.json, races, vars(options), tables)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--batch-tokens", type=int, default=1024, help="source tokens in a batch")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--alone", type=int, default=8, help="sentences that are translated alone")
    parser.add_argument("--int8", action="store_true", help="race in 8-bit numbers")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--model", help="a plain model or run: its weights and vocabulary")
    what.add_argument("--past-future", action="store_true", help="race what past/future costs")
    return parser.parse_args()


def _untrained(options: argparse.Namespace, workload: Workload) -> TrainedModel:
    config = shape(options.preset, 0.0)
    return TrainedModel(untrained(config, options.vocabulary), config, workload.tokenizers)


def _maker(trained: TrainedModel, options: argparse.Namespace) -> MakeSearchers:
    """Returns a function that makes the contenders for a beam; models are built once."""
    if options.past_future:
        models = _variants(options)
        return lambda beam: [
            *(Untold(model, beam, name) for name, model in models.items()),
            Untold(models["GDR"], beam, "GDR, assignments", frozenset({"assignments"})),
        ]
    model, config = trained.model.eval(), trained.config
    fast = prepare(model)
    if options.int8:
        rounded = prepare(model, int8=True)
        return lambda beam: [
            Untold(rounded, beam, "untold, int8"),
            Untold(fast, beam, "untold, float32"),
            *_ctranslate2(model, beam, options, "int8"),
            *_ctranslate2(model, beam, options, "float32"),
        ]
    theirs = marian(config, model.output_embedding().shape[0])
    same = m2m100_of(model, config)
    return lambda beam: [
        Untold(fast, beam, "untold"),
        Untold(model, beam, "untold, not prepared"),
        HuggingFace(MARIAN, theirs, beam),
        HuggingFace("Hugging Face M2M100, same weights", same, beam),
        *_ctranslate2(model, beam, options, "float32"),
    ]


def _ctranslate2(
    model: Seq2Seq, beam: int, options: argparse.Namespace, numbers: str
) -> list[Searcher]:
    try:
        return [CTranslate2(model, beam, options.threads, numbers)]
    except ImportError as error:
        print(f"CTranslate2 does not take part: {error}")
        return []


def _variants(options: argparse.Namespace) -> dict[str, torch.nn.Module]:
    """Builds untrained models; their lengths are forced."""
    config, variants = shape(options.preset, 0.0), past_future_variants()
    return {
        name: prepare(untrained(varied(config, variants[name]), options.vocabulary))
        for name in ("plain", "GDR")
    }


def _race(
    title: str, searchers: list[Searcher], jobs: list[SourceBatch], options: argparse.Namespace
) -> Race:
    lengths = [len(row) + 1 for job in jobs for row in searchers[0].search(job)]
    race = run_race(
        f"Decoding, {options.preset}, {title}, {options.threads} thread(s), {len(lengths)} "
        f"sentences in {len(jobs)} batches",
        {searcher.name: searcher.search for searcher in searchers},
        jobs,
        {"sentences": len(lengths), "tokens": sum(lengths)},
        options,
    )
    print(race.table(relative=options.past_future), flush=True)
    return race


def _compare_texts(
    searchers: list[Searcher], jobs: list[SourceBatch], workload: Workload, order: Sequence[int]
) -> Table:
    """Says how many translations are those of the first contender, and the BLEU of each."""
    references = [workload.texts[index][1] for index in order]
    decode = workload.tokenizers.target.decode
    rows, first, signature = [], None, ""
    for searcher in searchers:
        translations = [row for job in jobs for row in searcher.search(job)]
        first = first or translations
        equal = sum(own == other for own, other in zip(first, translations, strict=True))
        (bleu,) = corpus_scores([decode(row) for row in translations], references, ("bleu",))
        signature = bleu.signature
        rows.append([searcher.name, f"{equal} of {len(first)}", f"{bleu.value:.2f}"])
    columns = ["", "translations of the first", f"BLEU ({signature})"]
    return Table("The same weights, each to its own end", columns, rows)


if __name__ == "__main__":
    main()
