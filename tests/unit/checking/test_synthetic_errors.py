"""Damage that untold makes itself, labelled by an oracle's links, and what is learnt from it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from toys import toy_trained
from untold.checking import synthetic_errors
from untold.checking.evidence import EXPECTED, judge_pair, source_evidence
from untold.checking.synthetic_errors import fit_calibration, make_damage
from untold.corpus.words import words
from untold.decoding.scoring import EncodedPair, PairReader, ReadPair
from untold.errors import UntoldError
from untold.storage.calibration import Calibration, probability

FULL_STOP = "."


def make_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Sentences in which no word occurs twice, and the same words backwards."""
    dice = random.Random(seed)
    vocabulary = sorted({"".join(dice.choices("abcdefgh", k=4)) for _ in range(90)})
    pairs = []
    for _ in range(count):
        words = dice.sample(vocabulary, dice.randint(2, 14))
        pairs.append((" ".join([*words, FULL_STOP]), " ".join([*words[::-1], FULL_STOP])))
    return pairs


PAIRS = make_pairs(50, 1)


class Oracle(PairReader):
    """Reads pairs without the network: a word is told if it stands on the other side, too."""

    reads = 0

    def read(
        self, pairs: Sequence[EncodedPair], on_progress: Callable[[int], object] | None = None
    ) -> list[ReadPair]:
        self.reads += len(pairs)
        if on_progress is not None:
            on_progress(len(pairs))
        return [self._told(pair) for pair in pairs]

    def read_texts(self, texts: Sequence[tuple[str, str]]) -> list[ReadPair]:
        return self.read(self.encode(texts))

    def _told(self, pair: EncodedPair) -> ReadPair:
        source = tuple(self.codec.tokenizers.source.pieces(pair.ids[0]))
        target = tuple(self.codec.tokenizers.target.pieces(pair.ids[1]))
        links = np.zeros((len(target), len(source)), np.float32)
        places = {word.read_as: word.pieces for word in words("", source)}
        for word in words("", target):
            if same := places.get(word.read_as):
                t, i = np.arange(len(target))[word.pieces], np.arange(len(source))[same]
                links[t, i] = 1.0
        past = np.concatenate([np.zeros((1, len(source))), links.cumsum(0)]).clip(max=1)
        shares = np.stack([past, 1 - past, 0 * past], axis=-1).astype(np.float32)
        chances = np.full(len(target) + 1, -0.5, np.float32)
        return ReadPair(
            source, target, shares, links, links.copy(), 1 - links.sum(0), past[-1], chances
        )


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    root = tmp_path_factory.mktemp("corpus")
    for side, name in enumerate(("src", "tgt")):
        lines = "".join(f"{pair[side]}\n" for pair in PAIRS)
        for part in ("train", "valid"):
            (root / f"{part}.{name}").write_text(lines)
    return Oracle(toy_trained(root, model={"separator": {"kind": "gdr"}}))


