"""Fine-tunes a Hugging Face model, with past and future on top, by transformers' own trainer.

python examples/finetune_with_trainer.py PATH --source train.en --target train.de --out tuned
untold explain tuned --source "The child reads a book." --out page.html
"""

import argparse
from pathlib import Path

from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

from untold.huggingface import PastFutureForConditionalGeneration

parser = argparse.ArgumentParser(description="Fine-tune with Seq2SeqTrainer.")
parser.add_argument("model", help="a folder that save_pretrained wrote, or a name of the hub")
for name in ("--source", "--target", "--out"):
    parser.add_argument(name, type=Path, required=True)
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--batch", type=int, default=32, help="sentences of a batch")
parser.add_argument("--rate", type=float, default=1e-4, help="the highest learning rate")
chosen = parser.parse_args()

# All losses, label smoothing too, are the model's own: the trainer's smoothing stays at 0.
model = PastFutureForConditionalGeneration.from_backbone(chosen.model, label_smoothing=0.1)
texts = [path.read_text("utf-8").split("\n") for path in (chosen.source, chosen.target)]
pairs = [pair for pair in zip(*texts, strict=True) if all(pair)]
settings = Seq2SeqTrainingArguments(
    str(chosen.out),
    max_steps=chosen.steps,
    per_device_train_batch_size=chosen.batch,
    learning_rate=chosen.rate,
    save_strategy="no",
    report_to="none",
)
rows = [model.tokenizer(source, text_target=target) for source, target in pairs]
collator = DataCollatorForSeq2Seq(model.tokenizer, model=model)
trainer = Seq2SeqTrainer(model, settings, train_dataset=rows, data_collator=collator)
trainer.train()
model.save_pretrained(chosen.out)
