"""Past and future learnt on a finished model, which stays what it was; and their runs resumed."""

import pytest
import torch

from toys import checkpoint_contents, records, toy_config, weights, write_corpus
from untold.errors import UntoldError
from untold.models.build import build_model
from untold.storage.model_directory import load_model
from untold.training.run import RunOptions, train
from untold.translator import load

GDR = {"kind": "gdr", "past": 1, "future": 2, "redundant": 1, "d_capsule": 3}
LEARNS = (
    "past_future.separator.",
    "past_future.coverage.",
    "past_future.heads.bow",
    "past_future.heads.lexicon",
    "past_future.scale",
)
FROZEN = {"freeze_backbone": True, "best_by": "loss", "steps": 6}
# All that draws random numbers: dropout, counterfactual spans, sampled steps.
AUXILIARY = {"bow_weight": 0.5, "bca_weight": 0.2, "counterfactual": 0.6, "bow_share": 0.5}


def at(run, step):
    return run / "checkpoints" / f"step-{step:08d}"


def sections(separator=None, **settings):
    model = {"preset": "tiny", "d_model": 8, "d_ffn": 12, "heads": 2}
    model |= {"encoder_layers": 1, "decoder_layers": 1, "separator": GDR | (separator or {})}
    return {"model": model, "train": settings}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A corpus and a model of twelve updates without past and future."""
    root = write_corpus(tmp_path_factory.mktemp("corpus"))
    out = tmp_path_factory.mktemp("plain")
    train(toy_config(root, train={"learning_rate": 0.05}), RunOptions(out))
    return root, at(out, 12)


def translations(path, root):
    texts = (root / "train.src").read_text().split("\n")[:8]
    translator = load(path).with_decoding(beam=3, nbest=2, min_length=3, max_length=7)
    return [
        (each.text, each.score, [other.text for other in each.alternatives])
        for each in translator.translate(texts)
    ]


@pytest.mark.parametrize(
    "separator", [{}, {"preset": "paper"}, {"kind": "clf"}, {"kind": "attn", "preset": "paper"}]
)
def test_what_translates_is_frozen_and_the_rest_learns(plain, start, tmp_path, separator):
    root, other = plain
    settings = FROZEN | {"counterfactual": 0.5}
    _, lines = start(tmp_path, root=root, init=other, **sections(separator, **settings))
    assert any(" new (past_future " in line for line in lines)
    found, before = weights(at(tmp_path, 6)), weights(other)
    assert set(before) < set(found)
    for name, tensor in before.items():
        assert torch.equal(found[name], tensor), name
    for name, tensor in found.items():
        if name.startswith("past_future.fusion.transform") and "inner" not in name:
            assert bool((tensor == 0).all()), f"{name} starts at zero and stays there"
    trained = load_model(tmp_path)
    first = initial_weights(trained.config, trained.tokenizers)
    for name in found.keys() - before.keys():
        assert torch.equal(found[name], first[name]) != name.startswith(LEARNS), name
    assert translations(at(tmp_path, 6), root) == translations(other, root)
    assert len({text for text, *_ in translations(other, root)}) > 2
    assert {"loss", "bow", "counterfactual"} <= records(tmp_path, "train")[0].keys()
    assert "nll" not in records(tmp_path, "train")[0]


def initial_weights(config, tokenizers):
    """Those that a run draws before anything is taken over or learnt."""
    torch.manual_seed(config.train.seed)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    return dict(build_model(config.model, sizes, shared=True).named_parameters())


def test_a_frozen_model_is_observed_as_it_translates(plain, start, tmp_path):
    """Without dropout: however much of it there is, the same is learnt."""
    root, other = plain
    runs = []
    for dropout in (0.0, 0.5):
        values = sections(**FROZEN | {"steps": 1})
        values["model"]["dropout"] = dropout
        start(tmp_path / str(dropout), root=root, init=other, data={"valid": None}, **values)
        runs.append(weights(at(tmp_path / str(dropout), 1)))
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])


def test_the_loss_of_a_frozen_model_s_validation_is_that_of_its_heads(plain, start, tmp_path):
    root, other = plain
    start(tmp_path, root=root, init=other, **sections(**FROZEN | {"steps": 10}))
    losses = [record["loss"] for record in records(tmp_path, "valid")]
    assert len(losses) == 2 and losses[1] < losses[0], "what it learns is what is measured"
    assert len({record["bleu"] for record in records(tmp_path, "valid")}) == 1


def test_a_frozen_run_needs_a_model_to_start_from(start, plain, tmp_path):
    with pytest.raises(UntoldError, match="name one with --init"):
        start(tmp_path, root=plain[0], **sections(**FROZEN))


def test_a_frozen_run_needs_something_that_learns(start, plain, tmp_path):
    root, other = plain
    with pytest.raises(UntoldError, match=r"set model\.separator\.kind to gdr, clf or attn"):
        start(tmp_path, root=root, init=other, train=FROZEN)


def test_the_best_of_a_frozen_run_is_not_chosen_by_its_translations(corpus):
    with pytest.raises(UntoldError, match='no translation changes: set best_by = "loss"'):
        toy_config(corpus, train={"freeze_backbone": True})


@pytest.mark.parametrize("frozen", [False, True])
def test_runs_with_past_and_future_are_resumed_bit_for_bit(plain, start, tmp_path, frozen):
    root, other = plain
    settings = AUXILIARY | (FROZEN if frozen else {}) | {"steps": 8, "auxiliary_start": 3}
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    start(whole, root=root, init=other, **sections(**settings))
    for stop in (2, 5):
        result, _ = start(pieces, root=root, init=other, stop_after=stop, **sections(**settings))
        # A signal stops a run after the next update, or at once if a validation is due.
        assert result.progress.step == {2: 3, 5: 5}[stop]
    start(pieces, root=root, **sections(**settings))
    assert checkpoint_contents(at(pieces, 8)) == checkpoint_contents(at(whole, 8))
    figures = [[(r["step"], r["loss"]) for r in records(run, "valid")] for run in (whole, pieces)]
    assert figures[0] == figures[1]


def test_the_comparison_sees_a_difference(plain, start, tmp_path):
    """The control: each of these settings has its part in an update."""
    root, other = plain
    runs = []
    for change in ({}, {"counterfactual": 0.1}, {"bow_share": 0.6}, {"bca_weight": 0.21}):
        out, settings = tmp_path / str(len(runs)), AUXILIARY | {"steps": 1} | change
        start(out, root=root, init=other, data={"valid": None}, **sections(**settings))
        runs.append(weights(at(out, 1)))
    for run in runs[1:]:
        assert not all(torch.equal(runs[0][name], run[name]) for name in run)
