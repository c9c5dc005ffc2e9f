"""Fine-tunes a Hugging Face model, with past and future on top of it, by transformers' own trainer.

python examples/finetune_with_trainer.py PATH --source train.en --target train.de --out tuned
untold explain tuned --source "The child reads a book." --out page.html
"""

import argparse
from pathlib import Path

from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

from untold.huggingface import PastFutureForConditionalGeneration


def main(arguments: list[str] | None = None) -> None:
    """Reads two files of parallel lines, trains and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a folder that save_pretrained wrote, or a name of the hub")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32, help="sentences of a batch")
    chosen = parser.parse_args(arguments)

    # All losses, label smoothing too, are the model's own: the trainer's smoothing stays at 0.
    model = PastFutureForConditionalGeneration.from_backbone(chosen.model, label_smoothing=0.1)
    tokenizer = model.tokenizer
    sources, targets = (
        path.read_text("utf-8").split("\n") for path in (chosen.source, chosen.target)
    )
    pairs = [pair for pair in zip(sources, targets, strict=True) if all(pair)]
    rows = [tokenizer(source, text_target=target) for source, target in pairs]
    trainer = Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(
            chosen.out,
            max_steps=chosen.steps,
            per_device_train_batch_size=chosen.batch,
            learning_rate=1e-4,
            save_strategy="no",
            report_to="none",
            dataloader_pin_memory=False,
        ),
        train_dataset=rows,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    )
    trainer.train()
    model.save_pretrained(chosen.out)


if __name__ == "__main__":
    main()
