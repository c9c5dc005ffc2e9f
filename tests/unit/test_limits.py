"""Every number that a user can set has limits: in sections, in options, and in files."""

import inspect
import json
import math
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import Field, ValidationError
from typer.models import OptionInfo

import untold
from toys import toy_config, write_corpus
from untold.cli import app
from untold.config import (
    BACKBONES,
    AlignerConfig,
    Config,
    CorpusConfig,
    Count,
    DecodeConfig,
    ModelConfig,
    Section,
    model_config_class,
    parse_config_json,
)
from untold.config.section import allowed_values, bounds, type_leaves
from untold.decoding.penalties import length_penalty
from untold.errors import UntoldError
from untold.training.log import NullReporter

for name in BACKBONES.names:
    model_config_class(name)

WRONG = [math.inf, -math.inf, math.nan, 1e300, -1e300, 10**30, -(10**30), 10**400, -1]


def sections(kind: type[Section] = Section) -> Iterator[type[Section]]:
    """All sections that exist, those of backbones among them."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("untold."):
            yield each
            yield from sections(each)


SECTIONS = sorted(set(sections()), key=lambda kind: kind.__name__)


def numbers() -> Iterator[tuple[type[Section], str]]:
    for kind in SECTIONS:
        for name, field in kind.model_fields.items():
            leaves = type_leaves(field.annotation, field.metadata)
            if any(leaf in (int, float) for leaf, _ in leaves):
                yield kind, name


def holding(kind: type[Section], name: str, value: Any) -> dict[str, Any]:
    """The value where the setting has its number: in a tuple, in a table, or itself."""
    plain = kind.model_fields[name].annotation
    shapes = {tuple: (value, value), dict: {"x": value}}
    return {name: shapes.get(get_origin(plain), value)}


NUMBERS = list(numbers())


def test_there_are_numbers_in_every_section_that_should_have_some():
    having = {kind.__name__ for kind, _ in NUMBERS}
    assert {"AlignerConfig", "DataConfig", "DecodeConfig", "SeparatorConfig"} <= having
    assert {"TokenizerConfig", "TrainConfig", "SequenceConfig"} <= having
    assert {"TransformerConfig", "RnmtConfig", "PfrnnConfig"} <= having
    assert len(NUMBERS) > 60


def test_numbers_that_no_machine_can_use_are_refused():
    for kind, name in NUMBERS:
        for value in WRONG:
            with pytest.raises(ValidationError):
                kind.model_validate(holding(kind, name, value))


def test_the_defaults_are_allowed():
    for kind in SECTIONS:
        if kind not in (CorpusConfig, ModelConfig):  # which name a corpus, and a backbone
            kind.model_validate(kind().model_dump())


@pytest.mark.parametrize(
    "annotation",
    [
        int,
        float,
        int | None,
        tuple[float, float],
        dict[str, int],
        Annotated[int, Field(ge=1)],
        Annotated[float, Field(lt=1.0)] | None,
        list[Annotated[int, Field(le=3)]],
    ],
)
def test_a_section_with_a_number_without_limits_cannot_be_defined(annotation):
    with pytest.raises(UntoldError, match=r"Loose\.size needs a lower and an upper limit"):
        type("Loose", (ModelConfig,), {"__annotations__": {"size": annotation}, "size": 1})


def test_a_section_with_limits_can_be_defined():
    names = {"a": Count, "b": bool, "c": str, "d": Annotated[float, Field(gt=0, lt=2)] | None}
    values = {"a": 1, "b": True, "c": "x", "d": None}
    assert type("Tight", (Section,), {"__annotations__": names, **values})().model_dump() == values


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Annotated[int, Field(ge=1, le=1000)], "a whole number from 1 to 1,000"),
        (Annotated[float, Field(gt=0, le=0.5)], "a number above 0 to 0.5"),
        (Annotated[float, Field(ge=1e-30, lt=1)], "a number from 1e-30 to below 1"),
        (bool, "true or false"),
        (str, "text in quotes"),
    ],
)
def test_limits_are_put_into_words(annotation, words):
    ((kind, metadata),) = type_leaves(annotation)
    assert allowed_values(kind, metadata) == words


def options() -> Iterator[tuple[str, str, OptionInfo]]:
    """All options of all commands whose value is a number."""
    for command in app.registered_commands:
        assert command.callback is not None
        for name, parameter in inspect.signature(command.callback).parameters.items():
            plain, *metadata = get_args(parameter.annotation) or (parameter.annotation,)
            if any(kind in (int, float) for kind in (plain, *get_args(plain))):
                (option,) = (each for each in metadata if isinstance(each, OptionInfo))
                yield command.callback.__name__, name, option


OPTIONS = list(options())


def test_the_options_that_are_numbers_are_found():
    names = {(command, name) for command, name, _ in OPTIONS}
    assert {("translate", "beam"), ("sample", "noise"), ("evaluate", "seed")} <= names


def test_no_option_takes_a_number_without_limits():
    for command, name, option in OPTIONS:
        assert option.parser is not None, f"{command}: make --{name} with number_option"
        for value in ["inf", "nan", "-1", "1e300", "9" * 30, "", "x"]:
            with pytest.raises(Exception, match=r"must be a (whole )?number from [\d.]+ to "):
                option.parser(value)


@pytest.mark.parametrize("name", ["beam", "nbest"])
def test_an_option_has_the_limits_of_its_setting(name):
    (option,) = (each for command, own, each in OPTIONS if (command, own) == ("translate", name))
    field = DecodeConfig.model_fields[name]
    limits = bounds(field.metadata)
    assert option.parser is not None
    for limit, beyond in ((limits["ge"], -1), (limits["le"], 1)):
        assert option.parser(str(limit)) == limit
        with pytest.raises(Exception, match="must be a whole number"):
            option.parser(str(limit + beyond))


@pytest.mark.parametrize("number", ["NaN", "1e999", "9" * 30])
@pytest.mark.parametrize("key", ["train.seed", "decode.max_ratio", "model.d_model"])
def test_a_model_s_own_settings_have_the_same_limits(key, number):
    """`model_dump_json` writes none of these, but somebody else's file may hold them."""
    values = json.loads(Config().model_dump_json())
    section, name = key.split(".")
    values[section][name] = "here"
    text = json.dumps(values).replace('"here"', number)
    with pytest.raises(UntoldError) as caught:
        parse_config_json(text, "config.json")
    assert len(str(caught.value)) < 300


