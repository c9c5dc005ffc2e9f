"""The conformance battery: rules that every backbone must keep, with every separator.

Every registered backbone is tested: also those that installed packages register.

Axes: 3 sentences, 5 source positions, 7 target positions, 2 beams, 11 heads, 13 and 17 words.
"""

from dataclasses import replace

import pytest
import torch

from toys import (
    BOS,
    EOS,
    PAD,
    SEPARATORS,
    all_scores,
    collate,
    compute_losses,
    fill,
    separator,
    toy_batch,
    toy_config,
    toy_model,
    toy_tokenizers,
    words,
    write_corpus,
)
from untold.config import BACKBONES, DecodeConfig, TrainConfig, model_config_class
from untold.corpus.tokenizer import SENTENCEPIECE_IDS
from untold.decoding.beam_search import search
from untold.decoding.hypotheses import Sentences
from untold.decoding.scoring import score_pairs
from untold.errors import UntoldError
from untold.models.build import build_model_for
from untold.models.seq2seq import CoveringState
from untold.storage.model_directory import TrainedModel, load_model, save_model

B, S, T, N, TARGET, SOURCE = 3, 5, 7, 2, 13, 17
VARIANTS = {
    "one vocabulary": {"vocabularies": (TARGET, TARGET), "shared": True},
    "two, untied": {"vocabularies": (SOURCE, TARGET), "shared": False, "tie_embeddings": False},
    "output bias": {"vocabularies": (TARGET, TARGET), "shared": True, "output_bias": True},
}
COVERED = {
    f"{kind} coverage": {**VARIANTS["one vocabulary"], "attention_coverage": kind}
    for kind in ("linguistic", "neural")
}
VARIANTS |= {f"{name}, copying": each | {"copying": True} for name, each in VARIANTS.items()}
KINDS = {name: ["none", "gdr-dot"] for name in VARIANTS}
KINDS["one vocabulary"] = ["none", *SEPARATORS]
# Hugging Face models have weights of their own, and most of these tests in test_huggingface.py.
OWN = [name for name in BACKBONES.names if name != "huggingface"]
CASES = [(backbone, v, kind) for backbone in OWN for v in VARIANTS for kind in KINDS[v]]
CASES += [("rnmt", variant, "none") for variant in COVERED] + [("pfrnn", "neural coverage", "clf")]
# Every backbone without and with past and future, and each other form of a model at least once.
FAST = [(name, "one vocabulary", kind) for name in OWN for kind in ("none", "gdr-said", "gdr-mlp")]
FAST += [
    ("transformer", "one vocabulary", "attn"),
    ("transformer", "two, untied", "gdr-dot"),
    ("transformer", "output bias, copying", "none"),
    ("rnmt", "one vocabulary", "clf"),
    ("rnmt", "two, untied, copying", "gdr-dot"),
    ("rnmt", "linguistic coverage", "none"),
    ("pfrnn", "output bias", "none"),
    ("pfrnn", "one vocabulary, copying", "gdr-dot"),
    ("pfrnn", "neural coverage", "clf"),
]

OVER_SOURCE = ("attention", "assignments", "copying")


@pytest.fixture(
    params=[
        pytest.param(case, id=", ".join(case), marks=[] if case in FAST else pytest.mark.slow)
        for case in CASES
    ]
)
def model(request):
    backbone, variant, kind = request.param
    settings = dict((VARIANTS | COVERED)[variant])
    if "tie_embeddings" not in model_config_class(backbone).model_fields:
        settings.pop("tie_embeddings", None)
    return toy_model(backbone=backbone, separator=separator(kind), **settings)


@pytest.fixture
def source_ids():
    return words(B, S)


@pytest.fixture
def mask():
    return torch.arange(S) < torch.tensor([[5], [2], [4]])


@pytest.fixture
def prefix():
    return torch.cat([torch.full((B, 1), BOS), words(B, T - 1, start=40)], dim=1)


@pytest.fixture(autouse=True)
def no_gradients(request):
    with torch.set_grad_enabled("gradient" in request.node.name):
        yield


def close(one, other, tolerance=1e-5):
    torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


