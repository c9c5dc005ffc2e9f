"""The updates of each toolkit, as the toolkit itself makes them; worker.py runs one of them.

A function of TOOLKITS gets the shape and the batches, and returns the toolkit's version, its model,
and a function that makes one real update on the batch of a number and returns the loss. It imports
its toolkit itself, since each has an environment of its own.
"""

import importlib.metadata
import tempfile
from types import SimpleNamespace

import torch
import torch.nn.functional as F

PAD, UNK, BOS, EOS = 0, 1, 2, 3  # of all ids in the batches


def start_untold(shape, batches):
    """Ours: the trainer's own update, in the project's environment."""
    from contenders import UntoldTraining, small_workload, varied
    from untold.config import Config
    from untold.corpus.batching import Batch
    from untold.corpus.tokenizer import SENTENCEPIECE_IDS
    from untold.version import __version__

    sizes = ("d_model", "d_ffn", "heads", "encoder_layers", "decoder_layers")
    rates = ("dropout", "attention_dropout", "activation_dropout")
    model = {name: getattr(shape, name) for name in sizes} | dict.fromkeys(rates, shape.dropout)
    train = {"learning_rate": shape.rate, "clip": shape.clip, "label_smoothing": shape.smoothing}
    config = varied(Config(), {"model": model, "train": train})
    training = UntoldTraining(config, shape.vocabulary, small_workload(1000))
    own = [
        Batch(
            source=batch.source,
            source_mask=batch.source != PAD,
            prefix=batch.prefix,
            labels=batch.labels,
            target_mask=batch.labels != PAD,
            indices=torch.arange(len(batch.source)),
            source_words=(batch.source != PAD) & (batch.source != EOS),
            special=SENTENCEPIECE_IDS,
        )
        for batch in batches
    ]
    return f"untold {__version__}", training.model, lambda number: training.update(own[number])


def start_marian(shape, batches):
    """Hugging Face's Marian with the loop that its documentation teaches, in its fastest form.

    Fused attention, torch's own cross entropy with label smoothing, and fused Adam.
    """
    import transformers

    model = _marian(shape)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=shape.rate, betas=shape.betas, eps=shape.epsilon, fused=True
    )

    def update(number):
        inputs = _marian_inputs(batches[number])
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

    return f"transformers {transformers.__version__}", model, update


def start_trainer(shape, batches):
    """Marian inside the Trainer: its `training_step`, clipping and optimizer.

    The Trainer's own loop reads ahead, so that it cannot stop after each update; these are the
    calls that the loop makes between two batches.
    """
    import transformers

    model = _marian(shape)
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
        loss = trainer.training_step(wrapped, _marian_inputs(batch), items)
        trainer.accelerator.clip_grad_norm_(wrapped.parameters(), arguments.max_grad_norm)
        optimizer.step()
        trainer.lr_scheduler.step()
        wrapped.zero_grad()
        return loss.item()

    return f"transformers {transformers.__version__}, Trainer", model, update


def _marian(shape):
    import transformers

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


def _marian_inputs(batch):
    return {
        "input_ids": batch.source,
        "attention_mask": (batch.source != PAD).long(),
        "decoder_input_ids": batch.prefix,
        "labels": batch.labels.masked_fill(batch.labels == PAD, -100),
    }


def start_joeynmt(shape, batches):
    """JoeyNMT: model, loss, normalisation, clipping and optimizer as TrainManager uses them."""
    import joeynmt
    from joeynmt.batch import Batch
    from joeynmt.builders import build_gradient_clipper, build_optimizer
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    names = ("unk", "pad", "bos", "eos")  # JoeyNMT insists on this order
    tokens = {f"{name}_token": f"<{name}>" for name in names}
    ids = {f"{name}_id": number for number, name in enumerate(names)}
    specials = SimpleNamespace(**tokens, **ids, sep_token=None, lang_tags=[])
    words = Vocabulary([f"word{number}" for number in range(shape.vocabulary - 4)], specials)
    model = build_model(_joeynmt_config(shape), words, words).train()
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
        batch = Batch(
            src=_swap_pad_and_unk(batches[number].source),
            src_length=batches[number].source_length,
            src_prompt_mask=None,
            trg=_swap_pad_and_unk(batches[number].whole_target),
            trg_prompt_mask=None,
            indices=torch.arange(len(batches[number].source)),
            device=torch.device("cpu"),
            pad_index=words.pad_index,
            eos_index=words.eos_index,
        )
        batch.sort_by_src_length()
        loss, _, _, correct = model(return_type="loss", **vars(batch))
        loss = batch.normalize(loss, "tokens")
        batch.normalize(correct, "sum")
        loss.backward()
        clip(parameters=model.parameters())
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return f"JoeyNMT {joeynmt.__version__}", model, update


