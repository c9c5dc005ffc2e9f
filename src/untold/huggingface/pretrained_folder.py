"""Completes a folder that transformers wrote, so that untold's commands read it as well.

    config.json, generation_config.json, model.safetensors   of transformers
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
from untold.huggingface.pretrained_config import PastFutureConfig
from untold.huggingface.transformers_extra import quiet
from untold.storage.model_directory import CONFIG, OWN_CONFIG, WEIGHTS

__all__ = ["complete_folder", "find_tokenizer", "open_folder"]


def open_folder(folder: Path) -> None:
    """Removes the manifest: until a new one is written, the folder counts as unfinished."""
    with writing(folder):
        (folder / MANIFEST).unlink(missing_ok=True)


def complete_folder(folder: Path, config: PastFutureConfig, tokenizer: Any) -> None:
    """Adds untold's files to those of transformers, the manifest last."""
    if not (folder / WEIGHTS).is_file():
        raise UntoldError(
            f"{folder}: untold reads one {WEIGHTS}, and the weights were divided: raise "
            "max_shard_size of save_pretrained"
        )
    tokenizers = HuggingFaceTokenizers.of(tokenizer, config.tokenizer_use(), str(folder))
    with writing(folder):
        text = config.untold.model_dump_json(indent=1) + "\n"
        (folder / OWN_CONFIG).write_text(text, encoding="utf-8")
        tokenizers.save(folder)
        with quiet():
            tokenizer.save_pretrained(str(folder))
        own = [path.relative_to(folder).as_posix() for path in (folder / FOLDER).rglob("*")]
        seal_directory(folder, [CONFIG, WEIGHTS, OWN_CONFIG, *own])


def find_tokenizer(name: str) -> Any:
    """Reads the tokenizer of a folder or of a model of the hub; None if there is none."""
    own = Path(name) / FOLDER
    try:
        return read_tokenizer(own if own.is_dir() else name)
    except UntoldError:
        return None