def alike(name, one, other):
    """Closely in what the backbone gives; what is made of it magnifies the rounding of states."""
    close(one, other, 1e-5 if name in ("states", "attention") else 1e-4)


def decode(model, source_ids, mask, prefix):
    return model.decode(model.encode(source_ids, mask), prefix, attention=True)


def seen(model, outputs):
    """All that a forward pass tells, (b, t, ...); weights over the source have it on axis 2."""
    values = {"states": outputs.states, "logits": all_scores(model, outputs)}
    values["attention"] = outputs.attention
    if model.copy_layer is not None:
        values["copying"] = outputs.copying
    if model.past_future is not None:
        values["assignments"] = outputs.assignments
        values["capsules"] = outputs.separated.routed.capsules
    return values


def step(model, source, last, state):
    """All that a step tells, (b, n, ...), and the memory after it."""
    taken = model.step(source, last, state, attention=True)
    own = state.backbone if isinstance(state, CoveringState) else state
    decoded, _ = model.backbone.step(source, last, own, attention=True)
    values = {"states": decoded.states, "logits": taken.logits, "attention": taken.attention}
    if model.past_future is not None:
        values["assignments"] = taken.assignments
    if model.copy_layer is not None:
        values["copying"] = taken.copying
    assert torch.equal(decoded.attention, taken.attention)
    return values, taken.state


def walk(model, source, rows):
    """The prefixes (b, n, t) read token by token: all that was told (b, n, t, ...), and memory."""
    state, steps = model.start(source, rows.shape[1]), []
    for last in rows.unbind(2):
        told, state = step(model, source, last, state)
        steps.append(told)
    return {name: torch.stack([told[name] for told in steps], 2) for name in steps[0]}, state


def test_no_position_sees_what_follows_it(model, source_ids, mask, prefix):
    outputs = decode(model, source_ids, mask, prefix)
    changed = prefix.clone()
    changed[:, 4:] = (prefix[:, 4:] - 4 + 1) % (TARGET - 4) + 4
    others = decode(model, source_ids, mask, changed)
    for name, value in seen(model, others).items():
        alike(name, value[:, :4], seen(model, outputs)[name][:, :4])
        assert (value[:, 4:] - seen(model, outputs)[name][:, 4:]).abs().max() > 1e-3, name
    states = outputs.states
    close(others.states[:, :4], states[:, :4], 1e-6)
    assert (others.states[:, 4:] - states[:, 4:]).abs().amax(2).min() > 1e-3  # each sees itself


def test_source_padding_changes_nothing_whatever_it_holds(model, source_ids, mask, prefix):
    wider = torch.cat([source_ids, words(B, 6, start=99)], dim=1)
    longer = torch.cat([mask, torch.zeros(B, 6, dtype=torch.bool)], dim=1)
    clean = seen(model, decode(model, source_ids.masked_fill(~mask, PAD), mask, prefix))
    dirty = seen(model, decode(model, wider, longer, prefix))
    for name, value in dirty.items():
        over_source = name in OVER_SOURCE
        alike(name, value[:, :, :S] if over_source else value, clean[name])
    read, padded = model.encode(source_ids, mask).states, model.encode(wider, longer).states
    close(padded[:, :S][mask], read[mask])


def test_a_batch_gives_what_its_sentences_give_alone(model, source_ids, mask, prefix):
    together = seen(model, decode(model, source_ids, mask, prefix))
    for row, (real, length) in enumerate(zip((5, 2, 4), (7, 3, 5), strict=True)):
        ids, all_real = source_ids[row : row + 1, :real], torch.ones(1, real, dtype=torch.bool)
        alone = seen(model, decode(model, ids, all_real, prefix[row : row + 1, :length]))
        for name, value in together.items():
            over_source = name in OVER_SOURCE
            own = value[row, :length, :real] if over_source else value[row, :length]
            alike(name, own, alone[name][0])


def test_the_source_matters(model, source_ids, mask, prefix):
    other = source_ids.clone()
    other[:, 0] = (other[:, 0] - 4 + 1) % (TARGET - 4) + 4
    states = decode(model, source_ids, mask, prefix).states
    assert (decode(model, other, mask, prefix).states - states).abs().amax((1, 2)).min() > 1e-3