def _swap_pad_and_unk(ids):
    """JoeyNMT's order of the two; all other ids are the same."""
    swapped = ids.clone()
    swapped[ids == PAD], swapped[ids == UNK] = UNK, PAD
    return swapped


def _joeynmt_config(shape):
    embeddings = {"embedding_dim": shape.d_model, "scale": True, "dropout": shape.dropout}

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
            "embeddings": embeddings,
        }

    return {
        "encoder": side(shape.encoder_layers),
        "decoder": side(shape.decoder_layers),
        "tied_embeddings": True,
        "tied_softmax": True,
    }


def start_sockeye(shape, batches):
    """Sockeye 3: EarlyStoppingTrainer's own step, with its losses and its optimizer."""
    import sockeye
    from sockeye import constants as C
    from sockeye import loss, model, optimizers, training

    network = model.SockeyeModel(_sockeye_config(shape))
    network.apply(model.initialize_parameters)
    network.train()
    first = _sockeye_batch(batches[0])
    inputs = (first.source, first.source_length, first.target, first.target_length)
    traced = torch.jit.trace(network, inputs, strict=False)  # as sockeye-train does
    losses = [loss.CrossEntropyLoss(label_smoothing=shape.smoothing)]
    settings = optimizers.OptimizerConfig(
        name=C.OPTIMIZER_ADAM,
        lr=shape.rate,
        betas=tuple(shape.betas),
        eps=shape.epsilon,
        gradient_clipping_type=C.GRADIENT_CLIPPING_TYPE_NORM,
        gradient_clipping_threshold=shape.clip,
    )
    kind, arguments, zero = optimizers.get_optimizer(settings)
    trainer = training.EarlyStoppingTrainer(
        config=_sockeye_training(),
        optimizer_config=settings,
        sockeye_model=network,
        model_object=training.ModelWithLoss(model=traced, losses=losses),
        optimizer=kind(network.parameters(), **arguments),
        lr_scheduler=None,
        zero_grad_kwargs=zero,
        loss_functions=losses,
        device=torch.device("cpu"),
    )
    trainer.state = training.TrainState(C.PERPLEXITY)

    def update(number):
        metric = losses[0].metric
        metric.reset()
        trainer._step(_sockeye_batch(batches[number]))
        return metric.get()

    return f"Sockeye {sockeye.__version__}", network, update


def _sockeye_batch(batch):
    from sockeye import constants as C
    from sockeye import data_io

    source, target = (ids.to(torch.int32)[:, :, None] for ids in (batch.source, batch.prefix))
    prepended = torch.zeros_like(batch.source_length)  # tokens before the source: it has none
    source_length = torch.stack([batch.source_length, prepended], dim=1).to(torch.int32)
    return data_io.Batch(
        source,
        source_length,
        target,
        batch.target_length.to(torch.int32),
        {C.TARGET_LABEL_NAME: batch.labels.to(torch.int32)},
        len(source),
        int(batch.target_length.sum()),
    )


def _sockeye_config(shape):
    from sockeye import constants as C
    from sockeye import data_io, encoder, model, transformer

    longest = {"max_seq_len_source": 512, "max_seq_len_target": 512}

    def side(layers):
        return transformer.TransformerConfig(
            **longest,
            model_size=shape.d_model,
            attention_heads=shape.heads,
            feed_forward_num_hidden=shape.d_ffn,
            act_type=C.RELU,
            num_layers=layers,
            dropout_attention=shape.dropout,
            dropout_act=shape.dropout,
            dropout_prepost=shape.dropout,
            positional_embedding_type=C.FIXED_POSITIONAL_EMBEDDING,
            preprocess_sequence="n",
            postprocess_sequence="dr",
            depth_key_value=shape.d_model,
        )

    embedding = encoder.EmbeddingConfig(
        vocab_size=shape.vocabulary,
        num_embed=shape.d_model,
        dropout=0.0,
        factor_configs=None,
        allow_sparse_grad=False,
    )
    return model.ModelConfig(
        config_data=data_io.DataConfig(
            **longest, data_statistics=None, num_source_factors=1, num_target_factors=1
        ),
        vocab_source_size=shape.vocabulary,
        vocab_target_size=shape.vocabulary,
        config_embed_source=embedding,
        config_embed_target=embedding,
        config_encoder=side(shape.encoder_layers),
        config_decoder=side(shape.decoder_layers),
    )


def _sockeye_training():
    from sockeye import constants as C
    from sockeye import training

    return training.TrainerConfig(
        output_dir=tempfile.mkdtemp(),
        early_stopping_metric=C.PERPLEXITY,
        max_params_files_to_keep=1,
        keep_initializations=False,
        max_params_files_to_cache=0,
        cache_strategy=C.AVERAGE_BEST,
        cache_metric=C.PERPLEXITY,
        checkpoint_interval=1_000_000,
        max_num_checkpoint_not_improved=None,
        checkpoint_improvement_threshold=0.0,
    )


