"""Hugging Face's Marian with the loop that its documentation teaches, in its fastest form.

Fused attention, torch's own cross entropy with label smoothing, and fused Adam.
"""

import torch
import torch.nn.functional as F
import transformers
from worker import BOS, EOS, PAD


def version():
    return f"transformers {transformers.__version__}"


def make_model(shape):
    torch.manual_seed(1)
    sides = {}
    for side, layers in (("encoder", shape.encoder_layers), ("decoder", shape.decoder_layers)):
        sides |= {
            f"{side}_layers": layers,
            f"{side}_ffn_dim": shape.d_ffn,
            f"{side}_attention_heads": shape.heads,
            f"{side}_layerdrop": 0.0,
        }
    config = transformers.MarianConfig(
        **sides,
        vocab_size=shape.vocabulary,
        d_model=shape.d_model,
        dropout=shape.dropout,
        attention_dropout=shape.dropout,
        activation_dropout=shape.dropout,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
        use_cache=False,
    )
    return transformers.MarianMTModel(config).train()


def inputs_of(batch):
    return {
        "input_ids": batch.source,
        "attention_mask": (batch.source != PAD).long(),
        "decoder_input_ids": batch.prefix,
        "labels": batch.labels.masked_fill(batch.labels == PAD, -100),
    }


def start(shape, batches):
    model = make_model(shape)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=shape.rate, betas=shape.betas, eps=shape.epsilon, fused=True
    )

    def update(number):
        inputs = inputs_of(batches[number])
        labels = inputs.pop("labels")
        optimizer.zero_grad(set_to_none=True)
        logits = model(**inputs).logits
        loss = F.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), label_smoothing=shape.smoothing
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), shape.clip)
        optimizer.step()
        return loss.item()

    update.parameters = sum(p.numel() for p in model.parameters())
    return update
