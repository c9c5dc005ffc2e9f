"""How fast is training, beside Hugging Face's Marian and beside itself without past and future?

    python benchmarks/train.py --source train.en --target train.de --threads 1

It counts target tokens a second of whole updates on the same batches. What is equal: the shape
(layers, widths, heads, one embedding for source, target and output), the vocabulary, dropout, fp32,
label smoothing, clipping, fused Adam, the batches and their order. What differs: Marian norms after
the sublayers. It gets the fast form of everything it offers: fused attention and torch's
cross-entropy. Other toolkits: train_peers.py.

With --past-future it is the model against itself: plain, GDR, GDR with each loss of the paper and
with both, and with all that teaches it by default. With --rnmt it is the recurrent models, and with
--bf16 both precisions of the plain model.
"""

import argparse
from typing import TypeAlias

import torch

from contenders import (
    MarianTraining,
    UntoldTraining,
    Workload,
    add_options,
    past_future_variants,
    read_workload,
    recurrent_variants,
    shape,
    training_batches,
    varied,
)
from race import run_race, write_json
from untold.hardware import check_precision

Trainers: TypeAlias = dict[str, UntoldTraining | MarianTraining]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    add_options(parser)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--batches", type=int, default=4, help="updates of each contender a round")
    parser.add_argument("--dropout", type=float, default=0.1)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--past-future", action="store_true", help="race what past/future costs")
    what.add_argument("--rnmt", action="store_true", help="race the recurrent models")
    what.add_argument("--bf16", action="store_true", help="race bf16 where hardware computes it")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    workload = read_workload(options)
    batches = training_batches(workload, options.batch_tokens, options.batches)
    race = run_race(
        f"Training, {options.preset}, {options.threads} thread(s), batches of "
        f"{options.batch_tokens} tokens, vocabulary {options.vocabulary}",
        {name: trainer.update for name, trainer in make_trainers(options, workload).items()},
        batches,
        {"target tokens": sum(batch.target_tokens for batch in batches)},
        options,
    )
    print(race.table(relative=options.past_future or options.rnmt))
    if options.json:
        write_json(options.json, [race], vars(options))


def make_trainers(options: argparse.Namespace, workload: Workload) -> Trainers:
    """The contenders by name, ours first."""
    config = shape(options.preset, options.dropout, "rnmt" if options.rnmt else "transformer")
    variants = {}
    if options.past_future:
        variants = past_future_variants()
    elif options.rnmt:
        variants = recurrent_variants()
    elif options.bf16:
        check_precision("bf16", torch.device("cpu"))
        variants = {name: {"train": {"precision": name}} for name in ("bf16", "fp32")}
    if variants:
        return {
            name: UntoldTraining(varied(config, changes), options.vocabulary, workload)
            for name, changes in variants.items()
        }
    ours = UntoldTraining(config, options.vocabulary, workload)
    marian = MarianTraining(config, options.vocabulary)
    for name, model in (("untold", ours.model), (marian.name, marian.model)):
        print(
            f"{name}: {sum(p.numel() for p in model.parameters() if p.requires_grad):,} parameters"
        )
    return {"untold": ours, marian.name: marian}


if __name__ == "__main__":
    main()
