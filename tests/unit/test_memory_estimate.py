"""What cannot fit into memory is refused with an estimate, before anything is allocated."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import untold
from toys import SEPARATORS, separator, shape_of, toy_config, toy_tokenizers, write_corpus
from untold.config import BACKBONES, ModelConfig
from untold.errors import UntoldError
from untold.files import new_directory
from untold.hardware import (
    Vocabularies,
    check_training,
    estimate_search,
    measure_model,
    physical_memory,
)
from untold.models.build import build_model, build_model_for
from untold.models.transformer import Transformer
from untold.storage.model_directory import TrainedModel, load_model, save_model
from untold.training.log import NullReporter
from untold.translator import Translator

CPU = torch.device("cpu")
TEXTS = ["ab cd ef", "gh", "a b c d e f", "", "cd ab", "h g"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def machine(monkeypatch):
    """machine(bytes) -> from now on the machine has so many."""
    return lambda size: monkeypatch.setattr("untold.hardware.physical_memory", lambda *_: size)


def make(corpus: Path, **sections) -> TrainedModel:
    config = toy_config(corpus, **sections)
    tokenizers = toy_tokenizers(corpus, config)
    torch.manual_seed(0)
    return TrainedModel(build_model_for(tokenizers, config.model).eval(), config, tokenizers)


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/\n", {"memory.max": "5000\n"}, 5000),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "7000"}, 7000),
        ("3:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9000"}, 9000),
        ("3:cpu:/x\n", {"memory/x/memory.limit_in_bytes": "9000"}, None),
        ("0::/\n", {"memory.max": "nonsense"}, None),
        ("", {}, None),
    ],
)
def test_the_memory_is_that_of_the_machine_or_of_the_cgroup(tmp_path, cgroup, files, expected):
    for name, text in {"proc/self/cgroup": cgroup}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    whole = physical_memory(tmp_path / "nowhere")
    assert whole > 10**8
    assert physical_memory(tmp_path) == (expected or whole)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("kind", ["none", *SEPARATORS])
@pytest.mark.parametrize("backbone", BACKBONES.names)
def test_a_model_is_measured_without_being_built(backbone, kind, joint):
    extras = {"copying": True, "output_bias": True, "word_prediction": True}
    settings = shape_of(backbone) | extras | {"backbone": backbone, "separator": separator(kind)}
    config, sizes = ModelConfig.model_validate(settings), (31, 29)
    if joint:
        sizes = (31, 31)
    before = torch.get_rng_state()
    found = measure_model(config, Vocabularies(sizes, joint))
    assert torch.equal(before, torch.get_rng_state()), "no random number was drawn"
    model = build_model(config, sizes, shared=joint, counterparts=[0] * sizes[0])
    assert found is not None
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert found.activations > 0


def test_measuring_is_quick_and_leaves_torch_s_compiler_out():
    code = """
import sys
from untold.config import ModelConfig
from untold.hardware import Vocabularies, measure_model
for shape in ({"separator": {"kind": "gdr"}, "copying": True, "output_bias": True},
              {"separator": {"kind": "gdr", "preset": "paper"}},
              {"separator": {"kind": "clf"}}, {"separator": {"kind": "attn"}},
              {"backbone": "rnmt", "attention_coverage": "linguistic"},
              {"backbone": "pfrnn", "attention_coverage": "neural"}):
    measure_model(ModelConfig.model_validate(shape), Vocabularies((9, 9), True))