def test_step_by_step_is_all_at_once(model, source_ids, mask, prefix):
    expected = seen(model, decode(model, source_ids, mask, prefix))
    told, _ = walk(model, model.encode(source_ids, mask), prefix[:, None])
    for name, value in told.items():
        alike(name, value[:, 0], expected[name])


def test_beams_are_queries_over_one_source(model, source_ids, mask, prefix):
    rows = torch.stack([prefix, words(B, T, start=77)], dim=1)
    told, _ = walk(model, model.encode(source_ids, mask), rows)
    for beam in range(N):
        expected = seen(model, decode(model, source_ids, mask, rows[:, beam]))
        for name, value in told.items():
            alike(name, value[:, beam], expected[name])


def test_select_reorders_repeats_and_drops_hypotheses(model, source_ids, mask, prefix):
    rows = torch.stack([prefix, words(B, T, start=77)], dim=1)
    source = model.encode(source_ids, mask)
    _, state = walk(model, source, rows[:, :, :4])
    # Sentence 1 is done; sentences 2 and 0 go on with beams (1, 1, 0) and (0, 1, 0) of theirs.
    sentences, chosen = torch.tensor([2, 0]), torch.tensor([5, 5, 4, 0, 1, 0])
    last = words(2, 3, start=11)
    told, _ = step(model, source.select(sentences), last, state.select(chosen))
    whole = torch.cat([rows[:, :, :4].flatten(0, 1)[chosen], last.view(-1, 1)], dim=1)
    owners = sentences.repeat_interleave(3)
    expected = seen(model, decode(model, source_ids[owners], mask[owners], whole))
    for name, value in told.items():
        alike(name, value.flatten(0, 1), expected[name][:, -1])


def test_selected_sources_decode_like_their_own(model, source_ids, mask, prefix):
    rows = torch.tensor([2, 0, 2, 1])
    selected = model.encode(source_ids, mask).select(rows)
    expected = seen(model, decode(model, source_ids[rows], mask[rows], prefix[rows]))
    for name, value in seen(model, model.decode(selected, prefix[rows], attention=True)).items():
        alike(name, value, expected[name])
    assert torch.equal(selected.mask, mask[rows])


def test_memory_is_a_value(model, source_ids, mask, prefix):
    """Two steps from one state do not see each other, nor does anything in between matter."""
    source = model.encode(source_ids, mask)
    _, state = walk(model, source, prefix[:, None, :3])
    once, _ = step(model, source, prefix[:, 3:4], state)
    step(model, source, prefix[:, 4:5], state)
    decode(model, source_ids.flip(0), mask, prefix)
    again, _ = step(model, source, prefix[:, 3:4], state)
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert model.step(source, prefix[:, 3:4], state).attention is None  # not asked for


def test_attention_sums_to_one_over_the_real_source(model, source_ids, mask, prefix):
    weights = decode(model, source_ids, mask, prefix).attention
    assert weights.shape == (B, T, S)
    assert weights.min() >= 0
    assert weights.masked_fill(mask[:, None], 0).max() == 0
    close(weights.sum(2), torch.ones(B, T))
    assert model.decode(model.encode(source_ids, mask), prefix).attention is None


def test_assignments_are_shares_of_the_real_words(model, source_ids, mask, prefix):
    """They sum to one for each word; with attention for each category, and none is redundant."""
    shares = decode(model, source_ids, mask, prefix).assignments
    if model.past_future is None:
        assert shares is None
        return
    assert shares.shape == (B, T, S, 3)
    assert shares.min() >= 0
    real = mask[:, None].expand(B, T, S)
    assert bool((shares[~real] == 0).all())
    if model.past_future.counts[2]:
        close(shares[real].sum(-1), torch.ones(int(real.sum())))
    else:
        close(shares.sum(2), torch.tensor([1.0, 1.0, 0.0]).expand(B, T, 3))


