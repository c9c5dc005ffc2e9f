"""A small trained model that comes with the package: English-German, of the embedded grammar.

`untold serve` and `untold explain` use it where no model is named. `make embedded` trains it anew.
"""

from importlib.resources import files
from pathlib import Path

__all__ = ["EXAMPLES", "MODEL_NAME", "embedded_model"]

MODEL_NAME = "en-de"
# Sentences of its grammar that it was not trained on.
EXAMPLES = (
    "Now the nervous woman must play the piano .",
    "Because Paul will invite boys in the summer , he will not dream of the old computers .",
    "Although this present is very old , the tired judge is resting .",
    "The successful daughter will look for some magazines because we will love our quiet "
    "train station in five days .",
)


def embedded_model() -> Path:
    """Returns the directory of the model."""
    return Path(str(files("untold.embedded").joinpath(MODEL_NAME)))
