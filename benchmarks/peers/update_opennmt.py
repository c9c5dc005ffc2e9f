"""OpenNMT-py: its trainer's own update (`_gradient_accumulation`), with its options' defaults."""

import onmt
from onmt import opts
from onmt.constants import DefaultTokens
from onmt.model_builder import build_model
from onmt.trainer import build_trainer
from onmt.utils.optimizers import Optimizer
from onmt.utils.parse import ArgumentParser
from pyonmttok import build_vocab_from_tokens

SPECIALS = (DefaultTokens.PAD, DefaultTokens.UNK, DefaultTokens.BOS, DefaultTokens.EOS)


def version():
    return f"OpenNMT-py {onmt.__version__}"


def start(shape, batches):
    options = _options(shape)
    words = [*SPECIALS, *(f"word{number}" for number in range(shape.vocabulary - len(SPECIALS)))]
    vocabulary = build_vocab_from_tokens(words)
    vocabularies = {
        "src": vocabulary,
        "tgt": vocabulary,
        "data_task": "seq2seq",
        "decoder_start_token": DefaultTokens.BOS,
    }
    model = build_model(options, options, vocabularies, None, -1)
    model.train()
    trainer = build_trainer(
        options, -1, model, vocabularies, Optimizer.from_opt(model, options), None
    )

    def update(number):
        statistics = onmt.utils.Statistics()
        batch = _batch(batches[number])
        tokens = int(batches[number].target_length.sum())
        trainer._gradient_accumulation([batch], tokens, onmt.utils.Statistics(), statistics)
        return statistics.xent()

    update.parameters = sum(p.numel() for p in model.parameters())
    return update


def _batch(batch):
    return {
        "src": batch.source[:, :, None],
        "srclen": batch.source_length,
        "tgt": batch.whole_target[:, :, None],
        "tgtlen": batch.target_length + 1,
        "cid": [],
        "cid_line_number": [],
    }


def _options(shape):
    parser = ArgumentParser()
    opts.train_opts(parser)
    options = parser.parse_args(
        [
            *("-data", "{}", "-src_vocab", "unused", "-save_model", "unused"),
            *("-encoder_type", "transformer", "-decoder_type", "transformer"),
            *("-enc_layers", str(shape.encoder_layers), "-dec_layers", str(shape.decoder_layers)),
            *("-hidden_size", str(shape.d_model), "-word_vec_size", str(shape.d_model)),
            *("-transformer_ff", str(shape.d_ffn), "-heads", str(shape.heads)),
            *("-dropout", str(shape.dropout), "-attention_dropout", str(shape.dropout)),
            *("-share_embeddings", "-share_decoder_embeddings", "-position_encoding"),
            *("-param_init", "0", "-param_init_glorot", "-label_smoothing", str(shape.smoothing)),
            *(
                "-optim",
                "adam",
                "-learning_rate",
                str(shape.rate),
                "-max_grad_norm",
                str(shape.clip),
            ),
            *("-adam_beta1", str(shape.betas[0]), "-adam_beta2", str(shape.betas[1])),
            *("-normalization", "tokens", "-model_dtype", "fp32"),
        ]
    )
    options.data = {}
    ArgumentParser.update_model_opts(options)
    return options
