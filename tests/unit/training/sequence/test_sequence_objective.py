"""The goal: value and gradients sample by sample, its sums, its judges, what it leaves alone."""

from dataclasses import replace

import pytest
import torch

from toys import collate, compute_losses, fill, separator, toy_config, toy_tokenizers
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel
from untold.training.sequence.objective import SequenceObjective
from untold.training.sequence.samples import draw_greedy, draw_samples

KINDS = {
    "mean": {"kind": "reinforce"},
    "none": {"kind": "reinforce", "baseline": "none"},
    "self_critical": {"kind": "reinforce", "baseline": "self_critical"},
    "mrt": {"kind": "mrt", "reference": True, "alpha": 0.3},
    "actor_critic": {"kind": "actor_critic"},
    "discriminator": {"kind": "reinforce", "discriminator": True},
}
TEXTS = [("ab cd", "cd ab"), ("abc", "a"), ("b c d e", "e d c b a")]
MODEL = {"preset": "tiny", "d_model": 8, "d_ffn": 12, "heads": 2}
MODEL |= {"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}


@pytest.fixture
def setting(corpus):
    """setting("mrt", mix=0.3) -> (trained, goal, batch)."""

    def setting(name, *, model=MODEL, train=(), **changes):
        sequence = {"samples": 3, "mix": 0.4, "reward": "chrf"} | KINDS[name] | changes
        config = toy_config(corpus, model=model, train=dict(train) | {"sequence": sequence})
        tokenizers = toy_tokenizers(corpus, config)
        sizes = (len(tokenizers.source), len(tokenizers.target))
        network = fill(build_model(config.model, sizes, shared=True)).train()
        trained = TrainedModel(network, config, tokenizers)
        goal = SequenceObjective(trained)
        fill(goal.judges)
        ids = [tokenizers.source.encode([text for text, _ in TEXTS])]
        ids.append(tokenizers.target.encode([text for _, text in TEXTS]))
        return trained, goal, collate(list(zip(*ids, strict=True)), range(3))

    return setting


def run(trained, goal, batch, step=1, seed=3):
    torch.manual_seed(seed)
    return goal(batch, step)


def gradients(trained, loss):
    parameters = dict(trained.model.named_parameters())
    found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    return {n: g for n, g in zip(parameters, found, strict=True) if g is not None}


def plain_tries(trained, goal, batch, seed=3):
    """For each sentence, of each sample alone: log-probabilities of tokens, reward, states."""
    torch.manual_seed(seed)
    samples = draw_samples(trained.model, batch, goal.config.sequence, goal.grader.longest)
    found = [[] for _ in TEXTS]
    for n, (row, tokens) in enumerate(zip(samples.rows.tolist(), samples.tokens, strict=True)):
        log_p, *rest = plain_try(trained, goal, batch, row, samples.labels[n], tokens)
        if (
            goal.config.sequence.kind != "mrt"
        ):  # an EOS at the length limit was not the model's choice
            log_p = log_p * samples.chosen[n, : len(log_p)]
        found[row].append((log_p, *rest))
    return found


def plain_try(trained, goal, batch, row, labels, tokens):
    size = len(tokens) + 1
    labels = labels[:size]
    source = batch.source[row : row + 1, batch.source_mask[row]]
    prefix = torch.cat([torch.tensor([2]), labels[:-1]])[None]
    outputs = trained.model(source, torch.ones_like(source, dtype=torch.bool), prefix)
    steps = torch.arange(size)
    scores = trained.model.scores(outputs, torch.zeros_like(steps), steps)
    log_p = scores.log_softmax(-1)[steps, labels]
    text = trained.tokenizers.target.decode(tokens)
    (reward,) = goal.reward_of([TEXTS[row][0]], [TEXTS[row][1]], [text])
    return log_p, reward, outputs.states


def plain_loss(name, trained, goal, batch):
    """The estimator's formula, in loops."""
    total = torch.zeros(())
    greedy = draw_greedy(trained.model, batch, goal.grader.longest).tokens
    for row, tries in enumerate(plain_tries(trained, goal, batch)):
        log_ps = [log_p.sum() for log_p, *_ in tries]
        rewards = [reward for _, reward, _ in tries]
        k = len(tries)
        if name == "mrt":
            powers = torch.stack([0.3 * each for each in log_ps]).softmax(0)
            total = total + sum(q * (1 - r) for q, r in zip(powers, rewards, strict=True))
            continue
        for log_p, reward, states in tries:
            if name == "actor_critic":
                advantage = reward - goal.judges["critic"](states)[0].detach()
            elif name == "mean":
                advantage = reward - (sum(rewards) - reward) / (k - 1)
            elif name == "self_critical":
                text = trained.tokenizers.target.decode(greedy[row])
                advantage = reward - goal.reward_of([""], [TEXTS[row][1]], [text])[0]
            else:
                advantage = reward
            total = total - (advantage * log_p).sum() / k
    return total


@pytest.mark.parametrize("more", [{}, {"copying": True}, {"output_bias": True}], ids=str)
@pytest.mark.parametrize("name", [name for name in KINDS if name != "discriminator"])
def test_value_and_gradients_are_those_of_one_sample_at_a_time(setting, name, more):
    trained, goal, batch = setting(name, model=MODEL | more)
    goal.reward_of = goal.grader.reward
    losses = run(trained, goal, batch)
    expected = plain_loss(name, trained, goal, batch)
    torch.testing.assert_close(losses.parts["sequence"], expected.detach(), rtol=1e-5, atol=1e-5)
    plain = compute_losses(trained.model, batch, trained.config.train, 1)
    whole = 0.6 * plain.total + 0.4 * expected
    torch.testing.assert_close(losses.parts["loss"], whole.detach(), rtol=1e-5, atol=1e-5)
    found, wanted = gradients(trained, losses.total), gradients(trained, whole)
    assert found.keys() == wanted.keys()
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[key], rtol=1e-4, atol=1e-5)
    alone = gradients(trained, compute_losses(trained.model, batch, trained.config.train, 1).total)
    assert any(not torch.allclose(alone[key], found[key], rtol=1e-2) for key in found)


