"""Compares a model in 8-bit numbers with itself in float32: BLEU, equal translations and time.

    python benchmarks/int8.py runs/mine test.en test.de

Both translate the same text in turns, in batches. CTranslate2 in 8-bit numbers is raced by
`decode.py --int8`.
"""

import argparse
from pathlib import Path

import torch
from sacrebleu.metrics import BLEU

from race import CLOCKS, Race, Table, run_race, write_json
from untold.corpus.text import read_parallel
from untold.translator import Translator, load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("model", help="a model directory or run")
    parser.add_argument("source", type=Path, help="plain text, .gz or not")
    parser.add_argument("reference", type=Path, help="its translation, line by line")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sources, references = read_parallel(options.source, options.reference)
    translator = load(options.model)
    forms = {"int8": translator.with_decoding(int8=True), "float32": translator}
    race = _race(forms, sources, options)
    print(race.table())
    found = {name: [each.text for each in form.translate(sources)] for name, form in forms.items()}
    table = _compare(found, references)
    print(table.text())
    if options.json:
        write_json(options.json, [race], vars(options), [table])


def _race(forms: dict[str, Translator], sources: list[str], options: argparse.Namespace) -> Race:
    contenders = {name: form.translate for name, form in forms.items()}
    work = {"sentences": len(sources)}
    return run_race("Translating in batches", contenders, [sources], work, options)


def _compare(found: dict[str, list[str]], references: list[str]) -> Table:
    """Scores both forms, and says what the rounding costs."""
    metric = BLEU()
    scores = {name: metric.corpus_score(texts, [references]).score for name, texts in found.items()}
    same = sum(one == other for one, other in zip(*found.values(), strict=True))
    rows = [
        ["BLEU, float32", scores["float32"]],
        ["BLEU, int8", scores["int8"]],
        ["BLEU lost", scores["float32"] - scores["int8"]],
        ["equal translations", f"{same} of {len(references)}"],
        ["signature", str(metric.get_signature())],
    ]
    return Table("What 8-bit numbers cost", ["", ""], rows)


if __name__ == "__main__":
    main()
