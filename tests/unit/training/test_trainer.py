"""Updates: what they are the mean of, how they are shared, and what a NaN does to them."""

import io
import json
import math
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from toys import (
    collate,
    compute_losses,
    fill,
    toy_batch,
    toy_config,
    toy_model,
    toy_tokenizers,
    words,
)
from untold.config import TrainConfig
from untold.corpus.batching import PairsInMemory, plan_epoch
from untold.errors import UntoldError
from untold.interruption import Interrupted
from untold.storage.model_directory import TrainedModel
from untold.training.distributed import ProcessGroup
from untold.training.log import Reporter
from untold.training.losses.objective import Objective, mixed_precision
from untold.training.progress import Progress, Validation
from untold.training.trainer import Hooks, RunContext, Trainer, learning_rate, make_optimizer


class Pairs(PairsInMemory):
    """A store in memory that names its pairs."""

    def __init__(self, count=23):
        super().__init__([(ids_of(1 + k % 5, k), ids_of(1 + k % 7, 3 * k)) for k in range(count)])

    def where(self, index):
        return f"corpus.src:{index + 1}"


def ids_of(count, start):
    return words(count, start=start).numpy()


class OneOf(ProcessGroup):
    """A process of several that meets nobody: sums are its own."""

    def all_reduce_sum(self, values, device):
        return list(values)

    def sum_gradients(self, parameters):
        pass


class Log(Reporter):
    def __init__(self, path):
        super().__init__(path, 9, Console(file=io.StringIO()))
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.fixture
def make(corpus, tmp_path):
    """make(steps=3, dropout=0.0, processes=..., hooks=...) -> a trainer on a store in memory."""

    def make(*, dropout=0.0, processes=None, hooks=None, store=None, **settings):
        model = {"d_model": 8, "d_ffn": 12, "heads": 2, "dropout": dropout}
        model |= {"encoder_layers": 1, "decoder_layers": 1}
        settings = {"steps": 1, "batch_tokens": 24, "accumulate": 4, "clip": 0.0} | settings
        config = toy_config(corpus, model=model, train=settings)
        network = fill(toy_model(**model)).train()
        trained = TrainedModel(network, config, toy_tokenizers(corpus, config))
        setting = RunContext(processes or ProcessGroup(), Log(tmp_path), Interrupted())
        store = store or Pairs()
        return Trainer(trained, make_optimizer(trained), store, setting, hooks or Hooks())

    return make


def pairs_read(trainer):
    """The numbers of the pairs that the trainer learns from, as it goes on."""
    seen, plain = [], trainer.objective.backward

    def noted(batch, *given):
        seen.extend(batch.indices.tolist())
        return plain(batch, *given)

    trainer.objective.backward = noted
    return seen


def gradients(trainer):
    return {name: p.grad.clone() for name, p in trainer.model.named_parameters()}


def weights(trainer):
    return {name: p.detach().clone() for name, p in trainer.model.named_parameters()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_the_gradient_is_that_of_one_big_batch_per_token(make):
    trainer, whole, by_batch = make(), make(), make()
    for each in (trainer, whole, by_batch):
        each.model.double()
    used = pairs_read(trainer)
    trainer.run(Progress())
    assert len(used) == len(set(used)) > 4
    big = collate([trainer.store.pairs[k] for k in used], used)
    (compute_losses(whole.model, big, whole.config, 1).total / big.target_tokens).backward()
    # The control: a mean of means weighs tokens of small batches more, and is another gradient.
    plan = by_batch._epoch_plan(0)
    for number in range(4):
        batch = by_batch.codec.stored_batch(by_batch.store, plan.indices(number))
        loss = compute_losses(by_batch.model, batch, by_batch.config, 1).total
        (loss / batch.target_tokens / 4).backward()
    found, expected, other = gradients(trainer), gradients(whole), gradients(by_batch)
    for name in found:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-9, atol=1e-12)
    assert not all(torch.allclose(found[name], other[name], rtol=1e-3) for name in found)


