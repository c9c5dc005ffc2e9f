"""The recurrent model against NumPy loops written from the formulas, one sentence at a time."""

import numpy as np
import pytest
import torch

from numpy_rnmt import NumpyRnmt
from toys import SHAPES, separator, toy_batch, toy_model
from untold.config import ModelConfig
from untold.models.build import build_model
from untold.models.gru import GRUCell

BATCH = toy_batch([(4, 6), (1, 2), (3, 5)])
VARIANTS = [
    {},
    {"encoder_layers": 1, "tie_embeddings": False},
    {"vocabularies": (17, 13), "shared": False},
]


def made(**settings):
    return toy_model(**{"backbone": "rnmt", **settings}).double()


def outputs_of(model):
    return model(BATCH.source, BATCH.source_mask, BATCH.prefix, attention=True)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
@torch.no_grad()
def test_it_is_its_formulas(settings):
    model = made(**settings)
    outputs, oracle = outputs_of(model), NumpyRnmt(model)
    for row in range(3):
        real = int(BATCH.source_mask[row].sum())
        length = int(BATCH.target_mask[row].sum())
        h = oracle.encode(BATCH.source[row, :real].numpy())
        np.testing.assert_allclose(outputs.source.states[row, :real].numpy(), h, atol=1e-12)
        found = oracle.decode(h, BATCH.prefix[row, :length].numpy())
        own = outputs.states, outputs.attention[:, :, :real], model.logits(outputs.holistic)
        for ours, theirs in zip(own, (found.states, found.attention, found.logits), strict=True):
            np.testing.assert_allclose(ours[row, :length].numpy(), theirs, atol=1e-12)
    assert outputs.attention.std() > 0.05, "it looks somewhere"


@torch.no_grad()
def test_a_cell_is_torch_s_own():
    cell = GRUCell(5, 7).double()
    reference = torch.nn.GRUCell(5, 7).double()
    for name, part in (("ih", cell.read), ("hh", cell.recur)):
        part.weight.copy_(getattr(reference, f"weight_{name}"))
        part.bias.copy_(getattr(reference, f"bias_{name}"))
    x, hidden = torch.linspace(-3, 3, 55).double().view(11, 5), torch.ones(11, 7).double()
    expected = reference(x, hidden)
    torch.testing.assert_close(cell(cell.read(x)[:, None], hidden[:, None])[:, 0], expected)


def test_gradients_are_those_of_finite_differences():
    """The decoder loop is our own: check every parameter, in a random direction."""
    model = made(d_embedding=6, d_model=5, encoder_layers=1)
    weights = torch.arange(3 * 7 * 13).double().sin().view(3, 7, 13)

    def value():
        return (model.logits(outputs_of(model).holistic) * weights).sum()

    value().backward()
    for name, parameter in model.named_parameters():
        direction = torch.arange(parameter.numel()).double().add(1).cos().view(parameter.shape)
        differences = []
        for sign in (1e-6, -1e-6):
            with torch.no_grad():
                parameter.add_(direction, alpha=sign)
                differences.append(value())
                parameter.sub_(direction, alpha=sign)
        expected = (differences[0] - differences[1]) / 2e-6
        found = (parameter.grad * direction).sum()
        assert found == pytest.approx(float(expected), rel=1e-5, abs=1e-6), name


@pytest.mark.parametrize(("layers", "shared", "tied"), [(1, True, True), (2, False, False)])
def test_the_number_of_parameters_is_that_of_the_formula(layers, shared, tied):
    e, d, source, target = 22, 14, 17 if not shared else 13, 13
    settings = SHAPES["rnmt"] | {"backbone": "rnmt", "encoder_layers": layers}
    config = ModelConfig.model_validate(settings | {"tie_embeddings": tied})
    model = build_model(config, (source, target), shared=shared)
    embeddings = e * (target + (0 if shared else source) + (0 if tied else target))

    def gru(width):
        return 3 * d * (width + d + 2)

    encoder = 2 * gru(e) + 2 * (layers - 1) * gru(2 * d)
    decoder = gru(e) + gru(2 * d) + d * (2 * d + 1)
    attention = 2 * d * d + d * d + d + d
    readout = e * e + d * e + e + 2 * d * e
    total = sum(p.numel() for p in model.parameters())
    assert total == embeddings + encoder + decoder + attention + readout


def test_recurrent_maps_begin_orthogonal_and_nothing_begins_saturated():
    torch.manual_seed(1)
    config = ModelConfig.model_validate({"backbone": "rnmt", "preset": "tiny"})
    model = build_model(config, (50, 50), shared=True).eval()
    backbone = model.backbone
    for weight in (backbone.first.recur.weight, backbone.encoder.weight_hh_l0_reverse):
        for gate in weight.chunk(3):
            torch.testing.assert_close(gate @ gate.T, torch.eye(192), rtol=0, atol=1e-4)
    limit = (6 / (192 + 128)) ** 0.5
    assert 0.95 * limit < backbone.first.read.weight.abs().max() <= limit
    with torch.no_grad():
        outputs = outputs_of(model)
    assert outputs.states.abs().max() < 0.99 and outputs.states.std() > 0.05
    assert model.logits(outputs.holistic).std() < 1.5


def test_dropout_is_where_it_is_usual_and_nowhere_else():
    """Embeddings, encoder states and readout: with all of one kind dropped, nothing else moves."""
    model = made(dropout=0.5).train()
    torch.manual_seed(3)
    source = model.backbone.encode(BATCH.source, BATCH.source_mask)
    real = source.states[BATCH.source_mask]
    assert 0.3 < (real == 0).double().mean() < 0.7
    with torch.no_grad():
        finished = model.backbone.finish(torch.ones(50, 40, 1).double())
    kept = finished[finished != 0]
    assert 0.4 < (finished == 0).double().mean() < 0.6
    torch.testing.assert_close(kept, torch.full_like(kept, 2 * np.tanh(1.0)), rtol=1e-3, atol=0)


@torch.no_grad()
def test_the_source_is_not_copied_for_beams():
    """Nothing in a step is larger than the source's memory, however many beams there are."""
    model = made()
    source = model.encode(BATCH.source, BATCH.source_mask)
    state = model.start(source, 50)
    assert state.hidden.shape == (150, 14)
    taken = model.step(source, torch.full((3, 50), 5), state)
    torch.testing.assert_close(taken.logits, taken.logits[:, :1].expand(-1, 50, -1))


@torch.no_grad()
def test_capsules_join_the_readout_before_it_is_bounded():
    for preset in ("default", "paper"):
        model = made(separator=separator("gdr-dot", preset=preset))
        outputs = outputs_of(model)
        decoded = model.backbone.decode(outputs.source, BATCH.prefix)
        capsules = torch.cat([outputs.separated.past, outputs.separated.future], -1)
        part = model.past_future.fusion
        if preset == "default":
            addend = capsules @ part.transform.weight.T
        else:
            joined = part.norm(torch.cat([outputs.states, capsules], -1))
            addend = part.transform.outer(part.transform.inner(joined).relu())
        torch.testing.assert_close(outputs.holistic, (decoded.readout + addend).tanh())
        assert addend.abs().max() > 1e-2
