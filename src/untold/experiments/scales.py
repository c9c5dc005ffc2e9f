"""How large an experiment is: from a minute on the embedded grammar to the paper's own settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["SCALES", "Phase", "Scale"]

Settings = Mapping[str, object]  # by dotted name, as in --set


@dataclass(frozen=True)
class Phase:
    """Says how long a model trains, and how fast it learns."""

    updates: int
    learning_rate: float
    warmup: int

    def settings(self) -> Settings:
        """Returns a schedule that ends with the last update."""
        return {
            "train.steps": self.updates,
            "train.learning_rate": self.learning_rate,
            "train.schedule": "linear",
            "train.warmup": self.warmup,
            "train.validate_every": self.updates,
            "train.save_every": max(1, self.updates // 4),
            "train.keep": 1,
        }


@dataclass(frozen=True)
class Scale:
    """Holds the sizes that all systems of an experiment share."""

    name: str
    meaning: str
    base: Phase  # the plain model that others start from
    further: Phase  # what comes on top of it
    recurrent: Phase  # an RNMT, which learns more slowly
    sequence: Phase  # training on whole translations
    settings: Settings  # of all systems
    transformer: Settings = field(default_factory=dict)  # of those that are no RNMT
    pairs: int = 0  # of the embedded grammar
    vocabulary: int | None = None  # of all corpora; unset, the corpus says
    seeds: int = 1  # of the systems that the paper's claims rest on
    other_seeds: int = 1
    sentences: int | None = None  # of each test set; unset, all
    penalty_weights: int = 5  # of each coverage penalty, tried on the development set
    further_settings: Settings = field(default_factory=dict)


_PAPER = {
    "train.batch_tokens": 25_000,
    "train.label_smoothing": 0.1,
    "decode.beam": 4,
    "decode.length_penalty": 0.6,
}

SCALES = {
    "smoke": Scale(
        "smoke",
        "a few minutes on one core, on the embedded grammar: everything runs, figures mean little",
        base=Phase(250, 5e-3, 50),
        further=Phase(25, 2e-3, 5),
        recurrent=Phase(40, 5e-3, 10),
        sequence=Phase(1, 3e-4, 0),
        settings={
            "model.preset": "tiny",
            "model.dropout": 0.1,
            "train.batch_tokens": 1024,
            "train.validate_bleu": False,
            "train.best_by": "loss",
            "decode.beam": 4,
        },
        transformer={"model.encoder_layers": 2, "model.decoder_layers": 2},
        pairs=4000,
        vocabulary=1000,
        sentences=40,
        penalty_weights=2,
    ),
    "small": Scale(
        "small",
        "hours on one core: a tiny Transformer, as long as it takes to learn from 30,000 pairs",
        base=Phase(3000, 5e-3, 400),
        further=Phase(300, 2e-3, 50),
        recurrent=Phase(3000, 4e-3, 300),
        sequence=Phase(100, 3e-4, 0),
        settings={
            "model.preset": "tiny",
            "model.dropout": 0.3,
            "train.batch_tokens": 4096,
            "decode.beam": 5,
            "decode.length_penalty": 1.0,
        },
        pairs=40_000,
        seeds=3,
        other_seeds=2,
    ),
    "paper": Scale(
        "paper",
        "the paper's own settings: base models, 100,000 updates of 25,000 tokens, several GPUs",
        base=Phase(100_000, 7e-4, 4000),
        further=Phase(100_000, 7e-4, 4000),
        recurrent=Phase(100_000, 5e-4, 4000),
        sequence=Phase(10_000, 1e-5, 0),
        settings={"model.preset": "base", "model.dropout": 0.1, **_PAPER},
        further_settings={"model.separator.d_capsule": 256},
        pairs=100_000,
    ),
}
