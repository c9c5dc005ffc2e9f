"""What is read of given pairs: the same in any company, with every separator and backbone."""

import numpy as np
import pytest
import torch

from toys import RUN_SHAPES, SEPARATORS, separator, shape_of, toy_trained, write_corpus
from untold.checking.evidence import source_evidence, target_evidence
from untold.config import BACKBONES
from untold.decoding.scoring import PairReader, ReadPair
from untold.errors import UntoldError
from untold.translator import Translator

PAIRS = [
    ("abcd ef g hh gf", "g ef abcd"),
    ("a", "a"),
    ("hgfe ab", "ba efgh ab cd ab ab ab ab"),
    ("", "ab"),
    ("ab cd", ""),
    ("", ""),
    ("  ", " \u3000"),
    ("漢字仮名 ab", "ab漢字"),
    ("aαb 🙂 \u200b c", "\U000f0000 a"),
]
CASES = [("transformer", name, {}) for name in SEPARATORS]
CASES += [("transformer", name, {"lexicon": 0}) for name in SEPARATORS]
CASES += [
    ("transformer", "gdr-dot", {"coverage": False}),
    ("transformer", "gdr-dot", {"coverage": False, "lexicon": 0}),
    ("transformer", "gdr-dot", {"redundant": 0}),
    ("transformer", "gdr-dot", {"num_iterations": 1}),
]
CASES += [(name, "gdr-dot", {}) for name in BACKBONES.names if name != "transformer"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def make_reader(root, backbone="transformer", name="gdr-dot", batch_tokens=4096, **settings):
    shape = {"backbone": backbone, **shape_of(backbone, RUN_SHAPES)}
    model = shape | {"separator": separator(name, **settings)}
    return PairReader(toy_trained(root, model=model), batch_tokens)


def read(reader: PairReader, pairs: list, *more: object) -> list[ReadPair]:
    return reader.read(reader.encode(pairs), *more)


def arrays(found: ReadPair) -> dict[str, np.ndarray]:
    return {name: each for name, each in vars(found).items() if isinstance(each, np.ndarray)}


@pytest.mark.parametrize(
    ("backbone", "name", "settings"), CASES, ids=[" ".join(map(str, case)) for case in CASES]
)
def test_it_has_its_shapes_and_sums_in_any_company(root, backbone, name, settings) -> None:
    reader = make_reader(root, backbone, name, **settings)
    together = read(reader, PAIRS)
    for pair, found in zip(PAIRS, together, strict=True):
        i, t = len(found.source), len(found.target)
        shapes = {key: each.shape for key, each in arrays(found).items()}
        assert shapes == {
            "shares": (t + 1, i, 3),
            "links": (t, i),
            "origins": (t, i),
            "alone": (i,),
            "covered": (i,),
            "log_probabilities": (t + 1,),
        }
        if name != "attn":  # whose shares are attention: they sum to one over the source
            np.testing.assert_allclose(found.shares.sum(-1), 1, atol=1e-4)
        assert (found.links >= 0).all() and (found.links.sum(0) <= 1 + 1e-5).all()
        assert (found.origins >= 0).all() and (found.origins.sum(1) <= 1 + 1e-5).all()
        assert (found.log_probabilities < 0).all()
        assert np.isnan(found.covered).all() == (
            i == 0 or reader.trained.model.past_future.coverage is None
        )
        (alone,) = read(reader, [pair])
        assert (alone.source, alone.target) == (found.source, found.target)
        for key, each in arrays(alone).items():
            np.testing.assert_allclose(each, arrays(found)[key], atol=1e-5, err_msg=key)
        sides = (source_evidence, found.source_words), (target_evidence, found.target_words)
        for find, words in sides:
            evidence = find(found, words)
            assert len(evidence) == len(words) and np.isfinite(evidence).all()


def test_batches_of_any_size_give_the_same(root) -> None:
    one, many = make_reader(root, batch_tokens=1), make_reader(root, batch_tokens=30)
    heard: list[int] = []
    for small, large in zip(read(one, PAIRS), read(many, PAIRS, heard.append), strict=True):
        for key, each in arrays(small).items():
            np.testing.assert_allclose(each, arrays(large)[key], atol=1e-5, err_msg=key)
    assert sum(heard) == len(PAIRS) and len(heard) > 1
    assert one.read([]) == []


def test_what_is_read_is_what_the_translator_says(root) -> None:
    reader = make_reader(root)
    scored = Translator([reader.trained]).score(PAIRS[:3])
    for found, expected in zip(read(reader, PAIRS[:3]), scored, strict=True):
        assert found.source == expected.source_tokens and found.target == expected.tokens
        assert found.log_probabilities.sum() == pytest.approx(expected.log_probability, rel=1e-5)
        width = len(found.source)  # the translator's last column is the end of the source
        np.testing.assert_allclose(found.shares, expected.assignments[:, :width], atol=1e-5)


def test_without_a_lexicon_links_are_the_rises_of_past(root) -> None:
    (found,) = read(make_reader(root, lexicon=0), PAIRS[:1])
    rise = np.maximum(0, np.diff(found.shares[..., 0], axis=0))
    assert rise.sum() > 0
    np.testing.assert_allclose(found.links, rise / np.maximum(1, rise.sum(0)), atol=1e-6)
    expected = rise / np.maximum(1, rise.sum(1, keepdims=True))
    np.testing.assert_allclose(found.origins, expected, atol=1e-6)


def test_pairs_that_are_too_long_are_named(root) -> None:
    reader = make_reader(root, batch_tokens=1)
    most = reader.longest
    assert most == reader.trained.config.data.max_tokens + 1
    long = " ".join(["ab"] * most)
    assert [
        reader.fits(pair) for pair in reader.encode([("a", "b"), (long, "b"), ("a", long)])
    ] == [
        True,
        False,
        False,
    ]
    with pytest.raises(UntoldError, match=rf"pair 2 has a side of \d+ pieces, and at most {most}"):
        read(reader, [("a", "b"), ("a", long)])


def test_a_model_without_separator_is_refused_with_the_cure(root) -> None:
    with pytest.raises(UntoldError, match=r"train one with model\.separator\.kind"):
        PairReader(toy_trained(root))


def test_reading_draws_no_random_numbers(root) -> None:
    reader, before = make_reader(root), torch.get_rng_state()
    read(reader, PAIRS)
    assert torch.equal(before, torch.get_rng_state())
