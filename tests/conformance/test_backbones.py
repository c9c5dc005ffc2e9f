"""What every backbone must do. A new one joins by its entry in BACKBONES.

Axes: 3 sentences, 5 source positions, 7 target positions, 2 beams, 11 heads, 13 and 17 words.
"""

from dataclasses import replace

import pytest
import torch

from toys import fill, toy_batch, toy_config, toy_model, toy_tokenizers, words, write_corpus
from untold.config import DecodeConfig
from untold.corpus.batches import collate
from untold.corpus.vocabulary import BOS, EOS, PAD
from untold.decoding import Sentences, score_pairs, search
from untold.models.build import BACKBONES, build_model
from untold.models.files import TrainedModel, load_model, save_model

B, S, T, N, TARGET, SOURCE = 3, 5, 7, 2, 13, 17
VARIANTS = {
    "one vocabulary": {"vocabularies": (TARGET, TARGET), "shared": True},
    "two, untied": {"vocabularies": (SOURCE, TARGET), "shared": False, "tie_embeddings": False},
}
CASES = [(backbone, variant) for backbone in BACKBONES for variant in VARIANTS]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}, {case[1]}")
def model(request):
    backbone, variant = request.param
    return toy_model(backbone=backbone, **VARIANTS[variant])


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


def decode(model, source_ids, mask, prefix):
    return model.backbone.decode(model.encode(source_ids, mask), prefix, attention=True)


def walk(model, source, rows):
    """The prefixes (b, n, t) read token by token: states and weights (b, n, t, ...), and memory."""
    state, steps = model.start(source, rows.shape[1]), []
    for last in rows.unbind(2):
        decoded, state = model.backbone.step(source, last, state, attention=True)
        steps.append(decoded)
    states = torch.stack([step.states for step in steps], 2)
    return states, torch.stack([step.attention for step in steps], 2), state


def test_no_position_sees_what_follows_it(model, source_ids, mask, prefix):
    states = decode(model, source_ids, mask, prefix).states
    changed = prefix.clone()
    changed[:, 4:] = (prefix[:, 4:] - 4 + 1) % (TARGET - 4) + 4
    others = decode(model, source_ids, mask, changed).states
    close(others[:, :4], states[:, :4], 1e-6)
    assert (others[:, 4:] - states[:, 4:]).abs().amax(2).min() > 1e-3  # and each sees itself


def test_source_padding_changes_nothing_whatever_it_holds(model, source_ids, mask, prefix):
    wider = torch.cat([source_ids, words(B, 6, start=99)], dim=1)
    longer = torch.cat([mask, torch.zeros(B, 6, dtype=torch.bool)], dim=1)
    clean = decode(model, source_ids.masked_fill(~mask, PAD), mask, prefix)
    dirty = decode(model, wider, longer, prefix)
    close(dirty.states, clean.states)
    close(dirty.attention[..., :S], clean.attention)
    read, padded = model.encode(source_ids, mask).states, model.encode(wider, longer).states
    close(padded[:, :S][mask], read[mask])


def test_a_batch_gives_what_its_sentences_give_alone(model, source_ids, mask, prefix):
    together = decode(model, source_ids, mask, prefix)
    for row, (real, length) in enumerate(zip((5, 2, 4), (7, 3, 5), strict=True)):
        ids, all_real = source_ids[row : row + 1, :real], torch.ones(1, real, dtype=torch.bool)
        alone = decode(model, ids, all_real, prefix[row : row + 1, :length])
        close(together.states[row, :length], alone.states[0])
        close(together.attention[row, :length, :real], alone.attention[0])


def test_the_source_matters(model, source_ids, mask, prefix):
    other = source_ids.clone()
    other[:, 0] = (other[:, 0] - 4 + 1) % (TARGET - 4) + 4
    states = decode(model, source_ids, mask, prefix).states
    assert (decode(model, other, mask, prefix).states - states).abs().amax((1, 2)).min() > 1e-3


def test_step_by_step_is_all_at_once(model, source_ids, mask, prefix):
    decoded = decode(model, source_ids, mask, prefix)
    states, weights, _ = walk(model, model.encode(source_ids, mask), prefix[:, None])
    close(states[:, 0], decoded.states)
    close(weights[:, 0], decoded.attention)


def test_beams_are_queries_over_one_source(model, source_ids, mask, prefix):
    rows = torch.stack([prefix, words(B, T, start=77)], dim=1)
    states, weights, _ = walk(model, model.encode(source_ids, mask), rows)
    for beam in range(N):
        decoded = decode(model, source_ids, mask, rows[:, beam])
        close(states[:, beam], decoded.states)
        close(weights[:, beam], decoded.attention)


def test_select_reorders_repeats_and_drops_hypotheses(model, source_ids, mask, prefix):
    rows = torch.stack([prefix, words(B, T, start=77)], dim=1)
    source = model.encode(source_ids, mask)
    *_, state = walk(model, source, rows[:, :, :4])
    # Sentence 1 is done; sentences 2 and 0 go on with beams (1, 1, 0) and (0, 1, 0) of theirs.
    sentences, chosen = torch.tensor([2, 0]), torch.tensor([5, 5, 4, 0, 1, 0])
    last = words(2, 3, start=11)
    decoded, _ = model.backbone.step(
        source.select(sentences), last, state.select(chosen), attention=True
    )
    whole = torch.cat([rows[:, :, :4].flatten(0, 1)[chosen], last.view(-1, 1)], dim=1)
    owners = sentences.repeat_interleave(3)
    expected = decode(model, source_ids[owners], mask[owners], whole)
    close(decoded.states.flatten(0, 1), expected.states[:, -1])
    close(decoded.attention.flatten(0, 1), expected.attention[:, -1])


