"""ONNX graphs in onnxruntime, beside the model that they were made of."""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from conversion_toys import TEXTS, one_fast, toy_trained
from toys import BOS, separator
from untold.errors import UntoldError
from untold.export.onnx import DESCRIPTION, write_onnx_model
from untold.storage.model_directory import save_model

sys.path.append(str(Path(__file__).parents[3] / "examples"))
SMALL = {"encoder_layers": 1, "decoder_layers": 2}
FORMS = {
    "coverage": {"separator": separator("gdr-said")},
    "plain, norms after": {"norm": "post", "activation": "swish"},
    "paper": {"separator": separator("gdr-mlp")},
    "attention": {"separator": separator("attn")},
}


@pytest.fixture(scope="module", params=one_fast(FORMS))
def exported(request, tmp_path_factory):
    """A model and its graphs, written by the command: tracing does not mix with checks of types."""
    trained = toy_trained(**SMALL, **FORMS[request.param])
    place = tmp_path_factory.mktemp("onnx")
    save_model(place / "own", trained)
    export = [sys.executable, "-m", "untold", "export", place / "own", "--to", "onnx"]
    run = subprocess.run([*export, "--out", place / "model"], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    return trained, place / "model"


class Runtime:
    """The two graphs, and names for what they return."""

    def __init__(self, folder):
        self.encoder, self.step = (
            onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "step")
        )
        self.description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))

    def run(self, graph, **values):
        wanted = {each.name: values[each.name] for each in graph.get_inputs()}
        names = [each.name for each in graph.get_outputs()]
        return dict(zip(names, graph.run(None, wanted), strict=True))


@pytest.mark.parametrize(("b", "n", "i"), [(1, 1, 1), (1, 1, 6), (3, 2, 7), (2, 4, 3)])
def test_steps_are_those_of_the_model(exported, b, n, i):
    """Random tokens, beams and lengths, with padding; none of the sizes was traced."""
    trained, folder = exported
    model, runtime, dice = trained.model, Runtime(folder), random.Random(b + n + i)
    size = len(trained.tokenizers.target)

    def draw(*shape):
        return torch.tensor([dice.randrange(4, size) for _ in range(shape[0] * shape[1])]).view(
            shape
        )

    ids, mask = draw(b, i), torch.ones(b, i, dtype=torch.bool)
    mask[1:, 2:] = False
    memory = runtime.run(runtime.encoder, source_ids=ids.numpy(), source_mask=mask.numpy())
    shape, last = runtime.description, torch.full((b, n), BOS)
    past = np.zeros((b, n, shape["layers"], 2, shape["heads"], 0, shape["head_width"]), np.float32)
    state = {"past": past, "covered": np.zeros((b, n, i), np.float32)}
    with torch.inference_mode():
        source = model.encode(ids, mask)
        own = model.start(source, n)
        for _ in range(9):
            given = {"last": last.numpy(), "source_mask": mask.numpy(), **state, **memory}
            found = runtime.run(runtime.step, **given)
            expected = model.step(source, last, own)
            own, last = expected.state, draw(b, n)
            assert np.abs(found["logits"] - expected.logits.numpy()).max() < 1e-4
            if expected.assignments is not None:
                assert found["assignments"].shape == expected.assignments.shape
                assert np.abs(found["assignments"] - expected.assignments.numpy()).max() < 1e-4
            state["past"] = found["next_past"]
            state["covered"] = found.get("next_covered", state["covered"])


def test_the_description_is_that_of_the_graphs(exported):
    trained, folder = exported
    runtime = Runtime(folder)
    for name, graph in (("encoder", runtime.encoder), ("step", runtime.step)):
        described = runtime.description["graphs"][name]
        assert [each.name for each in graph.get_inputs()] == list(described["inputs"])
        assert [each.name for each in graph.get_outputs()] == list(described["outputs"])
        for each in graph.get_inputs():
            assert each.shape == described["inputs"][each.name]["shape"]
    has_past_future = trained.model.past_future is not None
    assert ("assignments" in described["outputs"]) == has_past_future


def test_the_example_translates_as_untold_does(exported, tmp_path, capsys):
    import translate_onnx

    from untold import load

    trained, folder = exported
    save_model(tmp_path / "own", trained)
    ours = load(tmp_path / "own").with_decoding(beam=1)
    translate_onnx.main([str(folder), *TEXTS])
    printed = capsys.readouterr().out.split("\n")
    assert [line for line in printed if line and not line.startswith("  ")] == [
        ours.translate(text).text for text in TEXTS
    ]
    assert any("untold" in line for line in printed) == (trained.model.past_future is not None)


def test_a_missing_package_is_named_with_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UntoldError, match=r"needs onnx: pip install 'untold\[onnx\]'"):
        write_onnx_model(toy_trained(updates=0, **SMALL), tmp_path / "out", "toy")
    assert not (tmp_path / "out").exists()
