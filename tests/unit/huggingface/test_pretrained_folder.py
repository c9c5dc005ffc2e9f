"""Folders of models with past and future: weights in several files, and what lies there before."""

import json

import pytest
import torch

from fuzz.in_process import untold
from huggingface_toys import FAMILIES, languages, make_model, make_tokenizer, save_folder
from pretrained_toys import TEXTS, build, logits, shared, talkative, talking
from untold.errors import UntoldError
from untold.huggingface.generation_past_future import PastFutureForConditionalGeneration
from untold.huggingface.modeling_past_future import complete_folder
from untold.huggingface.optional import import_transformers, quiet
from untold.storage.model_directory import load_model
from untold.translator import load

SMALL = "9KB"
INDEX = "model.safetensors.index.json"


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def save(model, folder, **options):
    with quiet():
        model.save_pretrained(folder, **options)
    return folder


def read(folder):
    with quiet():
        return import_transformers().AutoModelForSeq2SeqLM.from_pretrained(folder)


def weights_in(folder):
    return sorted(path.name for path in folder.glob("*.safetensors*"))


@torch.no_grad()
def test_weights_in_several_files_are_read_by_both_worlds(family, tmp_path):
    model = talking(family)
    folder, whole = (
        save(model, tmp_path / "many", max_shard_size=SMALL),
        save(model, tmp_path / "1"),
    )
    names = weights_in(folder)
    assert len(names) > 3 and names[0].startswith("model-00001-of-000") and names[-1] == INDEX
    again = read(folder)
    assert torch.equal(logits(again), logits(model))
    assert shared(again) == shared(model)
    listed = {each["name"] for each in json.loads((folder / "MANIFEST.json").read_text())["files"]}
    assert set(names) <= listed
    one, other = load_model(folder).model.state_dict(), load_model(whole).model.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in other)


def test_commands_read_weights_in_several_files(tmp_path):
    folder = save(talking("marian"), tmp_path / "many", max_shard_size=SMALL)
    expected = load(folder).translate(TEXTS[0]).text
    assert untold("translate", folder, text=f"{TEXTS[0]}\n").output == f"{expected}\n"


@pytest.mark.parametrize("change", ["damaged", "missing", "index"])
def test_a_file_of_several_that_was_damaged_is_refused(change, tmp_path):
    folder = save(talking("marian"), tmp_path, max_shard_size=SMALL)
    file = folder / (INDEX if change == "index" else weights_in(folder)[1])
    if change == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(UntoldError, match=f"{file.name} (has changed|is missing)"):
        load_model(folder)


@pytest.mark.parametrize("text", ["[]", "{", '{"weight_map": {"a": "../x.safetensors"}}'])
def test_an_index_that_names_no_files_of_weights_is_refused(text, tmp_path):
    folder = save(talking("marian"), tmp_path, max_shard_size=SMALL)
    (folder / INDEX).write_text(text)
    with quiet(), pytest.raises(UntoldError, match="names no files of weights"):
        complete_folder(folder, talking("marian").config, talking("marian").tokenizer)


@pytest.mark.parametrize("has_tokenizer", [True, False])
@torch.no_grad()
def test_nothing_of_an_older_model_is_read_from_the_same_folder(has_tokenizer, tmp_path):
    """transformers would read the one file that was there before, and leave the index beside it."""
    older, newer = talkative(build("marian")), talkative(build("marian"))
    if not has_tokenizer:
        older.tokenizer = newer.tokenizer = None
    save(older, tmp_path)
    save(newer, tmp_path, max_shard_size=SMALL)
    assert "model.safetensors" not in weights_in(tmp_path)
    newer.tokenizer = talking("marian").tokenizer
    again = PastFutureForConditionalGeneration.from_pretrained(tmp_path)
    again.tokenizer = newer.tokenizer
    assert torch.equal(logits(again), logits(newer))
    save(older, tmp_path)
    assert weights_in(tmp_path) == ["model.safetensors"]
    older.tokenizer = again.tokenizer
    again = PastFutureForConditionalGeneration.from_pretrained(tmp_path)
    again.tokenizer = newer.tokenizer
    assert torch.equal(logits(again), logits(older))


def test_other_processes_leave_the_manifest_alone(tmp_path):
    folder = save(talking("marian"), tmp_path)
    before = (folder / "MANIFEST.json").read_bytes()
    save(talking("marian"), folder, is_main_process=False)
    assert (folder / "MANIFEST.json").read_bytes() == before
    load_model(folder)


@torch.no_grad()
def test_a_bare_folder_in_several_files_is_read_as_it_is(family, tmp_path):
    whole, folder = save_folder(family, tmp_path / "whole"), tmp_path / "many"
    tokenizer = make_tokenizer(family, folder)
    with quiet():
        make_model(family, tokenizer).save_pretrained(folder, max_shard_size=SMALL)
        tokenizer.save_pretrained(folder)
    assert INDEX in weights_in(folder)
    chosen = languages(family)
    one, other = (load_model(f"hf:{each}", settings=chosen).model for each in (whole, folder))
    for left, right in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(left, right)


def test_what_cannot_be_written_or_read_is_refused_in_one_sentence(tmp_path):
    folder = save(talking("marian"), tmp_path / "saved")
    make = PastFutureForConditionalGeneration.from_backbone
    for act in (lambda: load_model(f"hf:{folder}"), lambda: make(str(folder))):
        with pytest.raises(UntoldError, match="has past and future already: name it without hf:"):
            act()
    with pytest.raises(UntoldError, match=r"call push_to_hub\(\) of the model"):
        save(talking("marian"), folder, push_to_hub=True)
    with pytest.raises(UntoldError, match="leave out variant of save_pretrained"):
        save(talking("marian"), tmp_path / "named", variant="fp16")