def test_batches_come_in_the_order_of_the_epoch(make):
    trainer = make()
    config, found = trainer.config, trainer._epoch_plan(2)
    expected = plan_epoch(trainer.store, config.batch_tokens, config.seed, 2)
    another = plan_epoch(trainer.store, config.batch_tokens, config.seed, 3)
    assert found.shuffle.tolist() == expected.shuffle.tolist() != another.shuffle.tolist()


def test_the_norm_is_clipped_to_the_limit(make):
    free, clipped = make(), make(clip=0.01)
    free.run(Progress())
    clipped.run(Progress())

    def norm(trainer):
        return math.sqrt(sum(float(g.square().sum()) for g in gradients(trainer).values()))

    assert norm(free) > 0.1
    assert norm(clipped) == pytest.approx(0.01, rel=1e-3)


def test_an_epoch_s_updates_use_every_pair_once_and_the_last_may_be_smaller(make):
    trainer = make(steps=99, epochs=1, accumulate=4)
    read = pairs_read(trainer)
    progress = trainer.run(Progress())
    assert sorted(read) == list(range(23))
    batches = len(trainer._epoch_plan(0))
    assert batches % 4, "the last update has fewer batches"
    assert (progress.step, progress.epoch, progress.batch) == (math.ceil(batches / 4), 1, 0)
    assert progress.tokens == trainer.store.sides[1].lengths.sum() + 23


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_processes_share_each_update_without_overlap(make, size):
    alone = make(steps=2)
    whole = pairs_read(alone)
    alone.run(Progress())
    shares = []
    for rank in range(size):
        trainer = make(steps=2, processes=OneOf(rank, size))
        shares.append(pairs_read(trainer))
        trainer.run(Progress())
    assert sorted(index for share in shares for index in share) == sorted(whole)
    assert all(len(share) < len(whole) for share in shares)


def test_dropout_of_a_batch_is_the_same_in_whichever_process(make):
    """Rank 1 of 2 makes the batches 1 and 3 of an update as a process alone would."""
    seen, plain = {}, Objective.__call__
    for size in (1, 2):
        trainer, found = make(dropout=0.5, processes=OneOf(size - 1, size)), []

        def note(self, batch, step, found=found):
            losses = plain(self, batch, step)
            found.append((batch.indices.tolist(), float(losses.total.detach())))
            return losses

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Objective, "__call__", note)
            trainer.run(Progress())
        seen[size] = found
    assert seen[2] == [seen[1][1], seen[1][3]]


def test_an_update_does_not_depend_on_what_was_drawn_before(make):
    one, other = make(dropout=0.3, steps=3), make(dropout=0.3, steps=3)
    torch.manual_seed(1)
    one.run(Progress())
    torch.manual_seed(2)
    torch.rand(1000)
    other.run(Progress())
    assert same(weights(one), weights(other))
    third = make(dropout=0.3, steps=3, seed=7)
    third.run(Progress())
    assert not same(weights(one), weights(third))


def test_the_rate_of_each_update_is_the_schedule_s(make, monkeypatch):
    rates = []
    trainer = make(steps=6, warmup=3)
    step = trainer.optimizer.step
    monkeypatch.setattr(
        trainer.optimizer,
        "step",
        lambda: (rates.append(trainer.optimizer.param_groups[0]["lr"]), step()),
    )
    trainer.run(Progress())
    assert rates == [learning_rate(trainer.config, number) for number in range(1, 7)]


@pytest.fixture
def cutting(corpus, make):
    """A trainer with BPE-dropout, and the texts of its store."""

    def cutting(count):
        config = toy_config(corpus, tokenizer={"dropout": 0.5})
        tokenizers = toy_tokenizers(corpus, config)
        texts = (corpus / "train.src").read_text().split("\n")[:count]
        store = PairsInMemory([(ids, ids) for ids in tokenizers.source.encode(texts)])
        trained = TrainedModel(toy_model((len(tokenizers.source),) * 2), config, tokenizers)
        setting = RunContext(ProcessGroup(), make().reporter, Interrupted())
        return Trainer(trained, make_optimizer(trained), store, setting, Hooks()), texts

    return cutting