print("torch._dynamo" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_a_backbone_that_needs_values_is_not_measured(monkeypatch):
    class Curious(Transformer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.first = float(next(self.parameters()).flatten()[0])

    monkeypatch.setitem(BACKBONES._found, "transformer", Curious)
    config = ModelConfig.model_validate(shape_of("transformer"))
    assert measure_model(config, Vocabularies((9, 9), True)) is None


@pytest.mark.parametrize(
    "shape",
    [
        {"d_model": 65_536, "heads": 1},
        {"d_model": 8192, "heads": 1, "encoder_layers": 200, "decoder_layers": 200},
        {"d_ffn": 65_536, "d_model": 16_384, "heads": 1},
        {"backbone": "rnmt", "d_model": 65_536},
        {"separator": {"kind": "gdr", "d_capsule": 65_536, "past": 256}},
    ],
)
def test_a_run_that_cannot_fit_is_refused_before_anything_is_done(corpus, tmp_path, shape, machine):
    machine(25 * 10**9)
    config, out = toy_config(corpus, model=shape), tmp_path / "run"
    began = time.monotonic()
    with pytest.raises(UntoldError, match=r"needs about [\d,.]+ GB for weights and optimizer") as e:
        untold.train(config, untold.RunOptions(out), NullReporter(out, 1))
    assert time.monotonic() - began < 30
    assert "there are 25.0 GB: lower the sizes in [model], tokenizer.size" in str(e.value)
    assert {path.name for path in out.iterdir()} <= {"metrics.jsonl", "settings"}, (
        "no tokenizer, no corpus"
    )


def test_the_vocabulary_counts_as_large_as_it_may_become(corpus, machine):
    config = toy_config(corpus, tokenizer={"size": 100_000})
    machine(10**7)
    check_training(config, Vocabularies((40, 40), True), CPU)
    with pytest.raises(UntoldError, match="vocabulary 100,000"):
        check_training(config, Vocabularies((100_000, 100_000), True), CPU)


def test_a_batch_counts_but_no_larger_than_the_corpus(corpus, tmp_path, machine):
    config = toy_config(corpus, train={"batch_tokens": 100_000_000, "steps": 1})
    machine(10**9)
    out = tmp_path / "run"
    result = untold.train(config, untold.RunOptions(out), NullReporter(out, 1))
    assert result.progress.step == 1, "a small corpus makes a small batch"
    vocabularies = Vocabularies((40, 40), True)
    check_training(config, vocabularies, CPU, tokens=10_000)
    with pytest.raises(UntoldError, match=r"optimizer and [\d.]+ GB for one batch; .*batch_tokens"):
        check_training(config, vocabularies, CPU, tokens=100_000_000)


def test_samples_of_sequence_training_are_part_of_a_batch(corpus, machine):
    config = toy_config(corpus, train={"sequence": {"kind": "mrt", "samples": 1000}})
    machine(10**9)
    check_training(toy_config(corpus), Vocabularies((40, 40), True), CPU, tokens=10_000)
    with pytest.raises(UntoldError, match="for one batch"):
        check_training(config, Vocabularies((40, 40), True), CPU, tokens=10_000)


def test_a_frozen_model_needs_room_for_its_weights_alone(corpus, machine):
    frozen = {"freeze_backbone": True, "best_by": "loss"}
    vocabularies = Vocabularies((100_000, 100_000), True)
    machine(2 * 4 * 8 * 100_000)
    check_training(toy_config(corpus, train=frozen), vocabularies, CPU, tokens=10**9)
    with pytest.raises(UntoldError):
        check_training(toy_config(corpus), vocabularies, CPU)


@pytest.mark.parametrize("width", [65_536, 32_768])
def test_a_model_file_that_asks_for_too_much_is_refused_at_once(corpus, tmp_path, machine, width):
    machine(25 * 10**9)
    path = tmp_path / "model"
    save_model(path, make(corpus))
    contents = {file.name: file.read_bytes() for file in path.iterdir()}
    config = json.loads(contents["config.json"])
    config["model"] |= {"d_model": width, "d_ffn": 65_536}
    contents["config.json"] = json.dumps(config).encode()
    del contents["MANIFEST.json"]
    with new_directory(path, replace=True) as directory:
        for name, data in contents.items():
            (directory / name).write_bytes(data)
    began = time.monotonic()
    with pytest.raises(UntoldError, match=r"needs about [\d,.]+ GB for weights; there are 25.0 GB"):
        load_model(path)
    assert time.monotonic() - began < 30


def test_a_beam_that_no_sentence_can_have_is_refused(corpus, machine):
    translator = Translator([make(corpus)])
    machine(200_000)
    assert translator.with_decoding(beam=2).translate(TEXTS)
    with pytest.raises(UntoldError, match=r"decode\.beam = 1000 .* needs about 0\.\d GB for one"):
        translator.with_decoding(beam=1000)
    sampling = {"sample": True, "nbest": 1000, "beam": 1}
    with pytest.raises(UntoldError, match=r"lower decode\.nbest"):
        translator.with_decoding(**sampling)


def test_where_memory_is_short_batches_are_smaller_and_translations_the_same(corpus, machine):
    trained = make(corpus, decode={"beam": 3, "max_length": 9})
    wide = Translator([trained])
    needed = estimate_search(wide.decode, [trained.config.model], wide.tokenizers.sizes[1], CPU)
    assert needed.of_sentence < 1, "an ordinary machine holds whole batches"
    machine(60_000)
    narrow = Translator([trained])
    sizes = []

    def count(self, segments, first, own=Translator._sentences):
        sizes.append(len(segments))
        return own(self, segments, first)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "_sentences", count)
        few = [each.text for each in narrow.translate(TEXTS)]
        assert max(sizes) < len(TEXTS) - 1
        sizes.clear()
        assert [each.text for each in wide.translate(TEXTS)] == few
        assert sizes == [len(TEXTS) - 1], "one batch of all that are not blank"


def test_the_costs_of_a_sentence_are_those_of_its_scores_and_caches(corpus, machine):
    """A batch of sentences of so many tokens takes half of the memory."""
    trained = make(corpus, decode={"beam": 3, "max_length": 9})
    shape = trained.config.model
    machine(10**6)
    cost = estimate_search(trained.config.decode, [shape, shape], 29, CPU)
    floats = 2 * 3 * (2 * 29) + 9 * (2 * 3 * 2) * (2 * shape.d_model * shape.decoder_layers)
    batch = trained.config.decode.batch_tokens
    assert batch / cost.of_sentence == pytest.approx(10**6 / 2 / (4 * floats))
    assert batch / cost.of_token == pytest.approx(10**6 / 2 / (4 * 12 * 2 * 8))
