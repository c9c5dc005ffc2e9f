"""Eole: its trainer's own update (`_train_step`), with its configuration's defaults."""

import importlib.metadata

import eole
from eole.config.run import TrainConfig
from eole.constants import DefaultTokens
from eole.models.model import get_model_class
from eole.trainer import build_trainer
from eole.utils.optimizers import Optimizer
from pyonmttok import build_vocab_from_tokens

SPECIALS = (DefaultTokens.PAD, DefaultTokens.UNK, DefaultTokens.BOS, DefaultTokens.EOS)


def version():
    return f"Eole {importlib.metadata.version('eole')}"


def start(shape, batches):
    config = _config(shape)
    words = [*SPECIALS, *(f"word{number}" for number in range(shape.vocabulary - len(SPECIALS)))]
    vocabulary = build_vocab_from_tokens(words)
    names = ("pad_token", "unk_token", "bos_token", "eos_token")
    vocabularies = {
        "src": vocabulary,
        "tgt": vocabulary,
        "specials": dict(zip(names, SPECIALS, strict=True)),
        "decoder_start_token": DefaultTokens.BOS,
    }
    model = get_model_class(config.model).for_training(
        config.model, vocabularies, config.training, device_id=-1
    )
    model.train()
    optimizer = Optimizer.from_config(model, config)
    trainer = build_trainer(config, -1, model, vocabularies, optimizer)

    def update(number):
        statistics = eole.utils.Statistics()
        tokens = int(batches[number].target_length.sum())
        batch = _batch(batches[number])
        trainer._train_step([batch], tokens, eole.utils.Statistics(), statistics)
        return statistics.xent()

    update.parameters = sum(p.numel() for p in model.parameters())
    return update


def _batch(batch):
    return {
        "src": batch.source,
        "srclen": batch.source_length,
        "tgt": batch.whole_target,
        "tgtlen": batch.target_length + 1,
        "images": None,
        "prefix_len": None,
        "cid": [],
        "cid_line_number": [],
    }


def _config(shape):
    return TrainConfig(
        src_vocab="unused",
        tgt_vocab="unused",
        data={},
        share_vocab=True,
        model={
            "architecture": "transformer",
            "hidden_size": shape.d_model,
            "transformer_ff": shape.d_ffn,
            "heads": shape.heads,
            "encoder": {"layers": shape.encoder_layers},
            "decoder": {"layers": shape.decoder_layers},
            "embeddings": {
                "word_vec_size": shape.d_model,
                "position_encoding_type": "SinusoidalInterleaved",
            },
            "share_embeddings": True,
            "share_decoder_embeddings": True,
        },
        training={
            "world_size": 0,
            "gpu_ranks": [],
            "compute_dtype": "fp32",
            "dropout": [shape.dropout],
            "attention_dropout": [shape.dropout],
            "label_smoothing": shape.smoothing,
            "optim": "adam",
            "learning_rate": shape.rate,
            "adam_beta1": shape.betas[0],
            "adam_beta2": shape.betas[1],
            "adam_eps": shape.epsilon,
            "max_grad_norm": shape.clip,
            "normalization": "tokens",
            "param_init_method": "xavier_uniform",
        },
    )
