"""The table of layouts, and which weights become 8-bit numbers."""

import pytest
import torch

from untold.inference import linear
from untold.inference.linear import (
    BYTES,
    INT8,
    INT8_PANELS,
    LAYOUTS,
    PACKED,
    PANELS,
    TRANSPOSED,
    LaidOut,
    choose_layout,
)
from untold.models.backbone import LinearWeight


@pytest.fixture
def threads(monkeypatch):
    """threads(n) -> torch seems to have so many."""
    return lambda count: monkeypatch.setattr(torch, "get_num_threads", lambda: count)


def layers(*shapes):
    torch.manual_seed(1)
    return [LinearWeight(torch.randn(shape), torch.randn(shape[0])) for shape in shapes]


@pytest.mark.parametrize(
    ("shape", "rows", "alone", "in_threads", "without_panels"),
    [
        ((128, 128), 64, TRANSPOSED, TRANSPOSED, TRANSPOSED),
        ((512, 128), 1, PANELS, PANELS, TRANSPOSED),
        ((512, 128), 64, PANELS, PACKED, PACKED),
        ((512, 128), 256, PANELS, PACKED, PACKED),
        ((1024, 256), 64, PANELS, PACKED, PACKED),
        ((1024, 256), 65, PACKED, PACKED, PACKED),
        ((8000, 128), 32, PANELS, PACKED, PACKED),
        ((8000, 128), 64, PACKED, PACKED, PACKED),
        ((16_000, 512), 1, PANELS, PACKED, PACKED),
        ((16_000, 512), 2, PACKED, PACKED, PACKED),
    ],
)
def test_the_layout_follows_the_table(
    shape, rows, alone, in_threads, without_panels, threads, monkeypatch
):
    monkeypatch.setattr(linear, "FLOAT_LAYOUTS", (TRANSPOSED, PACKED, PANELS))
    threads(1)
    assert choose_layout(shape, rows) == alone
    threads(2)
    assert choose_layout(shape, rows) == in_threads
    monkeypatch.setattr(linear, "FLOAT_LAYOUTS", (TRANSPOSED, PACKED))
    assert choose_layout(shape, rows) == without_panels
    monkeypatch.setattr(linear, "FLOAT_LAYOUTS", (TRANSPOSED,))
    assert choose_layout(shape, rows) == TRANSPOSED


@pytest.fixture
def made(monkeypatch):
    """Names the layouts as they are made."""
    names = []
    for name, plain in list(LAYOUTS.items()):
        monkeypatch.setitem(
            LAYOUTS, name, lambda *a, name=name, plain=plain: (names.append(name), plain(*a))[1]
        )
    return names


def test_a_laid_out_weight_serves_all_numbers_of_rows_that_chose_its_layout(made, threads):
    threads(1)
    laid_out = LaidOut(layers((256, 160)))
    (one,) = laid_out.for_rows(1)
    assert laid_out.for_rows(64) == laid_out.for_rows(1) == [one]
    assert made == [choose_layout((256, 160), 1)]


def test_large_weights_alone_become_8_bit_numbers(made, threads):
    threads(1)
    laid_out = LaidOut(layers((1024, 128), (1023, 128), (20, 8193)), int8=True)
    laid_out.for_rows(64)
    assert made == [BYTES, TRANSPOSED, TRANSPOSED]
    laid_out.for_rows(4)
    assert len(made) == 3
    if BYTES == INT8_PANELS:
        assert laid_out.in_panels() is not None and made[3:] == [PANELS]


def test_many_rows_of_8_bit_numbers_are_multiplied_in_all_threads(made, threads):
    if not linear.has_onednn_int8():
        pytest.skip("torch multiplies no 8-bit numbers here")
    threads(2)
    laid_out = LaidOut(layers((1024, 128)), int8=True)
    laid_out.for_rows(5)
    assert made[-1] == INT8
    laid_out.for_rows(4)
    assert set(made) == {INT8, BYTES}