# All at once, at the ends of what is allowed: nothing may overflow.
LARGEST: dict[str, Any] = {
    "train": {
        "learning_rate": 100.0,
        "separator_rate": 1000.0,
        "clip": 1e6,
        "label_smoothing": math.nextafter(1, 0),
        "bow_weight": 1e6,
        "bca_weight": 1e6,
        "ends_weight": 1e6,
        "lexicon_weight": 1e6,
        "seed": 2**63 - 1,
        "batch_tokens": 100_000_000,
        "accumulate": 1_000_000,
    },
    "model": {"dropout": 0.99999, "separator": {"kind": "gdr", "num_iterations": 100}},
    "decode": {
        "length_penalty": 10.0,
        "coverage_penalty": 1e6,
        "max_ratio": 1000.0,
        "max_length": 20,
        "beam": 20,
        "seed": 2**63 - 1,
    },
}
SMALLEST: dict[str, Any] = {
    "train": {
        "learning_rate": 5e-324,
        "separator_rate": 5e-324,
        "clip": 0.0,
        "label_smoothing": 0.0,
        "bow_share": 5e-324,
        "batch_tokens": 1,
        "warmup": 0,
    },
    "model": {"dropout": 0.0, "separator": {"kind": "gdr", "d_capsule": 1, "num_iterations": 1}},
    "decode": {"temperature": 0.001, "max_ratio": 5e-324},
}


@pytest.mark.parametrize("extreme", [LARGEST, SMALLEST], ids=["largest", "smallest"])
def test_what_is_allowed_does_not_overflow(extreme, tmp_path):
    write_corpus(tmp_path, pairs=8)
    steps = {"steps": 2, "validate_every": 2, "save_every": 2}
    sections = extreme | {"train": steps | extreme["train"]}
    out = tmp_path / "run"
    options = untold.RunOptions(out)
    untold.train(toy_config(tmp_path, **sections), options, NullReporter(out, 2))
    for translation in untold.load(out).translate(["ab cd", "ef"]):
        assert math.isfinite(translation.score) and math.isfinite(translation.log_probability)


def test_the_largest_length_penalty_of_the_longest_translation_is_a_number():
    fields = DecodeConfig.model_fields
    length = bounds(fields["max_length"].metadata)["le"]
    alpha = bounds(fields["length_penalty"].metadata)["le"]
    assert math.isfinite(length_penalty(float(length), alpha))


def test_an_aligner_s_seed_fits_its_library():
    """eflomal's has 32 bits."""
    assert bounds(AlignerConfig.model_fields["seed"].metadata) == {"ge": 0, "le": 2**32 - 1}
