"""The models that are served, by name; all of them are loaded again at once, or none."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from untold.embedded import EXAMPLES, MODEL_NAME, embedded_model
from untold.errors import UntoldError, shorten
from untold.serve.api_errors import unfit
from untold.storage.model_directory import load_model
from untold.translator import Translator

_MOST_SETTINGS = 64  # translators with other settings that a model keeps; they share its weights
_SAMPLE = "a"  # what a new model translates first, so that its first request does not wait


@dataclass(frozen=True, eq=False)  # two loads of a model are different models
class ServedModel:
    """A model under its name."""

    name: str
    translator: Translator
    examples: tuple[str, ...] = ()
    _others: dict[tuple[object, ...], Translator] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, str]:
        """Returns the codes of source and target, each empty if the model does not say."""
        data, fields = self.translator.data, type(self.translator.data).model_fields
        source, target = data.source_language, data.target_language
        return (
            "" if source == fields["source_language"].default else source,
            "" if target == fields["target_language"].default else target,
        )

    @property
    def is_calibrated(self) -> bool:
        """Tells if the model can check translations."""
        models = self.translator.models
        return any(m.calibration is not None and m.model.past_future is not None for m in models)

    def decoding(
        self, beam: int | None, nbest: int | None, length_penalty: float | None
    ) -> Translator:
        """Returns its translator with these settings; None leaves a setting as it is."""
        key = (beam, nbest, length_penalty)
        if key not in self._others:
            if len(self._others) >= _MOST_SETTINGS:
                self._others.clear()
            given = {"beam": beam, "nbest": nbest, "length_penalty": length_penalty}
            settings = {name: value for name, value in given.items() if value is not None}
            if nbest is not None and beam is None:
                settings["beam"] = max(nbest, self.translator.decode.beam)
            self._others[key] = self.translator.with_decoding(**settings)
        return self._others[key]


class ModelShelf:
    """Holds the models of a server; `advance` is called between the steps of their searches."""

    def __init__(self, paths: Mapping[str, Path], advance: Callable[[int], object]) -> None:
        self.paths, self._advance = dict(paths), advance
        self._models: dict[str, ServedModel] = {}
        self._loading = threading.Lock()

    def load(self) -> None:
        """Loads all models; if one fails, those from before stay."""
        with self._loading:
            self._models = {name: self._load(name, path) for name, path in self._all_paths()}

    @property
    def models(self) -> list[ServedModel]:
        """Lists the models; the first is the default."""
        return list(self._models.values())

    def find(self, name: str | None) -> ServedModel:
        """Returns a model by its name, or the default; a name is a key and never a path."""
        if name is None:
            return self.models[0]
        if name not in self._models:
            known = ", ".join(self._models)
            raise unfit("unknown_model", f"unknown model {shorten(name)}; known: {known}")
        return self._models[name]

    def _all_paths(self) -> Sequence[tuple[str, Path]]:
        return list(self.paths.items()) or [(MODEL_NAME, embedded_model())]

    def _load(self, name: str, path: Path) -> ServedModel:
        translator = Translator([load_model(path)]).with_decoding(sample=False, nbest=1)
        translator.with_decoding(max_length=1, min_length=0).translate(_SAMPLE)  # lays out weights
        examples = () if self.paths else EXAMPLES
        return ServedModel(name, translator.with_progress(self._advance), examples)


def read_model_names(given: Sequence[str]) -> dict[str, Path]:
    """Reads NAME=PATH, or a path whose last part is the name."""
    found: dict[str, Path] = {}
    for each in given:
        name, equals, path = each.partition("=")
        if not equals:
            name, path = Path(each).absolute().name, each
        if not name or not path:
            raise UntoldError(f"{shorten(each)}: write NAME=PATH, or a path alone")
        if name in found:
            raise UntoldError(f"two models are called {shorten(name)}: name them, as in a=PATH")
        found[name] = Path(path)
    return found
