"""Sockeye 3: EarlyStoppingTrainer's own step, with its losses and its optimizer."""

import tempfile

import sockeye
import torch
from sockeye import constants as C
from sockeye import data_io, encoder, loss, model, optimizers, training, transformer


def version():
    return f"Sockeye {sockeye.__version__}"


def start(shape, batches):
    network = model.SockeyeModel(_config(shape))
    network.apply(model.initialize_parameters)
    network.train()
    first = _batch(batches[0])
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
        config=_trainer_config(),
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
        trainer._step(_batch(batches[number]))
        return metric.get()

    update.parameters = sum(p.numel() for p in network.parameters())
    return update


def _batch(batch):
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


def _config(shape):
    def side(layers):
        return transformer.TransformerConfig(
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
            max_seq_len_source=512,
            max_seq_len_target=512,
            depth_key_value=shape.d_model,
        )

    embedding = encoder.EmbeddingConfig(
        vocab_size=shape.vocabulary,
        num_embed=shape.d_model,
        dropout=0.0,
        factor_configs=None,
        allow_sparse_grad=False,
    )
    data = data_io.DataConfig(
        data_statistics=None,
        max_seq_len_source=512,
        max_seq_len_target=512,
        num_source_factors=1,
        num_target_factors=1,
    )
    return model.ModelConfig(
        config_data=data,
        vocab_source_size=shape.vocabulary,
        vocab_target_size=shape.vocabulary,
        config_embed_source=embedding,
        config_embed_target=embedding,
        config_encoder=side(shape.encoder_layers),
        config_decoder=side(shape.decoder_layers),
    )


def _trainer_config():
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
