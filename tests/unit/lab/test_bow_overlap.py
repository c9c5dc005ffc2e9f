"""What the bags know: hit rates by hand, and the whole measure against a slow loop."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toys import EOS, collate, fill, toy_config, toy_tokenizers, write_corpus
from untold.corpus.batching import Batch, TextCodec
from untold.errors import UntoldError
from untold.lab import analysis as module
from untold.lab.analysis import Overlap, hit_rate, measure_overlap
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel

PAIRS = [
    ("abcd ef g", "g ef abcd"),
    ("hgfe", "hgfe hh"),
    ("a", "a a a a"),
    ("bb c", ""),  # nothing was said before its end: not measured
    ("abab cdcd efgh", "hgfe dcdc baba"),
]


def make(root: Path, kind: str, **sections: Mapping[str, Any]) -> TrainedModel:
    base = toy_config(root)
    sections = {"tokenizer": {"size": 120}} | sections
    sections["model"] = base.model.model_dump() | {"separator": {"kind": kind}}
    sections["data"] = base.data.model_dump() | dict(sections.get("data", {}))
    config = toy_config(root, **sections)
    tokenizers = toy_tokenizers(root, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    model = fill(build_model(config.model, sizes, shared=tokenizers.joint)).eval()
    return TrainedModel(model, config, tokenizers)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"), pairs=300)


@pytest.fixture(scope="module")
def trained(root: Path) -> TrainedModel:
    return make(root, "gdr")


@pytest.mark.parametrize(
    ("best", "bag", "expected"),
    [
        # Types in the order of their scores, from the best; of one word the best five count.
        ([7, 3, 9, 0, 4, 8], [4], 1.0),
        ([7, 3, 9, 0, 4, 8], [8], 0.0),
        ([7, 3, 9, 0, 4, 8], [8, 8], 1.0),  # said twice: ten places, of one type
        ([7, 3, 9, 0, 4, 8, 1, 2, 5, 6, 11, 10], [7, 10], 0.5),
        ([7, 3, 9, 0, 4, 8, 1, 2, 5, 6, 11, 10], [7, 7, 7], 1.0),
        ([7, 3, 9, 0, 4, 8, 1, 2, 5, 6, 11, 10], [10, 11, 7], 1.0),  # more places than types
        ([11, 3, 9, 0, 4, 8, 1, 2, 5, 6, 7, 10], [7, 10], 0.0),
    ],
)
def test_hit_rates_by_hand(best: list[int], bag: list[int], expected: float) -> None:
    scores = torch.full((12,), -9.0)
    scores[best] = -torch.arange(len(best)).float()
    assert hit_rate(scores, torch.tensor(bag)) == expected


@given(st.permutations(range(23)), st.lists(st.integers(0, 22), min_size=1, max_size=6))
def test_a_hit_rate_is_a_share_of_types(order: list[int], bag: list[int]) -> None:
    scores = torch.tensor(order, dtype=torch.float32)
    best = sorted(range(23), key=lambda word: -order[word])[: 5 * len(bag)]
    expected = sum(word in best for word in set(bag)) / len(set(bag))
    assert hit_rate(scores, torch.tensor(bag)) == pytest.approx(expected)


def slow_overlap(trained: TrainedModel, pairs: list[tuple[str, str]]) -> list[float]:
    """Sentence by sentence, head by head, step by step, with sets."""
    model, tokenizers = trained.model, trained.tokenizers
    figures: list[list[float]] = []
    for source, target in pairs:
        ids = tokenizers.source.encode([source])[0], tokenizers.target.encode([target])[0]
        batch = collate([ids], [0])
        with torch.no_grad():
            separated = model(batch.source, batch.source_mask, batch.prefix).separated
        said = [*ids[1], EOS]
        heads = model.past_future.heads
        rates: list[list[float]] = []
        for capsules, head, bags in (
            (separated.past, heads.bow_past, [said[:t] for t in range(len(said))]),
            (separated.future, heads.bow_future, [said[t:] for t in range(len(said))]),
        ):
            found = []
            for t, bag in enumerate(bags):
                logits = model.output_embedding() @ (head.weight @ capsules[0, t])
                top = logits.argsort(descending=True)[: 5 * len(bag)].tolist()
                if bag:
                    found.append(len(set(bag) & set(top)) / len(set(bag)))
            rates.append(found)
        if rates[0]:
            figures.append([sum(rate) / len(rate) for rate in rates])
    return [sum(column) / len(column) for column in zip(*figures, strict=True)]


@pytest.mark.parametrize("batch_tokens", [1, 19, 2048])
def test_the_heads_are_measured_as_a_slow_loop_does(
    trained: TrainedModel, batch_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BATCH_TOKENS", batch_tokens)
    assert len(trained.tokenizers.target) > 60, "or a few words would have all types in their top"
    found = measure_overlap(trained, PAIRS)
    assert [found.past, found.future] == pytest.approx(slow_overlap(trained, PAIRS))
    assert 0 < found.past < 1 and 0 < found.future < 1


def test_the_most_frequent_types_by_hand(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One place for each word of a bag; "a" is said 5 times, the end 3, "b" 2 and "c" 1."""
    monkeypatch.setattr(module, "_DEPTH", 1)
    found = measure_overlap(
        make(root, "gdr", tokenizer={"kind": "word", "size": 400}),
        [("a", "a a b a"), ("b", "a b c"), ("c", "a")],
    )
    # a, a a, a a b, a a b a: all. a, a b, a b c: all, a, a and b. a: all.
    past = [1, (1 + 1 / 2 + 2 / 3) / 3, 1]
    # a a b a end, a b a end, b a end, a end: all. a b c end, b c end, c end: all, two, the end.
    # a end: all. The end alone: never.
    future = [4 / 5, (1 + 2 / 3 + 1 / 2) / 4, 1 / 2]
    assert found.past_by_frequency == pytest.approx(sum(past) / 3)
    assert found.future_by_frequency == pytest.approx(sum(future) / 3)