def sources_of(trainer, epoch):
    """The source ids of each pair as they are cut in an epoch."""
    plan, rows = trainer._epoch_plan(epoch), {}
    indices = [plan.indices(number) for number in range(len(plan))]
    for _, batch in trainer._local_batches(indices, epoch, 0):
        for k, index in enumerate(batch.indices.tolist()):
            rows[index] = batch.source[k, batch.source_mask[k]].tolist()[:-1]
    return rows


def test_bpe_dropout_cuts_the_text_of_each_pair_anew(cutting):
    trainer, texts = cutting(12)
    first, again, next_one = (sources_of(trainer, epoch) for epoch in (0, 0, 1))
    decode = trainer.trained.tokenizers.source.decode
    assert [decode(next_one[index]) for index in range(12)] == texts
    assert first == again != next_one


def test_bpe_dropout_knows_the_epoch(cutting):
    """One pair, so that every epoch has the same one batch."""
    trainer, _ = cutting(1)
    assert len({tuple(sources_of(trainer, epoch)[0]) for epoch in range(5)}) > 1


def poison(monkeypatch, bad, value=math.nan):
    """Make the loss of every batch with one of these pairs not finite."""

    plain = Objective.__call__

    def poisoned(self, batch, step):
        losses = plain(self, batch, step)
        if set(bad) & set(batch.indices.tolist()):
            parts = {k: v * value for k, v in losses.parts.items()}
            return replace(losses, total=losses.total * value, parts=parts)
        return losses

    monkeypatch.setattr(Objective, "__call__", poisoned)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_update_that_is_not_finite_is_skipped(make, monkeypatch, value):
    poison(monkeypatch, range(23), value)
    trainer = make()
    before = weights(trainer)
    progress = trainer.run(Progress())
    assert same(before, weights(trainer))
    assert not trainer.optimizer.state, "the optimizer remembers nothing of it"
    assert (progress.step, progress.skipped) == (1, 1)


def test_one_bad_batch_is_named_and_the_run_goes_on(make, monkeypatch, tmp_path):
    trainer = make(steps=4, accumulate=2, log_every=1)
    plan = trainer._epoch_plan(0)
    bad = plan.indices(3)  # the second batch of the second update
    poison(monkeypatch, [int(bad[0])])
    with trainer.reporter:
        trainer.reporter.begin(0)
        progress = trainer.run(Progress())
    (line,) = [line for line in trainer.reporter.lines if "not finite" in line]
    assert line.startswith("step 2: the gradient is not finite; skipped the pairs at corpus.src:")
    named = set(line.split(" at ")[1].split(", "))
    assert named == {f"corpus.src:{index + 1}" for index in bad}, "and no pair of the good batch"
    assert (progress.step, progress.skipped) == (4, 0)
    assert all(bool(torch.isfinite(p).all()) for p in trainer.model.parameters())
    logged = [
        json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().split("\n")[:-1]
    ]
    assert [record["loss"] is None for record in logged] == [False, True, False, False]


def test_many_in_a_row_end_the_run_with_the_lines_named(make, monkeypatch):
    poison(monkeypatch, range(23))
    saved = []
    trainer = make(steps=50, hooks=Hooks(save=saved.append), save_every=1)
    with pytest.raises(UntoldError, match=r"step 5: .*corpus\.src:\d+.*; 5 such updates in a row"):
        trainer.run(Progress())
    assert [progress.step for progress in saved] == [1, 2, 3, 4], "as they were before: still whole"


def test_skips_that_are_not_in_a_row_do_not_add_up(make, monkeypatch, caplog):
    trainer = make(steps=99, epochs=6, accumulate=1)
    poison(monkeypatch, [int(trainer._epoch_plan(0).indices(0)[0])])
    progress = trainer.run(Progress())
    assert sum("not finite" in line for line in caplog.messages) == 6
    assert progress.epoch == 6


def scripted(*scores):
    """A validator that returns these BLEU scores, and the hooks that count what is written."""
    left, saved, best = list(scores), [], []
    hooks = Hooks(lambda: Validation(1.0, left.pop(0)), saved.append, best.append)
    return hooks, saved, best


