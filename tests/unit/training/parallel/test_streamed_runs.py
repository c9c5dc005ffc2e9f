"""Runs that read their corpus as a stream."""

import json
from collections import Counter

import pytest

from jobs import newest
from ranks import run_ranks
from toys import checkpoint_contents, lasting_records, records, toy_config, write_corpus
from untold.corpus.batching import TextCodec
from untold.corpus.tokenizer import Tokenizers
from untold.training.log import Reporter
from untold.training.run import RunOptions, train

WINDOW = 17


def config(root, **settings):
    files = {"source": "train*.src", "target": "train*.tgt"}
    return toy_config(
        root,
        data={"train": files, "valid": None, "stream": True, "stream_window": WINDOW},
        tokenizer={"dropout": 0.1},
        train={"steps": 9, "log_every": 1, "save_every": 5, "validate_bleu": False}
        | {"best_by": "loss"}
        | settings,
    )


def write_parts(root):
    write_corpus(root / "more", 23, seed=2)
    write_corpus(root)
    for side in ("src", "tgt"):
        (root / f"train-2.{side}").write_bytes((root / "more" / f"train.{side}").read_bytes())
    return root


def test_a_streamed_run_goes_on_bit_for_bit_in_the_middle_of_a_window(tmp_path):
    root = write_parts(tmp_path / "corpus")
    parted, whole = tmp_path / "parted", tmp_path / "whole"
    train(config(root, steps=5), RunOptions(parted), Reporter(parted, 9))
    place = json.loads((newest(parted) / "progress.json").read_text())["progress"]
    assert place["window"] > 0 and place["batch"] > 0
    train(config(root), RunOptions(parted), Reporter(parted, 9))
    train(config(root), RunOptions(whole), Reporter(whole, 9))
    assert checkpoint_contents(newest(parted)) == checkpoint_contents(newest(whole))
    assert lasting_records(parted) == lasting_records(whole)
    assert not (parted / "corpus" / "train").exists(), "nothing is stored"


def test_processes_read_every_pair_of_an_epoch_once(tmp_path):
    root, plain = write_parts(tmp_path / "corpus"), TextCodec.batch
    out = tmp_path / "run"

    def work(rank):
        def note(self, pairs, indices):
            with open(tmp_path / f"seen-{rank}", "a") as file:
                for source, target in pairs:
                    print(json.dumps([list(map(int, source)), list(map(int, target))]), file=file)
            return plain(self, pairs, indices)

        TextCodec.batch = note
        settled = config(root, steps=1000, epochs=1)
        tokenizer = settled.tokenizer.model_copy(update={"dropout": 0.0})
        settled = settled.model_copy(update={"tokenizer": tokenizer})
        train(settled, RunOptions(out), Reporter(out, 9))

    assert run_ranks(work, tmp_path) == ["", ""]
    seen = [(tmp_path / f"seen-{rank}").read_text().split("\n")[:-1] for rank in (0, 1)]
    assert all(len(each) < 83 for each in seen)
    lines = [
        (root / f"{name}.{side}").read_text().split("\n")[:-1]
        for name in ("train", "train-2")
        for side in ("src", "tgt")
    ]
    codec = TextCodec(Tokenizers.load(newest(out)))
    pairs = [*zip(lines[0], lines[1], strict=True), *zip(lines[2], lines[3], strict=True)]
    expected = Counter(json.dumps([list(s), list(t)]) for s, t in codec.encode_pairs(pairs))
    assert Counter(seen[0]) + Counter(seen[1]) == expected


def test_two_processes_train_on_a_stream_as_one_does(tmp_path):
    """Each encodes its share of every window, and goes on in the middle of one."""
    root = write_parts(tmp_path / "corpus")
    single, shared = tmp_path / "single", tmp_path / "shared"
    both = {"accumulate": 2}
    train(config(root, **both), RunOptions(single), Reporter(single, 9))
    for steps in (5, 9):  # the second start goes on

        def work(rank, steps=steps):
            train(config(root, **both, steps=steps), RunOptions(shared), Reporter(shared, 9))

        assert run_ranks(work, tmp_path) == ["", ""]
    for found, expected in zip(records(shared), records(single), strict=True):
        for name in ("step", "loss", "norm"):
            assert found[name] == pytest.approx(expected[name], rel=1e-5)
