"""Compares decoding speed with other toolkits: beam search over the same batches of ids.

    python benchmarks/decode.py --source test.en --model runs/mine --threads 1

There are three races: one sentence at a time with greedy search and with the beam, and batches with
the beam. A model with random weights translates up to the length limit, and two models stop at
different lengths; so every contender generates exactly as many tokens for a batch as its longest
source has, and the work is equal. With a trained --model one more race lets each contender stop
where it will. Its contenders have the same weights and should give the same translations; the
script counts those that agree. No contender has a length penalty, since formulas differ. All get
the same batches of ids, sorted by length and cut by tokens.

With --past-future the model races against itself: plain, and GDR with and without returning the
assignments of every step. With --int8 it races in 8-bit numbers, beside CTranslate2 in the same.
"""

import argparse
from collections.abc import Callable

import torch

from contenders import past_future_variants, shape, varied
from race import Race, run_race, write_json
from searchers import CTranslate2, HuggingFace, Searcher, SourceBatch, Untold, converted, marian
from untold.corpus.batching import plan_by_length
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.inference.model import prepare
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, load_model
from workload import add_options, read_workload

MARIAN = "Hugging Face Marian"


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    trained, rows = _prepare(options)
    plan = plan_by_length([len(row) for row in rows], options.batch_tokens)
    batches = [[rows[index] for index in indices] for indices in plan]
    alone = [[row] for row in rows[: options.alone]]
    make = _maker(trained, options)
    races = []
    for title, groups, beam in (
        ("one sentence, greedy", alone, 1),
        (f"one sentence, beam {options.beam}", alone, options.beam),
        (f"batches, beam {options.beam}", batches, options.beam),
    ):
        jobs = [SourceBatch(group, max(map(len, group))) for group in groups]
        races.append(_race(title, make(beam), jobs, options))
    if options.model and not options.past_future:
        same = [searcher for searcher in make(options.beam) if searcher.name != MARIAN]
        jobs = [SourceBatch(batch, None) for batch in batches]
        _print_agreement(same, jobs)
        races.append(_race(f"own lengths, beam {options.beam}", same, jobs, options))
    if options.json:
        facts = {name: str(value) for name, value in vars(options).items()}
        write_json(options.json, races, facts)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--model", help="a model directory or run: its weights and vocabulary")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--batch-tokens", type=int, default=1024, help="source tokens in a batch")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--alone", type=int, default=8, help="sentences that are translated alone")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--past-future", action="store_true", help="race what past/future costs")
    what.add_argument("--int8", action="store_true", help="race in 8-bit numbers")
    return parser.parse_args()


def _prepare(options: argparse.Namespace) -> tuple[TrainedModel, list[list[int]]]:
    """Returns the model, and sources that end in SENTENCEPIECE_IDS.eos."""
    if options.model:
        trained = load_model(options.model)
        workload = read_workload(options, trained.tokenizers)
    else:
        workload = read_workload(options)
        config = shape(options.preset, 0.0)
        torch.manual_seed(1)
        model = build_model(config.model, (options.vocabulary,) * 2, shared=True)
        trained = TrainedModel(model.eval(), config, workload.tokenizers)
    sources = [source for source, _ in workload.pairs[: options.sentences]]
    return trained, [[*source, SENTENCEPIECE_IDS.eos] for source in sources]


def _maker(trained: TrainedModel, options: argparse.Namespace) -> Callable[[int], list[Searcher]]:
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
    same = converted(model, config)
    return lambda beam: [
        Untold(fast, beam),
        Untold(model, beam, "untold, not prepared"),
        HuggingFace(MARIAN, theirs, beam),
        HuggingFace("Hugging Face M2M100, same weights", same, beam),
        *_ctranslate2(model, beam, options, "float32"),
    ]


def _ctranslate2(
    model: torch.nn.Module, beam: int, options: argparse.Namespace, numbers: str
) -> list[Searcher]:
    try:
        return [CTranslate2(model, beam, options.threads, numbers)]
    except ImportError as error:
        print(f"CTranslate2 does not take part: {error}")
        return []


def _variants(options: argparse.Namespace) -> dict[str, torch.nn.Module]:
    """Builds untrained models; their lengths are forced."""
    config, found = shape(options.preset, 0.0), {}
    for name, changes in past_future_variants().items():
        if name in ("plain", "GDR"):
            torch.manual_seed(1)
            settings = varied(config, changes).model
            model = build_model(settings, (options.vocabulary,) * 2, shared=True)
            found[name] = prepare(model.eval())
    return found


def _race(
    title: str, searchers: list[Searcher], jobs: list[SourceBatch], options: argparse.Namespace
) -> Race:
    found = [len(row) + 1 for job in jobs for row in searchers[0].search(job)]
    race = run_race(
        f"Decoding, {options.preset}, {title}, {options.threads} thread(s), {len(found)} "
        f"sentences in {len(jobs)} batches",
        {searcher.name: searcher.search for searcher in searchers},
        jobs,
        {"sentences": len(found), "tokens": sum(found)},
        options,
    )
    print(race.table(relative=options.past_future), flush=True)
    return race


def _print_agreement(searchers: list[Searcher], jobs: list[SourceBatch]) -> None:
    ours, *others = ([row for job in jobs for row in s.search(job)] for s in searchers)
    for searcher, theirs in zip(searchers[1:], others, strict=True):
        same = sum(own == other for own, other in zip(ours, theirs, strict=True))
        print(f"{searcher.name}: {same} of {len(ours)} translations are ours to the token")


if __name__ == "__main__":
    main()
