"""JoeyNMT: its model, loss, normalisation, clipping and optimizer, as TrainManager uses them."""

from types import SimpleNamespace

import joeynmt
import torch
from joeynmt.batch import Batch
from joeynmt.builders import build_gradient_clipper, build_optimizer
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary
from worker import PAD, UNK


def version():
    return f"JoeyNMT {joeynmt.__version__}"


def start(shape, batches):
    names = ("unk", "pad", "bos", "eos")  # JoeyNMT insists on this order
    tokens = {f"{name}_token": f"<{name}>" for name in names}
    ids = {f"{name}_id": number for number, name in enumerate(names)}
    specials = SimpleNamespace(**tokens, **ids, sep_token=None, lang_tags=[])
    words = Vocabulary([f"word{number}" for number in range(shape.vocabulary - 4)], specials)
    model = build_model(_config(shape), words, words).train()
    model.loss_function = ("crossentropy", shape.smoothing)
    settings = {
        "optimizer": "adam",
        "learning_rate": shape.rate,
        "adam_betas": list(shape.betas),
        "clip_grad_norm": shape.clip,
        "clip_grad_val": None,
    }
    optimizer = build_optimizer(settings, model.parameters())
    clip = build_gradient_clipper(settings)

    def update(number):
        batch = _batch(batches[number], words)
        batch.sort_by_src_length()
        loss, _, _, correct = model(return_type="loss", **vars(batch))
        loss = batch.normalize(loss, "tokens")
        batch.normalize(correct, "sum")
        loss.backward()
        clip(parameters=model.parameters())
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    update.parameters = sum(p.numel() for p in model.parameters())
    return update


def _batch(batch, words):
    return Batch(
        src=_their_ids(batch.source),
        src_length=batch.source_length,
        src_prompt_mask=None,
        trg=_their_ids(batch.whole_target),
        trg_prompt_mask=None,
        indices=torch.arange(len(batch.source)),
        device=torch.device("cpu"),
        pad_index=words.pad_index,
        eos_index=words.eos_index,
    )


def _their_ids(ids):
    """Swaps the ids of padding and unknown words; all others are the same."""
    swapped = ids.clone()
    swapped[ids == PAD], swapped[ids == UNK] = UNK, PAD
    return swapped


def _config(shape):
    def side(layers):
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": shape.heads,
            "hidden_size": shape.d_model,
            "ff_size": shape.d_ffn,
            "dropout": shape.dropout,
            "layer_norm": "pre",
            "activation": "relu",
            "embeddings": {
                "embedding_dim": shape.d_model,
                "scale": True,
                "dropout": shape.dropout,
            },
        }

    return {
        "encoder": side(shape.encoder_layers),
        "decoder": side(shape.decoder_layers),
        "tied_embeddings": True,
        "tied_softmax": True,
    }
