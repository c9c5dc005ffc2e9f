from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from untold.inference.kernels import load
from untold.inference.linear import (
    FLOAT_LAYOUTS,
    INT8,
    INT8_PANELS,
    LAYOUTS,
    has_int8,
    has_onednn_int8,
)
from untold.models.backbone import LinearWeight

CPUINFO = Path("/proc/cpuinfo")
needs_int8 = pytest.mark.skipif(not has_int8(), reason="nothing multiplies 8-bit numbers here")
needs_both = pytest.mark.skipif(
    load() is None or not has_onednn_int8(),
    reason="the kernels were not compiled here, or torch has no 8-bit products",
)
BYTES = [INT8] if has_onednn_int8() else []
BYTES += [] if load() is None else [INT8_PANELS]


def layer(outputs: int, inputs: int, *, bias: bool = True) -> LinearWeight:
    torch.manual_seed(outputs)
    return LinearWeight(torch.randn(outputs, inputs), torch.randn(outputs) if bias else None)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 4, 70])
@pytest.mark.parametrize("layout", FLOAT_LAYOUTS)
def test_every_layout_computes_the_same_product(layout, rows, bias):
    linear = layer(96, 40, bias=bias)
    x = torch.randn(rows, 40)
    with torch.inference_mode():
        found = LAYOUTS[layout](linear)(x)
    torch.testing.assert_close(found, F.linear(x, linear.weight, linear.bias), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(
    not CPUINFO.exists() or "avx512_vnni" not in CPUINFO.read_text(),
    reason="this processor is not known to multiply 8-bit numbers",
)
def test_a_processor_with_8_bit_products_has_them():
    """Else all tests of them would be skipped because of a fault of ours."""
    assert has_int8() and has_onednn_int8()
    kernels = load()
    assert kernels is None or kernels.has_bytes


@needs_int8
@pytest.mark.parametrize("layout", BYTES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 4, 70])
def test_eight_bits_are_near(layout, rows, bias):
    linear = layer(96, 40, bias=bias)
    x = torch.randn(rows, 40) * torch.logspace(-3, 3, rows)[:, None]
    with torch.inference_mode():
        found = LAYOUTS[layout](linear)(x)
    exact = F.linear(x, linear.weight, linear.bias)
    size = exact.abs().amax(1, keepdim=True)
    assert ((found - exact).abs() / size).max() < 0.02
    assert not torch.equal(found, exact)


@needs_both
@pytest.mark.parametrize("inputs", [3, 41, 512])
@pytest.mark.parametrize("rows", [1, 2, 4, 7])
def test_our_own_8_bit_sums_are_those_of_onednn(rows, inputs):
    linear = layer(45, inputs)
    x = torch.randn(rows, inputs)
    with torch.inference_mode():
        torch.testing.assert_close(LAYOUTS[INT8_PANELS](linear)(x), LAYOUTS[INT8](linear)(x))


@needs_int8
@pytest.mark.parametrize("layout", BYTES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_rounded_away(layout, bad):
    x = torch.ones(2, 16)
    x[1, 5] = bad
    with torch.inference_mode():
        found = LAYOUTS[layout](layer(8, 16))(x)
    assert found[0].isfinite().all() and not found[1].isfinite().any()


@needs_int8
@pytest.mark.parametrize("layout", BYTES)
def test_a_row_does_not_depend_on_the_rows_beside_it(layout):
    linear = layer(64, 32)
    x = torch.randn(9, 32)
    x[5] *= 1000
    with torch.inference_mode():
        apply = LAYOUTS[layout](linear)
        together = apply(x)
        for row in range(9):
            assert torch.equal(apply(x[row : row + 1])[0], together[row])


@needs_int8
@pytest.mark.parametrize("layout", BYTES)
def test_zeros_stay_zeros(layout):
    linear = LinearWeight(torch.zeros(8, 16), torch.arange(8.0))
    with torch.inference_mode():
        found = LAYOUTS[layout](linear)(torch.zeros(3, 16))
    assert torch.equal(found, torch.arange(8.0).expand(3, 8))