def test_copying_is_of_real_words_that_the_target_has(model, source_ids, mask, prefix):
    """Copying and generating share one probability distribution."""
    outputs = decode(model, source_ids, mask, prefix)
    if model.copy_layer is None:
        assert outputs.copying is None
        return
    assert outputs.copying.shape == (B, T, S)
    known = mask & (model.copy_layer.counterparts[source_ids] != PAD)
    assert bool(((outputs.copying > 0) == known[:, None]).all())
    close(outputs.copying.sum(2) + outputs.copied.generating.exp(), torch.ones(B, T))
    close(all_scores(model, outputs).exp().sum(2), torch.ones(B, T))


def test_asking_for_attention_changes_no_state(model, source_ids, mask, prefix):
    source = model.encode(source_ids, mask)
    explained = seen(model, model.decode(source, prefix, attention=True))
    for name, value in seen(model, model.decode(source, prefix)).items():
        if name != "attention":
            alike(name, explained[name], value)


def test_every_parameter_gets_a_gradient(model):
    batch = toy_batch([(4, 6), (1, 2), (3, 5)])
    outputs = model(batch.source, batch.source_mask, batch.prefix)
    logits = all_scores(model, outputs)[batch.target_mask]
    torch.nn.functional.cross_entropy(logits, batch.labels[batch.target_mask]).backward()
    check_gradients(model, without=".heads.")
    model.zero_grad()
    config = {"bow_weight": 0.5, "bca_weight": 0.5, "counterfactual": 1.0}
    compute_losses(model, batch, TrainConfig.model_validate(config), 1).total.backward()
    check_gradients(model)


def check_gradients(model, without="no such"):
    for name, parameter in model.named_parameters():
        if without in name:
            assert parameter.grad is None, f"{name} is for the auxiliary losses alone"
            continue
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
        assert parameter.grad.abs().max() > 0, name


def test_padding_changes_no_gradient(model, source_ids, mask, prefix):
    gradients = []
    for padding in (6, 9):
        model.zero_grad()
        outputs = model(source_ids.masked_fill(~mask, padding), mask, prefix)
        told = seen(model, outputs)
        sum(told[name].square().sum() for name in told if name != "attention").backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(gradients[1]) > 1
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_evaluation_draws_no_random_numbers_and_training_does(model, source_ids, mask, prefix):
    before = torch.get_rng_state()
    once = decode(model, source_ids, mask, prefix).states
    assert torch.equal(once, decode(model, source_ids, mask, prefix).states)
    assert torch.equal(before, torch.get_rng_state())
    model.train()
    torch.manual_seed(1)
    dropped = decode(model, source_ids, mask, prefix).states
    assert not torch.allclose(dropped, once)
    torch.manual_seed(1)
    assert torch.equal(dropped, decode(model, source_ids, mask, prefix).states)


@pytest.mark.parametrize("backbone", OWN)
@pytest.mark.parametrize(
    ("joint", "kind", "copying"),
    [
        (False, "none", False),
        (False, "none", True),
        (True, "gdr-dot", True),
        *((True, kind, False) for kind in ("none", *SEPARATORS)),
    ],
)
def test_a_saved_model_is_the_same_to_the_last_bit(backbone, joint, kind, copying, tmp_path):
    root = write_corpus(tmp_path / "corpus")
    settings = {"backbone": backbone, "separator": separator(kind), "copying": copying}
    config = toy_config(root, model=settings, tokenizer={"joint": joint})
    tokenizers = toy_tokenizers(root, config)
    model = fill(build_model_for(tokenizers, config.model)).eval()
    save_model(tmp_path / "model", TrainedModel(model, config, tokenizers))
    loaded = load_model(tmp_path / "model")
    assert loaded.config == config
    assert loaded.tokenizers.joint == joint
    assert not loaded.model.training
    batch = toy_batch([(4, 6), (1, 2)], size=30)
    before, after = (
        seen(m, m(batch.source, batch.source_mask, batch.prefix, attention=True))
        for m in (model, loaded.model)
    )
    for name, value in before.items():
        assert torch.equal(value, after[name])
        assert value.contiguous().numpy().tobytes() == after[name].contiguous().numpy().tobytes()
    heads = dict(model.named_parameters())  # also what no translation shows
    assert all(torch.equal(heads[name], p) for name, p in loaded.model.named_parameters())


