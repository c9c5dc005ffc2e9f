"""Completes a folder that transformers wrote, so that untold's commands read it as well.

    config.json, generation_config.json                      of transformers
    model.safetensors, or several files and their index      of transformers
    tokenizer files                                          of transformers, for AutoTokenizer
    untold.json, huggingface_tokenizer/, MANIFEST.json       of untold

The manifest lists what untold reads. Other files, such as a README or those of a trainer, may lie
beside them.
"""

from pathlib import Path
from typing import Any

from untold.durable import MANIFEST, seal_directory, writing
from untold.errors import UntoldError
from untold.huggingface.huggingface_tokenizer import FOLDER, HuggingFaceTokenizers, read_tokenizer
from untold.huggingface.pretrained.pretrained_config import PastFutureConfig
from untold.huggingface.transformers_extra import quiet
from untold.storage.model_directory import (
    CONFIG,
    OWN_CONFIG,
    WEIGHT_INDEX,
    WEIGHTS,
    weight_files,
)

__all__ = ["complete_folder", "find_tokenizer", "open_folder", "remove_old_weights"]


def open_folder(folder: Path) -> None:
    """Removes the manifest: until a new one is written, the folder counts as unfinished.

    An old index goes, too: it would stay beside new weights in one file.
    """
    with writing(folder):
        for name in (MANIFEST, WEIGHT_INDEX):
            (folder / name).unlink(missing_ok=True)


def remove_old_weights(folder: Path) -> None:
    """Removes weights of before in one file: they would be read in place of new ones in several."""
    with writing(folder):
        if (folder / WEIGHT_INDEX).is_file():
            (folder / WEIGHTS).unlink(missing_ok=True)


def complete_folder(folder: Path, config: PastFutureConfig, tokenizer: Any) -> None:
    """Adds untold's files to those of transformers, the manifest last."""
    weights = weight_files(folder)
    if not (folder / weights[0]).is_file():
        raise UntoldError(
            f"{folder}: untold reads {WEIGHTS}, and the weights have another name: leave out "
            "variant of save_pretrained"
        )
    tokenizers = HuggingFaceTokenizers.of(tokenizer, config.tokenizer_use(), str(folder))
    with writing(folder):
        text = config.untold.model_dump_json(indent=1) + "\n"
        (folder / OWN_CONFIG).write_text(text, encoding="utf-8")
        tokenizers.save(folder)
        with quiet():
            tokenizer.save_pretrained(str(folder))
        own = [path.relative_to(folder).as_posix() for path in (folder / FOLDER).rglob("*")]
        index = [] if weights == [WEIGHTS] else [WEIGHT_INDEX]
        seal_directory(folder, [CONFIG, *weights, *index, OWN_CONFIG, *own])


def find_tokenizer(name: str) -> Any:
    """Reads the tokenizer of a folder or of a model of the hub; None if there is none."""
    own = Path(name) / FOLDER
    if own.is_dir():
        return read_tokenizer(own)
    try:
        return read_tokenizer(name)
    except UntoldError:
        return None
