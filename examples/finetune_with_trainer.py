"""Fine-tunes a Hugging Face model, with past and future on top, by transformers' own trainer.

python examples/finetune_with_trainer.py PATH --source train.en --target train.de --out tuned
untold explain tuned --source "The child reads a book." --out page.html
"""

import argparse
from pathlib import Path

from torch.optim import AdamW
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
    save_strategy="no",
    report_to="none",
)
# Capsules begin untrained: they learn at four times the rate, as in `untold train`.
new = {"params": model.past_future.parameters(), "lr": 4 * chosen.rate}
optimizer = AdamW([{"params": model.backbone.parameters()}, new], lr=chosen.rate)
rows = [model.tokenizer(source, text_target=target) for source, target in pairs]
collator = DataCollatorForSeq2Seq(model.tokenizer, model=model)
data = {"train_dataset": rows, "data_collator": collator}
Seq2SeqTrainer(model, settings, **data, optimizers=(optimizer, None)).train()
model.save_pretrained(chosen.out)