def test_validation_saving_and_the_end(make):
    hooks, saved, best = scripted(1.0, 3.0, math.nan, 2.0)
    trainer = make(steps=8, validate_every=2, save_every=3, hooks=hooks)
    progress = trainer.run(Progress())
    assert [p.step for p in best] == [2, 4]
    assert [p.step for p in saved] == [3, 6, 8]
    assert [p.validated for p in saved] == [2, 6, 8], "the last one knows of its validation"
    assert (progress.best, progress.best_step, progress.stale) == (3.0, 4, 2)


def test_a_last_step_between_validations_is_validated_before_it_is_saved(make):
    hooks, saved, best = scripted(1.0, 3.0)
    make(steps=5, validate_every=3, save_every=5, hooks=hooks).run(Progress())
    assert [(p.step, p.validated, p.best_step) for p in saved] == [(5, 5, 5)]
    assert [p.step for p in best] == [3, 5]


def test_patience_ends_a_run(make):
    hooks, saved, _ = scripted(5.0, 4.0, 4.0, 4.0)
    progress = make(steps=99, validate_every=2, patience=3, hooks=hooks).run(Progress())
    assert (progress.step, progress.stale) == (8, 3)
    assert saved[-1] == progress


def test_an_interrupted_run_saves_at_once_and_validates_when_resumed(make):
    hooks, saved, _ = scripted(5.0)
    trainer = make(steps=8, validate_every=3, hooks=hooks)
    trainer.interrupted.signal = 15
    progress = trainer.run(Progress(step=2))
    assert (progress.step, progress.validated) == (3, 0)
    assert saved == [progress]
    resumed = make(steps=3, validate_every=3, hooks=hooks)
    progress = resumed.run(progress)
    assert (progress.step, progress.validated, progress.best) == (3, 3, 5.0)
    assert saved[-1] == progress, "the checkpoint is written anew with what it now knows"


def test_a_run_that_is_over_does_nothing(make):
    hooks, saved, _ = scripted()
    done = Progress(step=5, validated=5)
    assert make(steps=5, hooks=hooks).run(done) == done
    assert saved == []


def test_a_place_beyond_the_epoch_is_the_start_of_the_next(make):
    """After --allow-changed with fewer data."""
    progress = make(steps=1).run(Progress(epoch=3, batch=500))
    assert (progress.epoch, progress.batch) == (4, 4)
    assert progress.tokens > 0


def test_when_any_process_is_told_to_stop_all_do(make):
    class Told(OneOf):
        def all_reduce_sum(self, values, device):
            return [values[0], 1.0] if len(values) == 2 else list(values)

    trainer = make(steps=9, processes=Told(1, 2))
    assert trainer.run(Progress()).step == 1
    assert trainer.interrupted.signal == 15


def test_the_objective_is_a_sum_over_real_tokens(make):
    """Against the definition: smoothed cross-entropy of the logits at each real position."""
    trainer = make()
    batch = toy_batch([(4, 6), (1, 2), (3, 5)])
    losses = compute_losses(trainer.model, batch, trainer.config, 1)
    outputs = trainer.model(batch.source, batch.source_mask, batch.prefix)
    log_p = trainer.model.logits(outputs.holistic).log_softmax(-1).detach()
    nll, smooth = 0.0, 0.0
    for row, column in batch.target_mask.nonzero().tolist():
        nll -= float(log_p[row, column, batch.labels[row, column]])
        smooth -= float(log_p[row, column].mean())
    assert float(losses.parts["nll"]) == pytest.approx(nll, rel=1e-4)
    assert float(losses.total.detach()) == pytest.approx(0.9 * nll + 0.1 * smooth, rel=1e-4)
    wider = replace(batch, labels=batch.labels.masked_fill(~batch.target_mask, 9))
    again = compute_losses(trainer.model, wider, trainer.config, 1)
    assert torch.equal(again.total, losses.total), "what stands in padding does not matter"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_mixed_precision_multiplies_in_bf16_only_where_asked(precision):
    config = TrainConfig(precision=precision)
    with mixed_precision(torch.device("cpu"), config):
        product = torch.ones(2, 3) @ torch.ones(3, 2)
    assert product.dtype == (torch.bfloat16 if precision == "bf16" else torch.float32)