@pytest.mark.parametrize("side", ["source", "target"])
def test_labels_are_the_words_that_the_other_side_lacks(reader: Oracle, side: str) -> None:
    made = make_damage(reader, reader.read_texts(PAIRS), side, 1)
    assert len(made) > 40
    assert {each.kind for each in made} == {"word", "phrase", "clause", "end", "replaced"}
    for each in made:
        source, target = PAIRS[each.place]
        if side == "source":
            assert each.source == source and each.target != target
            labelled, other = each.source.split(), each.target.split()
        else:
            assert (each.target == target) == (each.kind != "replaced")
            labelled, other = each.target.split(), each.source.split()
        assert each.certain.all() and len(each.lacking) == len(labelled)
        assert each.lacking.tolist() == [word not in other for word in labelled]
        assert each.lacking.any() and labelled[-1] == other[-1] == FULL_STOP
        sizes = {"word": (1, 1), "replaced": (1, 1), "phrase": (2, 5), "clause": (6, 12)}
        least, most = sizes.get(each.kind, (1, len(labelled) // 2))
        assert least <= int(each.lacking.sum()) <= most


def test_a_word_of_divided_links_has_no_label(reader: Oracle) -> None:
    """Half of its links lead to words that stay."""
    (pair,) = reader.read_texts([("abcd efgh", "efgh abcd")])
    for side in ("source", "target"):
        divided = replace(pair, links=pair.links * 0.3, origins=pair.origins * 0.3)
        assert all(each.kind == "replaced" for each in make_damage(reader, [divided], side, 1))


def test_the_seed_gives_the_damage(reader: Oracle) -> None:
    pairs = reader.read_texts(PAIRS)

    def texts(seed: int) -> list[tuple[str, str]]:
        return [(m.source, m.target) for m in make_damage(reader, pairs, "source", seed)]

    assert texts(1) == texts(1) != texts(2)


def test_a_text_of_frequent_words_alone_can_still_be_damaged(reader: Oracle) -> None:
    """No word can be replaced or deleted alone; nothing is drawn from an empty pool."""
    pairs = reader.read_texts([("abcd efgh aaaa .", "aaaa efgh abcd .")] * 5)
    for side in ("source", "target"):
        kinds = {each.kind for each in make_damage(reader, pairs, side, 1)}
        assert kinds and kinds <= {"phrase", "end"}


@pytest.fixture(scope="module")
def calibration(reader: Oracle) -> Calibration:
    return fit_calibration(reader, PAIRS)


def test_what_was_learnt_finds_new_damage(reader: Oracle, calibration: Calibration) -> None:
    new = [("abcd efgh hgfe dcba .", "dcba efgh abcd ."), ("abcd efgh .", "hhhh efgh abcd .")]
    omission, addition = (judge_pair(each, calibration, 0.5) for each in reader.read_texts(new))
    found, whole = omission.omission
    assert [p > 0.5 for p in found] == [False, False, True, False, False] and whole > 0.5
    assert max(omission.addition[0]) < 0.5
    found, whole = addition.addition
    assert [p > 0.5 for p in found] == [True, False, False, False] and whole > 0.5
    assert max(addition.omission[0]) < 0.5
    assert calibration.error < 0.05 and calibration.segments == len(PAIRS)
    assert 0.3 < calibration.damaged <= 0.5


def test_what_is_expected_moves_all_probabilities_one_way(
    reader: Oracle, calibration: Calibration
) -> None:
    pairs = reader.read_texts(PAIRS[:5])
    for pair in pairs:
        judged = [judge_pair(pair, calibration, share) for share in (0.001, 0.1, 0.5, 0.9)]
        for side in ("omission", "addition"):
            rows = [getattr(each, side) for each in judged]
            for low, high in pairwise(rows):
                assert all(a < b for a, b in zip(low[0], high[0], strict=True))
                assert low[1] < high[1]
        assert judge_pair(pair, calibration) == judge_pair(pair, calibration, EXPECTED)


def test_the_expected_share_of_the_calibration_changes_nothing(
    reader: Oracle, calibration: Calibration
) -> None:
    (pair,) = reader.read_texts(PAIRS[:1])
    judged = judge_pair(pair, calibration, calibration.has_omission.prior)
    evidence = source_evidence(pair, pair.source_words)
    learnt = probability(calibration.omitted.log_odds(evidence, calibration.omitted.prior))
    assert judged.omission[0] == pytest.approx(learnt.tolist(), rel=1e-9)


def test_blank_sides_are_judged_without_words(reader: Oracle, calibration: Calibration) -> None:
    for pair in reader.read_texts([("", ""), ("", "abcd"), ("abcd", "")]):
        judged = judge_pair(pair, calibration)
        assert len(judged.omission[0]) == len(pair.source_words)
        assert len(judged.addition[0]) == len(pair.target_words)
        for probabilities, whole in (judged.omission, judged.addition):
            assert all(0 < each < 1 for each in (*probabilities, whole))


def test_each_pair_is_read_three_times_and_the_seed_gives_the_numbers(
    reader: Oracle, calibration: Calibration
) -> None:
    heard: list[int] = []
    before = reader.reads
    first = fit_calibration(reader, PAIRS, 3, heard.append)
    assert sum(heard) == reader.reads - before <= 3 * len(PAIRS)
    assert len(heard) == 3 and heard[0] == len(PAIRS)
    assert first != calibration, "which has another seed"
    assert first == fit_calibration(reader, PAIRS, 3)


def test_of_many_pairs_some_are_drawn(reader: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_errors, "MOST_PAIRS", 30)
    assert fit_calibration(reader, PAIRS).segments == 30


def test_blank_and_too_long_pairs_are_left_out(reader: Oracle) -> None:
    long = " ".join(["abcd"] * reader.longest)
    more = [*PAIRS, ("", "abcd"), ("abcd", " "), (long, "abcd"), ("abcd", long)]
    assert fit_calibration(reader, more).segments == len(PAIRS)


@pytest.mark.parametrize("pairs", [[], PAIRS[:15], [("abcd", "abcd")] * 50, [("", "")] * 50])
def test_too_little_text_is_an_error(reader: Oracle, pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(UntoldError, match=r"needs at least 20 segments .*, not \d+: give more"):
        fit_calibration(reader, pairs)
