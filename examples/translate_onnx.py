"""Translates greedily with onnxruntime and sentencepiece alone, and shows what is still untold.

    untold export runs/demo/model --to onnx --out onnx
    python examples/translate_onnx.py onnx "The child reads a book ."

Nothing of untold or torch is used here: any language with an ONNX runtime can do the same.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import sentencepiece

PAST, FUTURE, REDUNDANT = range(3)  # the last axis of assignments


class OnnxTranslator:
    """The two graphs, the sentencepiece models, and a greedy search."""

    def __init__(self, folder: Path) -> None:
        self.about = json.loads((folder / "untold.onnx.json").read_text(encoding="utf-8"))
        self.encoder, self.step = (
            onnxruntime.InferenceSession(folder / self.about["graphs"][name]["file"])
            for name in ("encoder", "step")
        )
        self.source, self.target = (
            sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
            for side in ("source", "target")
        )

    def translate(
        self, text: str, watch: Callable[[tuple[int, dict]], None] = lambda _: None
    ) -> tuple[str, list[tuple[str, float]]]:
        """Returns the translation, and how much of each source piece is FUTURE at its end.

        `watch` gets every token that was read, with what the graph made of it.
        """
        ids, about = self.about["special_ids"], self.about
        words = self.source.encode(text.lower() if about["lowercase"] else text)
        source = np.array([[*words, ids["eos"]]], dtype=np.int64)
        mask = np.ones_like(source, dtype=bool)
        memory = run(self.encoder, {"source_ids": source, "source_mask": mask})
        shape = (1, 1, about["layers"], 2, about["heads"], 0, about["head_width"])
        state = {
            "past": np.zeros(shape, np.float32),
            "covered": np.zeros((1, *source.shape), np.float32),
        }
        said, last, untold = [], ids["bos"], np.zeros(0)
        most = min(about["max_length"], about["positions"])  # tokens, the end among them
        most = min(most, math.ceil(about["max_ratio"] * source.shape[1]) + 10)
        while last != ids["eos"] and len(said) < most - 1:
            given = {"last": np.array([[last]], dtype=np.int64), "source_mask": mask}
            answers = run(self.step, given | state | memory)
            state = {name: answers[f"next_{name}"] for name in state if f"next_{name}" in answers}
            watch((last, answers))
            logits = answers["logits"][0, 0].copy()
            logits[about["never_generated"]] = -np.inf
            last = int(logits.argmax())
            said.append(last)
            if "assignments" in answers:
                untold = answers["assignments"][0, 0, : len(words), FUTURE]
        text = self.target.decode([word for word in said if word != ids["eos"]])
        return text, list(zip(self.source.id_to_piece(words), untold.tolist(), strict=False))


def run(graph: onnxruntime.InferenceSession, values: dict[str, np.ndarray]) -> dict:
    """Runs a graph with those of the values that it reads."""
    wanted = {given.name: values[given.name] for given in graph.get_inputs()}
    names = [answer.name for answer in graph.get_outputs()]
    return dict(zip(names, graph.run(None, wanted), strict=True))


def main(arguments: list[str]) -> None:
    """Translates each text, and names the pieces that were left untold."""
    folder, *texts = arguments
    translator = OnnxTranslator(Path(folder))
    for text in texts:
        translation, untold = translator.translate(text)
        print(translation)
        if untold:
            left = [f"{piece} {share:.2f}" for piece, share in untold if share > 0.5]
            print(f"  untold: {', '.join(left) or 'nothing'}")


if __name__ == "__main__":
    main(sys.argv[1:])
