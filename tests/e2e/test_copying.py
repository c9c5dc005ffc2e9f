"""Names and numbers: on sentences full of them copying beats the same model without it.

A sentence is one to three known words, which are translated one by one, around a name of two or
three symbols, which are said again as they are. There are many symbols: training meets each of them
seldom, and one in ten never. Both models see the same sentences.
"""

import json
import random
import sys
from dataclasses import dataclass

import pytest
import torch

from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.cli import app
from untold.config import DecodeConfig, ModelConfig, TrainConfig
from untold.corpus.batching import collate, pad_rows
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.models.build import build_model, build_model_for
from untold.models.seq2seq import Seq2Seq
from untold.storage.model_directory import TrainedModel, save_model
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
        model = build_model(config, sizes, shared=False, counterparts=same)
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


@pytest.fixture
def task():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Task(symbols=2000)
    torch.set_num_threads(threads)


def test_copying_wins_by_a_wide_margin_where_there_are_names(task):
    accuracies = {}
    for copying in (False, True):
        model = task.train(copying=copying, updates=200, seed=1)
        accuracies[copying] = [task.accuracy(model, names) for names in (task.met, task.unmet)]
    plain, copying = accuracies[False], accuracies[True]
    assert plain[1] == 0.0, "names of which nothing was ever seen"
    assert plain[0] < 0.15 < copying[1] and copying[0] > 0.25, accuracies


def test_json_tells_what_was_copied_and_plain_text_is_the_same(tmp_path, capsys, monkeypatch):
    root = write_corpus(tmp_path / "corpus")
    config = toy_config(root, model={"preset": "tiny", "d_model": 8, "heads": 2, "copying": True})
    tokenizers = toy_tokenizers(root, config)
    model = fill(build_model_for(tokenizers, config.model)).eval()
    save_model(tmp_path / "model", TrainedModel(model, config, tokenizers))
    (tmp_path / "text").write_text("abc de f\n")
    printed = []
    for options in ([], ["--json"]):
        line = ["untold", "translate", str(tmp_path / "model"), str(tmp_path / "text"), *options]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit):
            app()
        printed.append(capsys.readouterr().out)
    record = json.loads(printed[1])
    assert f"{record['text']}\n" == printed[0]
    assert len(record["copying"]) == len(record["tokens"]) > 0
    for token, copied in zip(record["tokens"], record["copying"], strict=True):
        if token in record["source_tokens"]:
            assert record["source_tokens"][copied["source"]] == token
            assert 0 < copied["probability"] < 1
        else:
            assert copied == {"probability": 0, "source": None}