def rows(batch, row):
    """One sentence of a batch, without its padding."""
    source, target = batch.source_mask[row], batch.target_mask[row]
    return replace(
        batch,
        source=batch.source[row : row + 1, source],
        source_mask=batch.source_mask[row : row + 1, source],
        source_words=batch.source_words[row : row + 1, source],
        prefix=batch.prefix[row : row + 1, target],
        labels=batch.labels[row : row + 1, target],
        target_mask=batch.target_mask[row : row + 1, target],
        indices=batch.indices[row : row + 1],
    )


@pytest.mark.parametrize("name", KINDS)
def test_the_goal_of_a_batch_is_the_sum_of_its_sentences(setting, name):
    """So that neither accumulation nor the number of processes changes it."""
    trained, goal, batch = setting(name)
    whole = run(trained, goal, batch)
    alone = [run(trained, goal, rows(batch, row)) for row in range(3)]
    assert whole.parts.keys() == set(goal.names)
    for key, value in whole.parts.items():
        torch.testing.assert_close(value, sum(each.parts[key] for each in alone))
    torch.testing.assert_close(whole.total, sum(each.total for each in alone))


def test_some_of_these_samples_end_by_themselves_and_some_at_the_limit(setting):
    trained, goal, batch = setting("mean")
    torch.manual_seed(3)
    samples = draw_samples(trained.model, batch, goal.config.sequence, goal.grader.longest)
    by_itself = (samples.chosen == samples.mask).all(1)
    assert bool(by_itself.any()) and not bool(by_itself.all())


def test_the_reward_that_is_shown_is_a_mean_per_target_token(setting):
    trained, goal, batch = setting("mean")
    goal.reward_of = goal.grader.reward
    expected = 0.0
    for row, tries in enumerate(plain_tries(trained, goal, batch)):
        mean = sum(reward for _, reward, _ in tries) / len(tries)
        expected += mean * int(batch.target_mask[row].sum())
    assert float(run(trained, goal, batch).parts["reward"]) == pytest.approx(expected)


