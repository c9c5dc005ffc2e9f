"""Coverage of the test set's source by the translations of two models, with a paired bootstrap.

    python benchmarks/coverage.py runs/before runs/after --data data/en-de --aligner aligner

The coverage is that of sequence-level training: CDR by an aligner, or with --reward a function of
your own as package.module:function. BLEU of both stands beside it.
"""

import argparse
from pathlib import Path

from untold import load
from untold.config import SequenceConfig
from untold.corpus.text import read_lines
from untold.evaluation.bootstrap import paired_bootstrap
from untold.metrics.base import corpus_scores
from untold.training.sequence.samples import make_reward


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", default="en-de")
    parser.add_argument("--aligner")
    parser.add_argument("--reward", default="cdr")
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    config = SequenceConfig(kind="reinforce", reward=given.reward, aligner=given.aligner)
    reward = make_reward(config, "13a")
    sources, references = (
        list(read_lines(given.data / f"test.{suffix}")) for suffix in given.languages.split("-")
    )
    scores = []
    for model in (given.before, given.after):
        texts = [each.text for each in load(model).translate(sources)]
        (bleu,) = corpus_scores(texts, references, ("bleu",))
        scores.append(list(reward(sources, references, texts)))
        mean = sum(scores[-1]) / len(scores[-1])
        print(f"{model}: {given.reward} {mean:.4f}, BLEU {bleu.value:.2f} {bleu.details}")
    print(f"{given.reward}: {paired_bootstrap(scores[0], scores[1], given.samples, given.seed)}")


if __name__ == "__main__":
    main()