def start_eole(shape, batches):
    """Eole: its trainer's own update (`_train_step`), with its configuration's defaults."""
    import eole
    from eole.constants import DefaultTokens
    from eole.models.model import get_model_class
    from eole.trainer import build_trainer
    from eole.utils.optimizers import Optimizer

    config = _eole_config(shape)
    specials = _special_words(DefaultTokens)
    names = ("pad_token", "unk_token", "bos_token", "eos_token")
    vocabularies = _vocabularies(shape, DefaultTokens)
    vocabularies["specials"] = dict(zip(names, specials, strict=True))
    model = get_model_class(config.model).for_training(
        config.model, vocabularies, config.training, device_id=-1
    )
    model.train()
    optimizer = Optimizer.from_config(model, config)
    trainer = build_trainer(config, -1, model, vocabularies, optimizer)

    def update(number):
        batch, statistics = batches[number], eole.utils.Statistics()
        inputs = {"src": batch.source, "tgt": batch.whole_target, "images": None}
        inputs |= _lengths(batch) | {"prefix_len": None}
        tokens = int(batch.target_length.sum())
        trainer._train_step([inputs], tokens, eole.utils.Statistics(), statistics)
        return statistics.xent()

    return f"Eole {importlib.metadata.version('eole')}", model, update


def _special_words(tokens):
    return tokens.PAD, tokens.UNK, tokens.BOS, tokens.EOS


def _vocabularies(shape, tokens):
    """The vocabulary of Eole and of OpenNMT-py, whose tokenizer they share."""
    from pyonmttok import build_vocab_from_tokens

    specials = _special_words(tokens)
    words = [f"word{number}" for number in range(shape.vocabulary - len(specials))]
    vocabulary = build_vocab_from_tokens([*specials, *words])
    return {"src": vocabulary, "tgt": vocabulary, "decoder_start_token": tokens.BOS}


def _lengths(batch):
    lengths = {"srclen": batch.source_length, "tgtlen": batch.target_length + 1}
    return lengths | {"cid": [], "cid_line_number": []}


def _eole_config(shape):
    from eole.config.run import TrainConfig

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


def start_opennmt(shape, batches):
    """OpenNMT-py: its trainer's own update (`_gradient_accumulation`), its options' defaults."""
    import onmt
    from onmt.constants import DefaultTokens
    from onmt.model_builder import build_model
    from onmt.trainer import build_trainer
    from onmt.utils.optimizers import Optimizer

    options = _opennmt_options(shape)
    vocabularies = _vocabularies(shape, DefaultTokens) | {"data_task": "seq2seq"}
    model = build_model(options, options, vocabularies, None, -1)
    model.train()
    optimizer = Optimizer.from_opt(model, options)
    trainer = build_trainer(options, -1, model, vocabularies, optimizer, None)

    def update(number):
        batch, statistics = batches[number], onmt.utils.Statistics()
        inputs = {"src": batch.source[:, :, None], "tgt": batch.whole_target[:, :, None]}
        inputs |= _lengths(batch)
        tokens = int(batch.target_length.sum())
        trainer._gradient_accumulation([inputs], tokens, onmt.utils.Statistics(), statistics)
        return statistics.xent()

    return f"OpenNMT-py {onmt.__version__}", model, update


def _opennmt_options(shape):
    from onmt import opts
    from onmt.utils.parse import ArgumentParser

    values = {
        "data": "{}",
        "src_vocab": "unused",
        "save_model": "unused",
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "enc_layers": shape.encoder_layers,
        "dec_layers": shape.decoder_layers,
        "hidden_size": shape.d_model,
        "word_vec_size": shape.d_model,
        "transformer_ff": shape.d_ffn,
        "heads": shape.heads,
        "dropout": shape.dropout,
        "attention_dropout": shape.dropout,
        "param_init": 0,
        "label_smoothing": shape.smoothing,
        "optim": "adam",
        "learning_rate": shape.rate,
        "max_grad_norm": shape.clip,
        "adam_beta1": shape.betas[0],
        "adam_beta2": shape.betas[1],
        "normalization": "tokens",
        "model_dtype": "fp32",
    }
    flags = ("share_embeddings", "share_decoder_embeddings", "position_encoding")
    words = [word for name, value in values.items() for word in (f"-{name}", str(value))]
    parser = ArgumentParser()
    opts.train_opts(parser)
    options = parser.parse_args([*words, *(f"-{flag}" for flag in flags), "-param_init_glorot"])
    options.data = {}
    ArgumentParser.update_model_opts(options)
    return options


TOOLKITS = {
    "untold": start_untold,
    "marian": start_marian,
    "trainer": start_trainer,
    "joeynmt": start_joeynmt,
    "sockeye": start_sockeye,
    "eole": start_eole,
    "opennmt": start_opennmt,
}
