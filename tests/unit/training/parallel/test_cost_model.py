"""The cost model: its counts grow as the operations do, and its fit finds known costs."""

from dataclasses import replace

import pytest

from untold.config import parse_config
from untold.models.build import build_model
from untold.training.parallel.cost_model import (
    Cluster,
    UpdateShape,
    fit_costs,
    predict,
    predict_layout,
)

SHAPE = UpdateShape(6, 10, 12, 500, 32, 64, 2, 2, 3, capsules=6, d_capsule=8)


@pytest.mark.parametrize(
    ("change", "kind", "factor"),
    [
        ({"sentences": 12}, "products", 2),
        ({"sentences": 12}, "routing", 2),
        ({"source": 20, "target": 24}, "attention", 4),
        ({"source": 20, "target": 24}, "routing", 4),
        ({"source": 20, "target": 24}, "products", 2),
        ({"vocabulary": 1000}, "vocabulary", 2),
        ({"capsules": 12}, "routing", 2),
        ({"d_capsule": 16}, "routing", 2),
        ({"iterations": 6}, "routing", 2),
        ({"bow_share": 0.5}, "vocabulary", 2),
    ],
)
def test_work_grows_as_the_operations_do(change, kind, factor):
    assert replace(SHAPE, **change).work()[kind] == pytest.approx(factor * SHAPE.work()[kind])


def test_parameters_are_those_of_the_model_but_for_small_ones():
    sizes = {"d_model": 32, "d_ffn": 64, "heads": 2, "encoder_layers": 2, "decoder_layers": 3}
    separator = {"kind": "gdr", "d_capsule": 8, "lexicon": 0}
    for shape, extra in ((SHAPE, {"separator": separator}), (replace(SHAPE, capsules=0), {})):
        config = parse_config({"model": sizes | extra})
        model = build_model(config.model, (500, 500), shared=True)
        count = sum(p.numel() for p in model.parameters())
        assert shape.parameters == pytest.approx(count, rel=0.15)


def test_a_fit_finds_the_costs_that_made_the_measurements():
    shapes = [
        replace(SHAPE, sentences=b, source=i, vocabulary=v, d_model=d)
        for b in (2, 8)
        for i in (5, 30)
        for v in (100, 2000)
        for d in (16, 64)
    ]
    true = dict.fromkeys(SHAPE.work(), 0.0) | {"products": 2e-9, "routing": 5e-9, "softmax": 1e-8}
    measured = [predict(shape.work(), true) for shape in shapes]
    found = fit_costs([shape.work() for shape in shapes], measured)
    other = replace(SHAPE, sentences=20, target=40, vocabulary=900)
    assert predict(other.work(), found) == pytest.approx(predict(other.work(), true), rel=1e-3)
    assert min(found.values()) >= 0


def test_layouts_wait_for_gradients_only_where_these_take_longer_and_shards_save_memory():
    kept = dict.fromkeys(SHAPE.kept(), 4.0)
    fast = Cluster(flops=1e9, inside=1e12, between=1e12)
    slow = replace(fast, inside=1e3, between=1e3)
    one, eight = (predict_layout(SHAPE, gpus, fast, kept) for gpus in (1, 8))
    assert one.gradients == 0 and one.seconds == eight.seconds == one.compute
    waiting = predict_layout(SHAPE, 8, slow, kept)
    assert waiting.seconds > waiting.compute
    shared = predict_layout(SHAPE, 8, fast, kept, shards=8)
    assert one.memory - shared.memory == pytest.approx(14 * SHAPE.parameters)
