"""untold: neural machine translation that knows what it has said and what is still untold.

    import untold
    translator = untold.load("runs/demo")
    print(translator.translate("The child reads a book .").text)

The names below are imported when they are first used, so that `import untold` is instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from untold.version import __version__

if TYPE_CHECKING:
    from untold.config import Config, load_config
    from untold.errors import UntoldError
    from untold.training.run import RunOptions, TrainResult, train
    from untold.translator import Translation, Translator, load

__all__ = [
    "Config",
    "RunOptions",
    "TrainResult",
    "Translation",
    "Translator",
    "UntoldError",
    "__version__",
    "load",
    "load_config",
    "train",
]

_HOMES = {
    "Config": "untold.config",
    "RunOptions": "untold.training.run",
    "TrainResult": "untold.training.run",
    "Translation": "untold.translator",
    "Translator": "untold.translator",
    "UntoldError": "untold.errors",
    "load": "untold.translator",
    "load_config": "untold.config",
    "train": "untold.training.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'untold' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
