"""Model directories: whole, consistent, and refused by name when they are not."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.errors import UntoldError
from untold.files import new_directory
from untold.models.build import build_model
from untold.storage.averaging import average_models, halve
from untold.storage.model_directory import (
    TrainedModel,
    find_model,
    load_model,
    save_model,
    step_directories,
)
from untold.storage.summary import summarise


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def make(root, scale=0.4, **sections):
    config = toy_config(root, **sections)
    tokenizers = toy_tokenizers(root, config)
    sizes = (len(tokenizers.source), len(tokenizers.target))
    model = fill(build_model(config.model, sizes, shared=tokenizers.joint), scale)
    return TrainedModel(model, config, tokenizers)


@pytest.fixture
def saved(root, tmp_path):
    save_model(tmp_path / "model", make(root))
    return tmp_path / "model"


def rewrite(path, change):
    """Change the files of a model directory and seal it again, as if it had been made so."""
    contents = {file.name: file.read_bytes() for file in path.iterdir()}
    del contents["MANIFEST.json"]
    with new_directory(path, replace=True) as directory:
        for name, data in contents.items():
            (directory / name).write_bytes(data)
        change(directory)


def test_a_directory_holds_only_what_can_be_read_safely(saved):
    names = {path.name for path in saved.iterdir()}
    assert names == {"config.json", "model.safetensors", "joint.model", "MANIFEST.json"}


def test_shared_weights_are_stored_once(root, saved, tmp_path):
    assert len(load_file(saved / "model.safetensors")) == len(list(make(root).model.parameters()))
    names = load_file(saved / "model.safetensors").keys()
    assert sum("embedding" in name for name in names) == 1
    save_model(tmp_path / "two", make(root, tokenizer={"joint": False}))
    names = load_file(tmp_path / "two" / "model.safetensors").keys()
    assert sum("embedding" in name for name in names) == 2


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "joint.model"])
def test_one_flipped_bit_anywhere_is_refused(saved, name):
    data = bytearray((saved / name).read_bytes())
    data[len(data) // 2] ^= 1
    (saved / name).write_bytes(data)
    with pytest.raises(UntoldError, match=f"{name} has changed"):
        load_model(saved)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "joint.model"])
def test_a_missing_file_is_refused(saved, name):
    rewrite(saved, lambda directory: (directory / name).unlink())
    with pytest.raises(UntoldError, match=str(saved)):
        load_model(saved)


def change_tensors(change):
    def rewrite_tensors(directory):
        tensors = load_file(directory / "model.safetensors")
        change(tensors)
        save_file(tensors, directory / "model.safetensors")

    return rewrite_tensors


NAME = "backbone.decoder_norm.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop(NAME), f"lacks {NAME}"),
        (lambda tensors: tensors.update(odd=torch.zeros(2)), "has odd, which the model has not"),
        (lambda tensors: tensors.update({NAME: torch.zeros(7)}), r"has shape \(7,\).*\(8,\)"),
        (lambda tensors: tensors.update({NAME: torch.zeros(1)}), r"has shape \(1,\).*\(8,\)"),
    ],
    ids=["missing", "extra", "other shape", "a shape that would broadcast"],
)
def test_weights_that_do_not_fit_are_refused(saved, change, message):
    rewrite(saved, change_tensors(change))
    with pytest.raises(UntoldError, match=message):
        load_model(saved)


def test_a_vocabulary_of_another_size_is_refused(root, saved):
    other = toy_tokenizers(root, toy_config(root, tokenizer={"size": 35}))
    rewrite(saved, other.save)
    with pytest.raises(UntoldError, match=r"embedding.*has shape \(40, 8\).*\(35, 8\)"):
        load_model(saved)


def test_a_config_of_the_future_is_refused_by_key(saved):
    def change(directory):
        config = json.loads((directory / "config.json").read_text())
        config["model"]["wings"] = 2
        (directory / "config.json").write_text(json.dumps(config))

    rewrite(saved, change)
    with pytest.raises(UntoldError, match=r"config\.json: unknown key model\.wings"):
        load_model(saved)


def test_loading_draws_no_random_numbers(saved):
    before = torch.get_rng_state()
    load_model(saved)
    assert torch.equal(before, torch.get_rng_state())


def test_a_run_stands_for_its_best_model_or_else_its_last(root, tmp_path):
    trained = make(root)
    with pytest.raises(UntoldError, match="no such model"):
        find_model(tmp_path / "nowhere")
    with pytest.raises(UntoldError, match="holds neither a model"):
        find_model(tmp_path)
    for step in (2, 10):
        save_model(tmp_path / "checkpoints" / f"step-{step:08d}", trained)
    assert find_model(tmp_path).name == "step-00000010"
    save_model(tmp_path / "best" / "step-00000002", trained)
    assert find_model(tmp_path) == tmp_path / "best" / "step-00000002"
    shutil.copytree(tmp_path / "best" / "step-00000002", tmp_path / "best" / "step-00000009")
    (tmp_path / "best" / "step-00000009" / "MANIFEST.json").unlink()
    assert find_model(tmp_path).name == "step-00000002", "an unfinished one does not count"


def test_steps_are_in_order_however_many_digits_they_have(tmp_path):
    for name in ("step-99999999", "step-100000000", "step-00000005", "other"):
        (tmp_path / name).mkdir()
    names = [path.name for path in step_directories(tmp_path)]
    assert names == ["step-00000005", "step-99999999", "step-100000000"]


def test_averages_need_one_shape_and_one_tokenizer(root, saved, tmp_path):
    save_model(tmp_path / "wide", make(root, model={"d_ffn": 5}))
    with pytest.raises(UntoldError, match="wide: has another shape"):
        average_models([saved, tmp_path / "wide"])
    save_model(tmp_path / "words", make(root, tokenizer={"size": 39}))
    with pytest.raises(UntoldError, match="words: has another tokenizer"):
        average_models([saved, tmp_path / "words"])
    with pytest.raises(UntoldError, match="nothing to average"):
        average_models([])


def test_the_average_of_one_is_itself_and_of_opposites_is_nothing(root, saved, tmp_path):
    save_model(tmp_path / "opposite", make(root, scale=-0.4))
    one = average_models([saved]).model
    assert all(
        torch.equal(p, q)
        for p, q in zip(one.parameters(), make(root).model.parameters(), strict=True)
    )
    none = average_models([saved, tmp_path / "opposite"]).model
    assert float(none.output_embedding().detach().abs().max()) == 0.0


def test_a_summary_counts_right(root, saved):
    trained = load_model(saved)
    summary = summarise(trained, saved)
    assert summary["parameters"] == sum(p.numel() for p in trained.model.parameters())
    assert summary["parameters"] - summary["parameters without embeddings"] == 40 * 8
    assert summary["languages"] == "src -> tgt"
    assert summary["vocabulary"] == "40 + 40 (one for both), bpe"
    assert summary["past and future"] == "none"
    assert summary["parameters to translate with"] == summary["parameters"]


def test_a_summary_leaves_out_the_heads_that_no_translation_needs(root, tmp_path):
    separator = {"kind": "gdr", "d_capsule": 5, "past": 2, "future": 3, "lexicon": 7}
    save_model(tmp_path / "gdr", make(root, model={"d_model": 8, "separator": separator}))
    summary = summarise(load_model(tmp_path / "gdr"), tmp_path / "gdr")
    assert summary["past and future"] == "gdr, dot agreement, 3 iterations, capsules 2 + 3 + 2"
    heads = 2 * (2 * 5 * 8 + 3 * 5 * 8)  # bags and content agreement, past and future
    lexicon = 7 * (40 + 1 + 40 + 1)
    assert summary["parameters"] - summary["parameters to translate with"] == heads + lexicon
    assert summary["parameters"] - summary["parameters without embeddings"] == 40 * 8 + lexicon


def test_a_summary_of_a_recurrent_model_names_its_own_widths(root, tmp_path):
    save_model(tmp_path / "rnmt", make(root, model={"backbone": "rnmt"}))
    summary = summarise(load_model(tmp_path / "rnmt"), tmp_path / "rnmt")
    assert (summary["backbone"], summary["layers"]) == ("rnmt", "1 + 1")
    assert summary["width"] == "8, embeddings 6"
    assert summary["parameters"] - summary["parameters without embeddings"] == 6 * 40


def test_a_model_from_before_separators_still_loads(saved):
    def forget(directory):
        values = json.loads((directory / "config.json").read_text())
        del values["model"]["separator"]
        (directory / "config.json").write_text(json.dumps(values))

    before = load_model(saved)
    rewrite(saved, forget)
    assert "separator" not in json.loads((saved / "config.json").read_text())["model"]
    loaded = load_model(saved)
    assert loaded.model.past_future is None
    assert loaded.config == before.config


def test_settings_that_the_manifest_does_not_list_are_refused(saved):
    """They would be read in place of the model's own."""
    shutil.copyfile(saved / "config.json", saved / "untold.json")
    with pytest.raises(UntoldError, match=r"untold\.json"):
        load_model(saved)


def test_half_the_bits_are_stored_and_load_as_floats(saved, tmp_path):
    whole = load_model(saved)
    save_model(tmp_path / "half", halve(load_model(saved)))
    half = load_model(tmp_path / "half")
    stored = load_file(tmp_path / "half" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    weights = dict(half.model.named_parameters())
    for name, parameter in whole.model.named_parameters():
        assert weights[name].dtype == torch.float32
        assert torch.allclose(parameter, weights[name], rtol=1e-3, atol=1e-6)


def test_a_weight_that_16_bits_cannot_hold_is_refused(saved):
    trained = load_model(saved)
    next(trained.model.parameters()).data.view(-1)[0] = 1e5
    with pytest.raises(UntoldError, match="leave out --half"):
        halve(trained)
