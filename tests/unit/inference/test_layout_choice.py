import json
import time

import pytest
import torch
import torch.nn.functional as F

from untold.inference import linear as layout_choice
from untold.inference.linear import BYTES, FLOAT_LAYOUTS, INT8_PANELS, LAYOUTS, LaidOut, rows_class
from untold.models.backbone import LinearWeight

LARGE, SMALL = (256, 160), (16, 16)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "untold"


def layers(*shapes):
    torch.manual_seed(1)
    return [LinearWeight(torch.randn(shape), torch.randn(shape[0])) for shape in shapes]


def slow_down(monkeypatch, *names):
    """Makes some layouts slow, and counts how often each is made."""
    made = []

    def counted(name, make):
        def build(layer):
            made.append((name, layer.shape))
            apply = make(layer)
            wait = 0.02 if name in names else 0.0
            return lambda x: (time.sleep(wait), apply(x))[1]

        return build

    for name in FLOAT_LAYOUTS:
        monkeypatch.setitem(LAYOUTS, name, counted(name, LAYOUTS[name]))
    return made


def read(cache):
    (path,) = cache.glob("layouts-*.json")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("best", FLOAT_LAYOUTS)
def test_the_fastest_layout_is_chosen_and_remembered(best, cache, monkeypatch):
    slow_down(monkeypatch, *(name for name in FLOAT_LAYOUTS if name != best))
    made = layers(LARGE, SMALL)
    with torch.inference_mode():
        chosen = LaidOut(made).for_rows(3)
        for apply, layer in zip(chosen, made, strict=True):
            x = torch.randn(3, layer.shape[1])
            expected = F.linear(x, layer.weight, layer.bias)
            torch.testing.assert_close(apply(x), expected, rtol=1e-5, atol=1e-4)
    assert read(cache) == {"256x160, 4 rows": best}, "small weights are not measured"


def test_what_is_remembered_is_not_measured_again(cache, monkeypatch):
    slow_down(monkeypatch, *(name for name in FLOAT_LAYOUTS if name != "transposed"))
    LaidOut(layers(LARGE)).for_rows(1)
    known = read(cache)
    made = slow_down(monkeypatch, "transposed")
    LaidOut(layers(LARGE)).for_rows(1)
    assert [name for name, _ in made] == [known["256x160, 1 rows"]] == ["transposed"]
    LaidOut(layers(LARGE)).for_rows(64)
    assert read(cache).keys() == {"256x160, 1 rows", "256x160, 64 rows"}


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"256x160, 1 rows": "crooked"}', "\xff"])
def test_a_damaged_file_is_measured_anew(text, cache):
    LaidOut(layers(LARGE)).for_rows(1)
    (path,) = cache.glob("layouts-*.json")
    path.write_text(text, encoding="latin-1")
    LaidOut(layers(LARGE)).for_rows(1)
    assert read(cache)["256x160, 1 rows"] in FLOAT_LAYOUTS


def test_without_a_place_to_write_it_measures_every_time(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    measured = []
    plain = LaidOut._measure
    monkeypatch.setattr(LaidOut, "_measure", lambda *a: (measured.append(1), plain(*a))[1])
    for _ in range(2):
        (apply,) = LaidOut(layers(LARGE)).for_rows(1)
        assert apply(torch.ones(1, 160)).shape == (1, 256)
    assert len(measured) == 2


def test_a_laid_out_weight_serves_all_numbers_of_rows_that_chose_its_layout(cache, monkeypatch):
    slow_down(monkeypatch, "plain", "packed")
    found = LaidOut(layers(LARGE))
    one, many = found.for_rows(1), found.for_rows(200)
    assert found.for_rows(1) is one
    made = slow_down(monkeypatch)
    found.for_rows(3)
    assert len(made) <= len(FLOAT_LAYOUTS)
    assert one and many


def test_large_weights_alone_become_8_bit_numbers(cache, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    made = []
    for name in LAYOUTS:
        plain = LAYOUTS[name]
        monkeypatch.setitem(
            LAYOUTS, name, lambda *a, name=name, plain=plain: (made.append(name), plain(*a))[1]
        )
    laid_out = LaidOut(layers((1024, 128), (1023, 128), (20, 8193)), int8=True)
    laid_out.for_rows(64)
    assert made == [BYTES, "transposed", "transposed"]
    laid_out.for_rows(4)
    assert len(made) == 3
    if BYTES == INT8_PANELS:
        assert laid_out.in_panels() is not None and made[3:] == ["panels"]
    assert not cache.exists(), "nothing is measured"


def test_the_choice_is_made_for_few_numbers_of_rows():
    assert [rows_class(n) for n in (1, 2, 4, 5, 60, 64, 65, 10_000)] == [
        1, 4, 4, 16, 64, 64, 256, 256,
    ]  # fmt: skip


def test_the_file_names_processor_torch_and_threads(cache):
    LaidOut(layers(LARGE)).for_rows(1)
    (path,) = cache.glob("*.json")
    assert torch.__version__.split("+")[0] in path.name
    assert f"threads-{torch.get_num_threads()}" in path.name
    assert layout_choice._machine() in path.name