def test_a_beam_of_one_is_greedy_search(model, source_ids, mask):
    config = DecodeConfig(beam=1, max_length=9, length_penalty=0.0)
    found = search(model, Sentences(source_ids, mask, SENTENCEPIECE_IDS), config)
    for row in range(B):
        tokens = [BOS]
        while len(tokens) < 10 and tokens[-1] != EOS:
            prefix = torch.tensor([tokens])
            outputs = model(source_ids[row : row + 1], mask[row : row + 1], prefix)
            logits = all_scores(model, outputs)[0, -1]
            logits[list(SENTENCEPIECE_IDS.forbidden)] = -torch.inf
            tokens.append(int(logits.argmax()))
        tokens[-1] = EOS  # by force at the limit
        assert found[row][0].tokens == tuple(tokens[1:-1])


def test_a_beam_s_scores_are_those_of_rescoring(model, source_ids, mask):
    config = DecodeConfig(beam=3, nbest=3, max_length=8, length_penalty=0.7)
    found_all = search(model, Sentences(source_ids, mask, SENTENCEPIECE_IDS), config, OVER_SOURCE)
    for row, hypotheses in enumerate(found_all):
        assert len(hypotheses) == 3
        source, real = source_ids[row : row + 1, mask[row]], int(mask[row].sum())
        batch = collate([((), hypothesis.tokens) for hypothesis in hypotheses], range(3))
        everything = torch.ones(3, real, dtype=torch.bool)
        batch = replace(  # the source as the search had it: no EOS at its end
            batch, source=source.expand(3, -1), source_mask=everything, source_words=everything
        )
        rescored = score_pairs(model, batch, 0.7, attention=True)
        for found, scored in zip(hypotheses, rescored, strict=True):
            assert found.score == pytest.approx(scored.score, abs=1e-4)
            assert found.log_probability == pytest.approx(scored.log_probability, abs=1e-4)
            alike("attention", found.attention, scored.attention)
            if model.copy_layer is None:
                assert found.copying is None and scored.copying is None
            else:
                assert found.copying.shape == (len(found.tokens) + 1, real)
                alike("copying", found.copying, scored.copying)
            if model.past_future is None:
                assert found.assignments is None and scored.assignments is None
                continue
            assert found.assignments.shape == (len(found.tokens) + 1, real, 3)
            alike("assignments", found.assignments, scored.assignments)


def test_what_is_not_asked_for_is_not_shown(model, source_ids, mask):
    config = DecodeConfig(beam=2, max_length=4)
    ((hypothesis, *_), *_) = search(model, Sentences(source_ids, mask, SENTENCEPIECE_IDS), config)
    shown = (hypothesis.attention, hypothesis.assignments, hypothesis.copying)
    assert shown == (None, None, None)


@pytest.mark.parametrize("kind", ["attention", "past"])
def test_the_coverage_penalty_is_that_of_what_was_shown(model, source_ids, mask, kind):
    """Step by step through a beam, it comes to what the whole translation shows afterwards."""
    # So short that no translation looks at all words of the longest source.
    settings = {"beam": 3, "nbest": 3, "max_length": 2, "length_penalty": 0.7}
    config = DecodeConfig(**settings, coverage_penalty=0.9, coverage_source=kind)
    if kind == "past" and model.past_future is None:
        with pytest.raises(UntoldError, match="needs a model that separates past and future"):
            search(model, Sentences(source_ids, mask, SENTENCEPIECE_IDS), config)
        return
    sentences, penalties = Sentences(source_ids, mask, SENTENCEPIECE_IDS), []
    found = search(model, sentences, config, OVER_SOURCE)
    for row, hypotheses in enumerate(found):
        words = source_ids[row, mask[row]] != EOS
        for each in hypotheses:
            past = None if each.assignments is None else 1 - each.assignments[-1, :, 1]
            covered = each.attention.sum(0) if kind == "attention" else past
            penalty = 0.9 * float(covered.clamp(1e-6, 1.0).log()[words].sum())
            plain = each.log_probability / ((5 + len(each.tokens) + 1) / 6) ** 0.7
            assert each.score == pytest.approx(plain + penalty, abs=1e-4)
            penalties.append(penalty)
    assert min(penalties) < -1e-2
