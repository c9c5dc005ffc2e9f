"""Counts how far one update and one translation walk through the package.

    python tests/architecture/corridors.py            prints the counts as JSON
    python tests/architecture/corridors.py --list     names every function on the way

Depth counts nested calls of untold's own functions, `files` the modules they stand in, and `values`
the dataclass objects made. Comprehensions and lambdas are not counted.
"""

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import toys
import untold
from untold.interruption import Interrupted
from untold.models.build import build_model_for
from untold.storage.model_directory import TrainedModel
from untold.training.data import prepare_data
from untold.training.distributed import ProcessGroup
from untold.training.log import NullReporter
from untold.training.progress import Progress
from untold.training.trainer import Hooks, RunContext, Trainer, make_optimizer
from untold.translator import Translator

HOME = str(Path(untold.__file__).parent)
SHAPE = {"d_model": 8, "d_ffn": 12, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}


class Walk:
    """Notes every own function that a call enters."""

    def __init__(self) -> None:
        self.depth = self.deepest = self.values = 0
        self.functions: set[tuple[str, str]] = set()
        self.kinds: set[str] = set()

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_filename == "<string>" and code.co_name == "__init__" and event == "call":
            made = type(frame.f_locals.get("self"))
            if dataclasses.is_dataclass(made) and made.__module__.startswith("untold"):
                self.values += 1
                self.kinds.add(made.__qualname__)
        if not code.co_filename.startswith(HOME) or code.co_name.startswith("<"):
            return
        if event == "call":
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)
            self.functions.add((code.co_filename[len(HOME) + 1 :], code.co_qualname))
        elif event == "return":
            self.depth -= 1

    def counts(self) -> dict[str, int]:
        files = {file for file, _ in self.functions}
        return {
            "depth": self.deepest,
            "functions": len(self.functions),
            "files": len(files),
            "values": self.values,
        }


def walk(run: Callable[[], Any]) -> Walk:
    found = Walk()
    sys.setprofile(found.note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def walks(directory: Path, separator: dict[str, Any]) -> dict[str, Walk]:
    """One update and one translation, each made once before it is counted."""
    toys.write_corpus(directory)
    settings = {"preset": "tiny", "separator": separator, **SHAPE}
    config = toys.toy_config(directory, model=settings)
    tokenizers = toys.toy_tokenizers(directory, config)
    model = toys.fill(build_model_for(tokenizers, config.model))  # says the same every time
    trained = TrainedModel(model, config, tokenizers)
    data = prepare_data(config, tokenizers, directory / "run")
    context = RunContext(ProcessGroup(), NullReporter(directory, 9), Interrupted())
    trainer = Trainer(trained, make_optimizer(trained), data.train, context, Hooks())
    _, progress = trainer._advance(Progress())
    update = walk(lambda: trainer._advance(progress))
    trained.model.eval()
    translator = Translator([trained])
    translator.translate(["ab cd", "a"])
    return {"update": update, "translate": walk(lambda: translator.translate(["ab cd", "a"]))}


def main() -> None:
    counts = {}
    for name, separator in (("plain", {}), ("gdr", {"kind": "gdr"})):
        with tempfile.TemporaryDirectory() as directory:
            for kind, found in walks(Path(directory), separator).items():
                counts[f"{kind} {name}"] = found.counts()
                if "--list" in sys.argv:
                    print(f"{kind} {name}: {sorted(found.kinds)}", file=sys.stderr)
                    for file, function in sorted(found.functions):
                        print(f"    {file} {function}", file=sys.stderr)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
