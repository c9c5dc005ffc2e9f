"""Small models of transformers with past and future, of every family, and inputs for them."""

import copy
from dataclasses import replace
from functools import cache

import torch

from huggingface_toys import wrapped
from untold.huggingface.generation_past_future import PastFutureForConditionalGeneration
from untold.huggingface.optional import import_transformers

TEXTS = ["the naïve cat sees 日本 🙂 .", "a dog reads"]
TARGETS = ["die Katze sieht 日本 .", "ein Hund liest das alte Buch"]
SMALL = {"d_capsule": 7, "lexicon": 5}


def build(family, **settings):
    """A model on a copy of the backbone, as from_backbone makes it."""
    found = wrapped(family)
    found = replace(found, model=copy.deepcopy(found.model))
    torch.manual_seed(3)
    return PastFutureForConditionalGeneration.from_wrapped(found, SMALL | settings)


def talkative(model):
    """Lets the capsules change logits: a new fusion is zero."""
    torch.nn.init.normal_(model.past_future.fusion.transform.weight, std=0.5)
    return model


def without_dropout(model):
    """Leaves no dropout: its masks have the shape of the frame, which differs from ours."""
    for module in model.modules():
        for name in ("p", "dropout", "attention_dropout", "activation_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


@cache
def talking(family):
    """A model that the tests share, and leave as it is."""
    torch.manual_seed(5)
    return talkative(build(family))


def inputs(model, *, with_labels=True):
    tokenizer = model.tokenizer
    read = tokenizer(TEXTS, text_target=TARGETS, padding=True, return_tensors="pt")
    labels = read["labels"].masked_fill(read["labels"] == tokenizer.pad_token_id, -100)
    found = {"input_ids": read["input_ids"], "attention_mask": read["attention_mask"]}
    return found | ({"labels": labels} if with_labels else {})


@torch.no_grad()
def logits(model):
    given = inputs(model)
    prefix = model.prepare_decoder_input_ids_from_labels(given.pop("labels"))
    return model(**given, decoder_input_ids=prefix).logits


def shared(model):
    """The names of the weights that are one tensor."""
    groups = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(parameter.data_ptr(), []).append(name)
    return sorted(names for names in groups.values() if len(names) > 1)


def make_trainer(model, folder, chosen, **others):
    """A trainer that makes one update over four pairs; `chosen` are arguments of its own."""
    transformers, tokenizer = import_transformers(), model.tokenizer
    arguments = {
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "optim": "sgd",
        "learning_rate": 0.1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
        "generation_max_length": 12,
    }
    settings = transformers.Seq2SeqTrainingArguments(str(folder), **arguments | chosen)
    pairs = zip([*TEXTS, *TARGETS], [*TARGETS, *TEXTS], strict=True)
    rows = [tokenizer(source, text_target=target) for source, target in pairs]
    return transformers.Seq2SeqTrainer(
        model,
        settings,
        train_dataset=rows,
        eval_dataset=rows[:2],
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer, model=model),
        **others,
    )