def test_labels_of_samples_are_not_smoothed(setting):
    sharp, smooth = (setting("mean", train={"label_smoothing": s}) for s in (0.0, 0.3))
    one, other = run(*sharp), run(*smooth)
    assert torch.equal(one.parts["sequence"], other.parts["sequence"])
    assert not torch.equal(one.total, other.total)


def test_a_source_is_read_once_with_gradients_and_once_to_search(setting, monkeypatch):
    trained, goal, batch = setting("mean")
    encode, seen = trained.model.encode, []

    def count(ids, mask):
        seen.append((torch.is_grad_enabled(), trained.model.training))
        return encode(ids, mask)

    monkeypatch.setattr(trained.model, "encode", count)
    run(trained, goal, batch)
    assert seen == [(True, True), (False, False)]


def test_what_the_reference_teaches_does_not_hang_on_the_samples(setting):
    """With dropout on: its numbers are drawn first."""
    model = MODEL | {"dropout": 0.4}
    trained, goal, batch = setting("mean", model=model)
    losses = run(trained, goal, batch)
    torch.manual_seed(3)
    plain = compute_losses(trained.model, batch, trained.config.train, 1)
    assert torch.equal(losses.parts["nll"], plain.parts["nll"])


@pytest.mark.parametrize(("name", "judge"), [("actor_critic", "critic"), ("discriminator",) * 2])
def test_judge_and_model_learn_from_their_own_losses(setting, name, judge):
    trained, goal, batch = setting(name)
    losses = run(trained, goal, batch)
    own = list(goal.judges.parameters())
    assert own and list(goal.judges) == [judge]
    torch.testing.assert_close(losses.total, losses.parts["loss"] + losses.parts[judge])
    assert all(g is not None for g in torch.autograd.grad(losses.total, own, retain_graph=True))
    before = gradients(trained, losses.total)
    fixed = {name: p.detach().clone() for name, p in goal.judges.named_parameters()}
    fill(goal.judges, 0.7)
    assert any(not torch.equal(p, fixed[n]) for n, p in goal.judges.named_parameters())
    after = gradients(trained, run(trained, goal, batch).total)
    assert any(not torch.equal(before[key], after[key]) for key in before), "it is what it hears"


def test_the_model_hears_the_discriminator_and_it_hears_the_reward(setting):
    trained, goal, batch = setting("discriminator")
    first = run(trained, goal, batch)
    goal.grader.reward = lambda sources, references, texts: [0.5] * len(texts)
    second = run(trained, goal, batch)
    assert torch.equal(first.parts["sequence"], second.parts["sequence"])
    assert not torch.equal(first.parts["discriminator"], second.parts["discriminator"])
    assert not torch.equal(first.parts["reward"], second.parts["reward"])


def test_while_the_discriminator_warms_up_the_model_learns_from_the_reference(setting):
    trained, goal, batch = setting("discriminator", discriminator_warmup=2)
    plain = compute_losses(trained.model, batch, trained.config.train, 1)
    for step in (1, 2):
        losses = run(trained, goal, batch, step)
        assert torch.equal(losses.parts["loss"], plain.total.detach())
        assert "sequence" not in losses.parts and float(losses.parts["discriminator"]) > 0
    assert "sequence" in run(trained, goal, batch, 3).parts


def test_judges_start_the_same_for_the_same_seed_and_disturb_nobody_s_draws(setting):
    trained, *_ = setting("discriminator")
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    one = SequenceObjective(trained).judges
    assert torch.equal(torch.rand(1), expected)
    other = SequenceObjective(trained).judges
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_model_with_past_and_future_learns_from_samples_too(setting):
    model, every = MODEL | {"separator": separator("gdr-dot")}, {"counterfactual": 1.0}
    trained, goal, batch = setting("mean", model=model, train=every)
    losses = run(trained, goal, batch)
    assert {"bow", "sequence", "reward"} <= losses.parts.keys() == set(goal.names)
    assert bool(torch.isfinite(losses.total))