def test_text_is_lower_cased_as_in_training(root: Path) -> None:
    trained = make(root, "gdr", data={"lowercase": True})
    upper = [(source.upper(), target.upper()) for source, target in PAIRS]
    assert measure_overlap(trained, upper) == measure_overlap(trained, PAIRS)


def test_frequencies_ask_neither_the_model_nor_the_source(root: Path) -> None:
    one, other = make(root, "gdr"), make(root, "clf")
    found = measure_overlap(one, PAIRS)
    moved = measure_overlap(other, [("gh", target) for _, target in PAIRS])
    assert found.past_by_frequency == moved.past_by_frequency > 0
    assert found.future_by_frequency == moved.future_by_frequency > 0
    assert found.past != moved.past


def test_sentences_without_a_past_are_not_measured(trained: TrainedModel) -> None:
    some = [pair for pair in PAIRS if pair[1]]
    found, without = measure_overlap(trained, PAIRS), measure_overlap(trained, some)
    assert [found.past, found.future] == pytest.approx([without.past, without.future])
    assert measure_overlap(trained, [("a", "")]) == Overlap(0.0, 0.0, 0.0, 0.0)


def test_batches_go_to_the_device_of_the_model(
    trained: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, device, make_batch = [], next(trained.model.parameters()).device, TextCodec.batch

    def noted(codec: TextCodec, *given: Any) -> Batch:
        seen.append(codec.device)
        return make_batch(codec, *given)

    monkeypatch.setattr(TextCodec, "batch", noted)
    measure_overlap(trained, PAIRS)
    assert seen and set(seen) == {device}


def test_a_model_without_past_and_future_says_so(root: Path) -> None:
    with pytest.raises(UntoldError, match="past and future bags, which this model has not"):
        measure_overlap(make(root, "none"), PAIRS)