def test_selected_sources_decode_like_their_own(model, source_ids, mask, prefix):
    rows = torch.tensor([2, 0, 2, 1])
    selected = model.encode(source_ids, mask).select(rows)
    expected = decode(model, source_ids[rows], mask[rows], prefix[rows])
    decoded = model.backbone.decode(selected, prefix[rows], attention=True)
    close(decoded.states, expected.states)
    close(decoded.attention, expected.attention)
    assert torch.equal(selected.mask, mask[rows])


def test_memory_is_a_value(model, source_ids, mask, prefix):
    """Two steps from one state do not see each other, nor does anything in between matter."""
    source = model.encode(source_ids, mask)
    *_, state = walk(model, source, prefix[:, None, :3])
    once, _ = model.backbone.step(source, prefix[:, 3:4], state)
    model.backbone.step(source, prefix[:, 4:5], state)
    decode(model, source_ids.flip(0), mask, prefix)
    again, _ = model.backbone.step(source, prefix[:, 3:4], state)
    assert torch.equal(once.states, again.states)
    assert again.attention is None  # not asked for


def test_attention_sums_to_one_over_the_real_source(model, source_ids, mask, prefix):
    weights = decode(model, source_ids, mask, prefix).attention
    assert weights.shape == (B, T, S)
    assert weights.min() >= 0
    assert weights.masked_fill(mask[:, None], 0).max() == 0
    close(weights.sum(2), torch.ones(B, T))
    assert model.backbone.decode(model.encode(source_ids, mask), prefix).attention is None


def test_asking_for_attention_changes_no_state(model, source_ids, mask, prefix):
    source = model.encode(source_ids, mask)
    explained = model.backbone.decode(source, prefix, attention=True).states
    close(explained, model.backbone.decode(source, prefix).states)


def test_every_parameter_gets_a_gradient(model):
    batch = toy_batch([(4, 6), (1, 2), (3, 5)])
    outputs = model(batch.source, batch.source_mask, batch.prefix)
    logits = model.logits(outputs.holistic[batch.target_mask])
    torch.nn.functional.cross_entropy(logits, batch.labels[batch.target_mask]).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
        assert parameter.grad.abs().max() > 0, name


def test_padding_changes_no_gradient(model, source_ids, mask, prefix):
    gradients = []
    for padding in (6, 9):
        model.zero_grad()
        states = model(source_ids.masked_fill(~mask, padding), mask, prefix).states
        states.square().sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(gradients[1]) > 1
    for one, other in zip(*gradients, strict=True):
        close(one, other, 1e-4)


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


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("joint", [True, False])
def test_a_saved_model_is_the_same_to_the_last_bit(backbone, joint, tmp_path):
    root = write_corpus(tmp_path / "corpus")
    config = toy_config(root, model={"backbone": backbone}, tokenizer={"joint": joint})
    tokenizers = toy_tokenizers(root, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    model = fill(build_model(config.model, sizes, shared=joint)).eval()
    save_model(tmp_path / "model", TrainedModel(model, config, tokenizers))
    loaded = load_model(tmp_path / "model")
    assert loaded.config == config
    assert loaded.tokenizers.joint == joint
    assert not loaded.model.training
    batch = toy_batch([(4, 6), (1, 2)], size=30)
    logits = [
        m.logits(m(batch.source, batch.source_mask, batch.prefix).holistic)
        for m in (model, loaded.model)
    ]
    assert torch.equal(logits[0], logits[1])
    assert logits[0].numpy().tobytes() == logits[1].numpy().tobytes()


def test_a_beam_of_one_is_greedy_search(model, source_ids, mask):
    config = DecodeConfig(beam=1, max_length=9, length_penalty=0.0)
    found = search(model, Sentences(source_ids, mask), config)
    for row in range(B):
        tokens = [BOS]
        while len(tokens) < 10 and tokens[-1] != EOS:
            prefix = torch.tensor([tokens])
            outputs = model(source_ids[row : row + 1], mask[row : row + 1], prefix)
            logits = model.logits(outputs.holistic[0, -1])
            logits[[PAD, BOS]] = -torch.inf
            tokens.append(int(logits.argmax()))
        tokens[-1] = EOS  # by force at the limit
        assert found[row][0].tokens == tuple(tokens[1:-1])


def test_a_beam_s_scores_are_those_of_rescoring(model, source_ids, mask):
    config = DecodeConfig(beam=3, nbest=3, max_length=8, length_penalty=0.7)
    for row, hypotheses in enumerate(search(model, Sentences(source_ids, mask), config)):
        assert len(hypotheses) == 3
        source, real = source_ids[row : row + 1, mask[row]], int(mask[row].sum())
        batch = collate([((), hypothesis.tokens) for hypothesis in hypotheses], range(3))
        batch = replace(  # the source as the search had it: no EOS at its end
            batch, source=source.expand(3, -1), source_mask=torch.ones(3, real, dtype=torch.bool)
        )
        for found, scored in zip(hypotheses, score_pairs(model, batch, 0.7), strict=True):
            assert found.score == pytest.approx(scored.score, abs=1e-4)
            assert found.log_probability == pytest.approx(scored.log_probability, abs=1e-4)
