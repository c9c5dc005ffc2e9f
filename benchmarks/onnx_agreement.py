"""Compares a model with its ONNX graphs on sentences of the embedded grammar, greedily.

    python benchmarks/onnx_agreement.py MODEL --sentences 200

Each sentence is translated by onnxruntime, and the model follows token by token: logits and
assignments of every step are compared, and translations with those of `untold translate --beam 1`.
"""

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from untold import load
from untold.export.onnx import write_onnx_model
from untold.lab.grammars.sampling import load_grammar
from untold.storage.model_directory import TrainedModel, load_model

sys.path.append(str(Path(__file__).parents[1] / "examples"))
from translate_onnx import OnnxTranslator

OnnxStep = tuple[int, dict[str, np.ndarray]]  # the token that was read, and what came out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("model")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--grammar", default="en-de")
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    texts = sample(options.grammar, options.sentences, options.seed)
    trained = load_model(options.model)
    with tempfile.TemporaryDirectory() as folder:
        write_onnx_model(trained, Path(folder) / "onnx", options.model)
        translator = OnnxTranslator(Path(folder) / "onnx")
    differences, found = Differences(), []
    for text in texts:
        steps: list[OnnxStep] = []
        found.append(translator.translate(text, steps.append)[0])
        differences.follow(trained, text, steps)
    own = load(options.model).with_decoding(beam=1)
    same = sum(mine == own.translate(text).text for mine, text in zip(found, texts, strict=True))
    print(f"{len(texts)} sentences, {differences.steps:,} steps")
    for name, value in differences.largest.items():
        print(f"{name}: {value:.1e} at most between onnxruntime and torch")
    print(f"translations that are the same: {same} of {len(texts)}")


class Differences:
    """The largest differences so far, by the name of an output."""

    def __init__(self) -> None:
        self.steps, self.largest = 0, {"logits": 0.0}

    @torch.inference_mode()
    def follow(self, trained: TrainedModel, text: str, steps: list[OnnxStep]) -> None:
        """Lets the model read what onnxruntime has read."""
        special = trained.tokenizers.source.special_ids
        ids = torch.tensor([[*trained.tokenizers.source.encode([text])[0], special.eos]])
        source = trained.model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
        state = trained.model.start(source, 1)
        for last, found in steps:
            step = trained.model.step(source, torch.tensor([[last]]), state)
            state, self.steps = step.state, self.steps + 1
            expected = {"logits": step.logits, "assignments": step.assignments}
            for name in expected.keys() & found.keys():
                difference = np.abs(found[name] - expected[name].numpy()).max()
                self.largest[name] = max(self.largest.get(name, 0.0), float(difference))


def sample(grammar: str, count: int, seed: int) -> list[str]:
    """Sentences that a run of another seed has not trained on, but for short ones."""
    samples = itertools.islice(load_grammar(grammar).stream(seed), count)
    return [" ".join(each.source) for each in samples]


if __name__ == "__main__":
    main()
