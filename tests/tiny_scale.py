"""A scale of experiments for tests: seconds, and nothing is learnt."""

from untold.lab.corpora import Phase, Scale

__all__ = ["SCALE"]

PHASE = Phase(2, 1e-3, 1)
SCALE = Scale(
    "test",
    "seconds",
    base=PHASE,
    further=PHASE,
    recurrent=PHASE,
    sequence=Phase(1, 1e-3, 0),
    settings={
        "model.preset": "tiny",
        "model.d_model": 16,
        "model.d_ffn": 16,
        "model.encoder_layers": 1,
        "train.batch_tokens": 256,
        "train.best_by": "loss",
        "train.log_every": 1000,
        "decode.max_length": 12,
    },
    pairs=120,
    vocabulary=200,
    sentences=12,
)
