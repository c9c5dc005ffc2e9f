"""Hugging Face's Marian inside its Trainer: `training_step`, clipping and optimizer of the Trainer.

The Trainer's own loop reads ahead, so that it cannot stop after each update; these are the calls
that the loop makes between two batches.
"""

import tempfile

import torch
import transformers
from update_marian import inputs_of, make_model


def version():
    return f"transformers {transformers.__version__}, Trainer"


def start(shape, batches):
    model = make_model(shape)
    arguments = transformers.Seq2SeqTrainingArguments(
        output_dir=tempfile.mkdtemp(),
        use_cpu=True,
        optim="adamw_torch_fused",
        learning_rate=shape.rate,
        adam_beta1=shape.betas[0],
        adam_beta2=shape.betas[1],
        adam_epsilon=shape.epsilon,
        lr_scheduler_type="constant",
        label_smoothing_factor=shape.smoothing,
        max_grad_norm=shape.clip,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = transformers.Seq2SeqTrainer(model=model, args=arguments)
    trainer.create_optimizer_and_scheduler(num_training_steps=1_000_000)
    wrapped, optimizer = trainer.accelerator.prepare(model, trainer.optimizer)

    def update(number):
        batch = batches[number]
        items = torch.tensor(int(batch.target_length.sum()))
        loss = trainer.training_step(wrapped, inputs_of(batch), items)
        trainer.accelerator.clip_grad_norm_(wrapped.parameters(), arguments.max_grad_norm)
        optimizer.step()
        trainer.lr_scheduler.step()
        wrapped.zero_grad()
        return loss.item()

    update.parameters = sum(p.numel() for p in model.parameters())
    return update
