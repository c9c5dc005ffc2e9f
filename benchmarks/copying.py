"""Copying against generating alone, on sentences full of names: two trainings, one difference.

    python benchmarks/copying.py --threads 1

A sentence is one to three known words, which are translated one by one, around a name of two or
three symbols, which are said again as they are. Source and target have each their own vocabulary
(with --shared one, and one embedding), and there are many symbols: training meets each of them
seldom, and one in ten never. Both models see the same sentences. Printed is the share of new
sentences that greedy search gets right to the last token: with names of symbols that training may
have met, and of symbols that it has not.
"""

import argparse
import random
from dataclasses import dataclass

import torch

from untold.config import DecodeConfig, ModelConfig, TrainConfig
from untold.corpus.batching import collate, pad_rows
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.models.build import build_model
from untold.models.seq2seq import Seq2Seq
from untold.training.losses.objective import Objective

PAD, EOS = SENTENCEPIECE_IDS.pad, SENTENCEPIECE_IDS.eos
IDS = (SENTENCEPIECE_IDS, SENTENCEPIECE_IDS)  # of the source and of the target
FIRST = 4  # ids after the control tokens: words of the source, of the target, and symbols
WORDS = 20
BATCH, TESTS = 64, 200
SHAPE = {"d_model": 96, "d_ffn": 96, "heads": 4, "encoder_layers": 1, "decoder_layers": 1}

Pair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Task:
    """Sentences with names; ids mean the same in both vocabularies."""

    symbols: int
    shared: bool = False

    @property
    def names(self) -> range:
        """The ids of all symbols."""
        return range(FIRST + 2 * WORDS, FIRST + 2 * WORDS + self.symbols)

    @property
    def met(self) -> range:
        """Those that training has names of."""
        return self.names[: -self.symbols // 10]

    @property
    def unmet(self) -> range:
        """Those that it has not."""
        return self.names[-self.symbols // 10 :]

    def pair(self, dice: random.Random, symbols: range) -> Pair:
        """A source and its target, with one name of these symbols."""
        source = [FIRST + dice.randrange(WORDS) for _ in range(dice.randint(1, 3))]
        place = dice.randint(0, len(source))
        source[place:place] = dice.choices(symbols, k=dice.randint(2, 3))
        return source, [each if each in self.names else each + WORDS for each in source]

    def train(self, *, copying: bool, updates: int, seed: int) -> Seq2Seq:
        """A small model of its own, with a rate that rises quickly and falls slowly."""
        dice = random.Random(seed)
        torch.manual_seed(seed)
        config = ModelConfig.model_validate(SHAPE | {"dropout": 0.0, "copying": copying})
        same = [each if each in self.names else PAD for each in range(self.names.stop)]
        sizes = (self.names.stop, self.names.stop)
        model = build_model(config, sizes, shared=self.shared, counterparts=same)
        optimizer = torch.optim.Adam(model.parameters())
        settings = TrainConfig.model_validate({"label_smoothing": 0.0})
        for step in range(1, updates + 1):
            for group in optimizer.param_groups:
                group["lr"] = 4e-3 * min(1.0, step / 30, 1.5 * (1 - step / updates))
            batch = collate([self.pair(dice, self.met) for _ in range(BATCH)], range(BATCH), IDS)
            optimizer.zero_grad()
            (Objective(model, settings)(batch, step).total / batch.target_tokens).backward()
            optimizer.step()
        return model.eval()

    def accuracy(self, model: Seq2Seq, symbols: range) -> float:
        """On sentences that no training has seen: another generator makes them."""
        dice = random.Random("test")
        pairs = [self.pair(dice, symbols) for _ in range(TESTS)]
        ids, mask = pad_rows([(*source, EOS) for source, _ in pairs], PAD)
        found = search(model, Sentences(ids, mask, SENTENCEPIECE_IDS), DecodeConfig(beam=1))
        right = [
            best.tokens == tuple(target) for (best,), (_, target) in zip(found, pairs, strict=True)
        ]
        return sum(right) / TESTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--symbols", type=int, default=6000)
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    task = Task(options.symbols, options.shared)
    print(f"{'':24}{'symbols met':>12}{'never met':>12}")
    for copying in (False, True):
        model = task.train(copying=copying, updates=options.updates, seed=options.seed)
        met, unmet = (task.accuracy(model, symbols) for symbols in (task.met, task.unmet))
        print(f"{'with copying' if copying else 'generating alone':24}{met:12.3f}{unmet:12.3f}")


if __name__ == "__main__":
    main()
