"""The Transformer against torch's own, and against formulas for its size."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from toys import fill, toy_batch, toy_model, words
from untold.models.build import build_model
from untold.models.layers import PositionalEmbedding
from untold.models.transformer import TransformerConfig


def reference(model, d_model=44, heads=11, d_ffn=19):
    """torch.nn.Transformer with the same weights, embeddings and output layer left out."""
    shape = (d_model, heads, d_ffn, 0.0)
    options = {"norm_first": True, "batch_first": True}
    encoder = nn.TransformerEncoder(  # made apart, because nested tensors warn about norm_first
        nn.TransformerEncoderLayer(*shape, **options), 2, nn.LayerNorm(d_model), False
    )
    theirs = nn.Transformer(
        d_model, heads, 2, 3, d_ffn, dropout=0.0, custom_encoder=encoder, **options
    ).eval()
    ours = model.backbone
    for their, layer in zip(theirs.encoder.layers, ours.encoder, strict=True):
        copy_attention(their.self_attn, layer.attention.qkv, None, layer.attention.out)
        copy(their, {"norm1": layer.attention_norm, "norm2": layer.ffn_norm})
        copy(their, {"linear1": layer.ffn.inner, "linear2": layer.ffn.outer})
    for their, layer in zip(theirs.decoder.layers, ours.decoder, strict=True):
        copy_attention(their.self_attn, layer.self_attention.qkv, None, layer.self_attention.out)
        cross = layer.cross_attention
        copy_attention(their.multihead_attn, cross.query, cross.key_value, cross.out)
        copy(their, {"norm1": layer.self_norm, "norm2": layer.cross_norm, "norm3": layer.ffn_norm})
        copy(their, {"linear1": layer.ffn.inner, "linear2": layer.ffn.outer})
    copy(theirs.encoder, {"norm": ours.encoder_norm})
    copy(theirs.decoder, {"norm": ours.decoder_norm})
    return theirs


@torch.no_grad()
@pytest.mark.parametrize(("activation", "function"), [("relu", F.relu), ("gelu", F.gelu)])
def test_norms_after_the_sublayers_are_those_of_torch_s_layers(activation, function):
    model = toy_model(norm="post", activation=activation)
    ours, batch = model.backbone, toy_batch([(4, 6), (1, 2), (3, 5)])
    shape, mask = (44, 11, 19, 0.0, function), batch.source_mask
    x, y = ours.source_embedding(batch.source), ours.target_embedding(batch.prefix)
    for layer in ours.encoder:
        their = nn.TransformerEncoderLayer(*shape, batch_first=True)
        copy_attention(their.self_attn, layer.attention.qkv, None, layer.attention.out)
        copy(their, {"norm1": layer.attention_end, "norm2": layer.ffn_end})
        copy(their, {"linear1": layer.ffn.inner, "linear2": layer.ffn.outer})
        x = their(x, src_key_padding_mask=~mask)
    causal = nn.Transformer.generate_square_subsequent_mask(7).isinf()
    for layer in ours.decoder:
        their, cross = nn.TransformerDecoderLayer(*shape, batch_first=True), layer.cross_attention
        copy_attention(their.self_attn, layer.self_attention.qkv, None, layer.self_attention.out)
        copy_attention(their.multihead_attn, cross.query, cross.key_value, cross.out)
        copy(their, {"norm1": layer.self_end, "norm2": layer.cross_end, "norm3": layer.ffn_end})
        copy(their, {"linear1": layer.ffn.inner, "linear2": layer.ffn.outer})
        y = their(y, x, tgt_mask=causal, memory_key_padding_mask=~mask)
    states, real = model(batch.source, mask, batch.prefix).states, batch.target_mask
    assert y.std() > 0.1  # the comparison has something to compare
    torch.testing.assert_close(states[real], y[real], rtol=1e-4, atol=1e-4)


def copy(theirs, modules):
    for name, module in modules.items():
        getattr(theirs, name).load_state_dict(module.state_dict())


def copy_attention(theirs, first, second, out):
    parts = [first] if second is None else [first, second]
    theirs.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
    theirs.in_proj_bias.data = torch.cat([part.bias.data for part in parts])
    theirs.out_proj.load_state_dict(out.state_dict())


def sinusoids(length, d):
    """sin(t / 10000^(2k/d)) and cos of the same, pair by pair, in plain Python."""
    rows = []
    for t in range(length):
        angles = [t / 10000 ** (2 * k / d) for k in range(d // 2)]
        rows.append([f(angle) for angle in angles for f in (math.sin, math.cos)])
    return torch.tensor(rows)


def embed(table, ids):
    d = table.shape[1]
    return math.sqrt(d) * table[ids] + sinusoids(ids.shape[1], d)


@torch.no_grad()
@pytest.mark.parametrize("shared", [True, False])
def test_logits_are_those_of_torch_s_transformer(shared):
    model = toy_model((17, 13), shared=False) if not shared else toy_model()
    batch = toy_batch([(4, 6), (1, 2), (3, 5)])
    source_table = model.backbone.source_embedding.embedding.weight
    target_table = model.backbone.target_embedding.embedding.weight
    states = reference(model)(
        embed(source_table, batch.source),
        embed(target_table, batch.prefix),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(7).isinf(),
        src_key_padding_mask=~batch.source_mask,
        memory_key_padding_mask=~batch.source_mask,
        tgt_is_causal=True,
    )
    logits = model.logits(model(batch.source, batch.source_mask, batch.prefix).holistic)
    expected = states @ target_table.T
    assert expected.std() > 0.1  # the comparison has something to compare
    real = batch.target_mask
    torch.testing.assert_close(logits[real], expected[real], rtol=1e-4, atol=1e-4)


def parameter_count(settings, vocabularies, *, shared, tied):
    """By hand: attention 4 d (d + 1), feed-forward 2 d f + f + d, norm 2 d, embeddings v d."""
    d, f = settings["d_model"], settings["d_ffn"]
    attention, ffn, norm = 4 * d * (d + 1), 2 * d * f + f + d, 2 * d
    encoder = settings["encoder_layers"] * (attention + ffn + 2 * norm) + norm
    decoder = settings["decoder_layers"] * (2 * attention + ffn + 3 * norm) + norm
    source, target = vocabularies
    embeddings = target * d + (0 if shared else source * d) + (0 if tied else target * d)
    return encoder + decoder + embeddings


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("preset", TransformerConfig.presets)
def test_parameters_are_as_many_as_the_formula_says(preset, shared, tied):
    config = TransformerConfig(preset=preset, tie_embeddings=tied)
    vocabularies = (101, 101) if shared else (103, 101)
    with torch.device("meta"):  # counts need no memory
        model = build_model(config, vocabularies, shared=shared)
    expected = parameter_count(
        TransformerConfig.presets[preset], vocabularies, shared=shared, tied=tied
    )
    assert sum(p.numel() for p in model.parameters()) == expected


def test_the_base_preset_is_the_transformer_base_of_the_literature():
    """About 60 million parameters with a joint vocabulary of 32 000."""
    with torch.device("meta"):
        model = build_model(TransformerConfig(preset="base"), (32_000, 32_000), shared=True)
    assert 60e6 < sum(p.numel() for p in model.parameters()) < 61e6


def test_what_is_tied_is_one_tensor_and_what_is_not_is_two():
    tied, untied = toy_model(), toy_model(tie_embeddings=False)
    assert tied.output_embedding() is tied.backbone.target_embedding.embedding.weight
    assert untied.output_embedding() is not untied.backbone.target_embedding.embedding.weight
    separate = toy_model((17, 13), shared=False).backbone
    source, target = separate.source_embedding.embedding, separate.target_embedding.embedding
    assert (source.num_embeddings, target.num_embeddings) == (17, 13)


@torch.no_grad()
def test_positions_beyond_the_table_are_what_a_longer_table_gives():
    table = nn.Embedding(13, 22)
    short, long = (PositionalEmbedding(table, 0.0, known=known).eval() for known in (3, 1100))
    ids = words(2, 1090)
    torch.testing.assert_close(short(ids), long(ids), rtol=0, atol=1e-6)
    torch.testing.assert_close(short(ids[:, :5], 1000), long(ids[:, :5], 1000), rtol=0, atol=1e-6)
    expected = embed(table.weight, ids)
    torch.testing.assert_close(long(ids), expected, rtol=0, atol=1e-4)


@torch.no_grad()
def test_a_long_sentence_is_decoded_step_by_step_beyond_the_table():
    whole, short = toy_model(), toy_model()
    short.backbone.target_embedding.table = short.backbone.target_embedding.table[:3]
    source, mask, prefix = words(1, 5), torch.ones(1, 5, dtype=torch.bool), words(1, 7)
    expected = whole.backbone.decode(whole.encode(source, mask), prefix).states
    encoded = short.encode(source, mask)
    torch.testing.assert_close(
        short.backbone.decode(encoded, prefix).states, expected, rtol=0, atol=1e-5
    )
    state, states = short.start(encoded, 1), []
    for last in prefix.split(1, dim=1):
        decoded, state = short.backbone.step(encoded, last, state)
        states.append(decoded.states)
    torch.testing.assert_close(torch.cat(states, 1), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("which", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_acts_while_training_and_rests_in_evaluation(which):
    none = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    still, dropping = toy_model(**none), toy_model(**none | {which: 0.5})
    batch = toy_batch([(4, 6), (1, 2)])

    def states(model):
        torch.manual_seed(3)
        return model(batch.source, batch.source_mask, batch.prefix).states

    torch.testing.assert_close(states(dropping), states(still), rtol=0, atol=0)
    still.train(), dropping.train()
    assert not torch.allclose(states(dropping), states(still), atol=1e-3)
    torch.testing.assert_close(states(still), states(toy_model(**none)), rtol=0, atol=0)


def test_dropout_reaches_every_sublayer_and_both_embeddings():
    """Dropping nearly all of it leaves nothing to norm: what escaped dropout would show."""
    model = toy_model(dropout=0.99998).train()
    batch = toy_batch([(4, 6), (1, 2), (3, 5)])
    torch.manual_seed(3)
    outputs = model(batch.source, batch.source_mask, batch.prefix)
    for states, norm in (
        (outputs.source.states, model.backbone.encoder_norm),
        (outputs.states, model.backbone.decoder_norm),
    ):
        torch.testing.assert_close(states, norm.bias.expand_as(states), rtol=0, atol=1e-6)


def test_a_fresh_model_is_sane():
    """Weights of the scale that training starts from: logits near a uniform distribution."""
    torch.manual_seed(5)
    config = TransformerConfig(preset="tiny", dropout=0.0)
    model = build_model(config, (53, 53), shared=True).eval()
    batch = toy_batch([(4, 6), (1, 2), (3, 5)], size=53)
    with torch.no_grad():
        logits = model.logits(model(batch.source, batch.source_mask, batch.prefix).holistic)
    labels = batch.labels[batch.target_mask]
    loss = nn.functional.cross_entropy(logits[batch.target_mask], labels)
    assert abs(float(loss) - math.log(53)) < 1.5
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    assert all(bool((p == 0).all()) for p in biases)


def test_fill_reaches_every_parameter():
    """The formula of the tests leaves nothing at its initial value, and repeats itself exactly."""
    one, other = toy_model(), fill(toy_model())
    for (name, p), (_, q) in zip(one.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(p, q), name
        assert p.std() > 0.05, name
