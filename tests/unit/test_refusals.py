"""Whatever is wrong with settings becomes one short line in untold's own words."""

import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from toys import toy_config, toy_tokenizers, write_corpus
from untold.alignment.aligners import load_aligner
from untold.commands.align import _aligner_config
from untold.commands.options import load_translator
from untold.config import (
    BACKBONES,
    AlignerConfig,
    Config,
    CorpusConfig,
    DataConfig,
    DecodeConfig,
    Section,
    SeparatorConfig,
    SequenceConfig,
    TokenizerConfig,
    TrainConfig,
    check_section,
    load_config,
    model_config_class,
    override,
    parse_config,
    parse_config_json,
)
from untold.errors import UntoldError, shorten
from untold.files import new_directory, verify_directory
from untold.models.build import build_model_for
from untold.storage.model_directory import TrainedModel
from untold.training.checkpoint import Checkpoints
from untold.translator import Translator

PYDANTIC = re.compile(
    r"[Ii]nput should|valid (integer|string|number|boolean|dict|tuple)|[Ff]ield required|"
    r"Extra inputs|Value error|pydantic|unable to|instance of|after validation|at most \d item"
)
SECTIONS = [
    AlignerConfig,
    CorpusConfig,
    DataConfig,
    DecodeConfig,
    SeparatorConfig,
    SequenceConfig,
    TokenizerConfig,
    TrainConfig,
    *(model_config_class(name) for name in BACKBONES.names),
]
VALUES: list[Any] = [
    *(None, True, 0, -1, 3.5, 10**30, 10**400, 1 << 20_000, float("nan"), float("inf")),
    *(
        "",
        "x",
        "5",
        "y" * 9999,
        "two\nlines\x1b[31m",
        "\ud800",
        b"bytes",
        datetime.date(2020, 1, 2),
    ),
    *([], [1], [0.5, 0.5, 0.5], ["a", "b", "c"], (), {}, {"a": 1}, {"a": {"b": []}}, object()),
]


def is_in_our_words(message: str) -> bool:
    return (
        PYDANTIC.search(message) is None
        and "\n" not in message
        and "\x1b" not in message
        and message.isprintable()
        and len(message) < 400
    )


def test_no_value_of_any_setting_is_answered_in_the_words_of_a_library():
    for kind in SECTIONS:
        answer_in_our_words(kind)


def answer_in_our_words(kind: type[Section]):
    types: set[str] = set()
    for name in kind.model_fields:
        for value in VALUES:
            try:
                kind.model_validate({name: value})
            except ValidationError as error:
                types |= {problem["type"] for problem in error.errors()}
                with pytest.raises(UntoldError) as caught:
                    check_section(kind, {name: value}, "here")
                message = str(caught.value)
                assert is_in_our_words(message), message
                assert message.startswith("here: ")
                assert name in message or "value_error" in types
    assert types, "the values find mistakes"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            "train.steps=many",
            'train.steps = "many": must be a whole number from 1 to 1,000,000,000',
        ),
        ("train.steps=0", "train.steps = 0: must be a whole number from 1 to"),
        ("train.label_smoothing=1.0", "= 1.0: must be a number from 0 to below 1"),
        ("decode.max_ratio=inf", "decode.max_ratio = Infinity: must be a number above 0 to 1,000"),
        ("train.seed=99999999999999999999", "from 0 to 9,223,372,036,854,775,807"),
        ("data.root=true", "data.root = true: must be text in quotes"),
        ("data.lowercase=1", "data.lowercase = 1: must be true or false"),
        ("tokenizer.kind=wordpiece", 'must be one of "bpe", "unigram", "char", "word"'),
        ("train.losses={x=-1.0}", "train.losses.x = -1.0: must be a number from 0 to 1,000,000"),
        ('data.train={path="a", columns=["x"]}', "data.train.0.columns.1: must be text in quotes"),
        ("model.heads=2.0", "model.heads = 2.0: must be a whole number from 1 to 1,024"),
        ("model.preset=[1]", "model.preset: must be text in quotes"),
        ("model.separator.preset={}", 'model.separator.preset: must be one of "default", "paper"'),
        ("decode.beam=2020-01-02", 'decode.beam = "2020-01-02": must be a whole number'),
        ("decode.beam=" + "9" * 5000, "a number has thousands of digits: write fewer"),
        ("decode.beam=" + "[" * 5000 + "]" * 5000, "nested too deeply: write fewer levels"),
        ("data.source_language=\udc80", "is not valid Unicode: write it in UTF-8"),
        ("steps=3", "--set steps=3: write it as section.key=value"),
        ("train.steps.x=3", "steps is a value, not a section"),
    ],
)
def test_set_says_what_is_allowed(change: str, expected: str):
    with pytest.raises(UntoldError) as caught:
        parse_config(override({"train": {"steps": 5}}, [change]), "here")
    message = str(caught.value)
    assert expected.replace(r"\"", '"').replace(r"\\", "\\") in message
    assert is_in_our_words(message), message


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("decode.bem", "did you mean decode.beam?"),
        ("train.max_length", "did you mean decode.max_length?"),
        ("decode.steps", "did you mean train.steps?"),
        ("decode.xx", "`untold config decode` lists the known ones"),
        ("model.separator.colour", "`untold config model.separator` lists the known ones"),
        ("decoder.beam", "did you mean decode?"),
        ("zebra.beam", "known: data, tokenizer, model, train, decode"),
    ],
)
def test_a_hint_is_near_or_there_is_none(key: str, hint: str):
    with pytest.raises(UntoldError, match=r"unknown key") as caught:
        parse_config(override({}, [f"{key}=1"]))
    assert str(caught.value).endswith(hint)


def test_many_problems_are_counted():
    with pytest.raises(UntoldError, match=r"unknown key e\d.*; and 7 more$") as caught:
        parse_config({f"e{number}": 1 for number in range(12)})
    assert is_in_our_words(str(caught.value))


def test_the_values_that_are_overridden_stay_as_they_are():
    values = {"train": {"steps": 5, "sequence": {"mix": 0.5}}}
    changed = override(values, ["train.steps=7", "train.sequence.mix=0.1", "decode.beam=2"])
    assert values == {"train": {"steps": 5, "sequence": {"mix": 0.5}}}
    assert changed["train"] == {"steps": 7, "sequence": {"mix": 0.1}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = " + "[" * 5000, "nested too deeply"),
        ("train.steps = " + "9" * 5000, "thousands of digits"),
        ("a = 1979-13-01", "not valid TOML"),
        ('"two\\nlines" = 1', r"unknown key two\nlines"),
        ("train = 3", "train = 3: must be a table of settings"),
    ],
)
def test_a_hostile_file_is_one_short_line(tmp_path: Path, text: str, expected: str):
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(UntoldError) as caught:
        load_config(file)
    message = str(caught.value).removeprefix(str(file))
    assert expected in message and is_in_our_words(message), message


def test_a_file_that_is_not_utf_8_says_where(tmp_path: Path):
    file = tmp_path / "c.toml"
    file.write_bytes(b"a = '\xff'")
    with pytest.raises(UntoldError, match=r"byte 6 is not UTF-8: save the file as UTF-8"):
        load_config(file)
    file.write_bytes(b"\xef\xbb\xbf[train]\nsteps = 3\n")
    assert load_config(file).train.steps == 3, "a byte order mark is no mistake"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is not valid JSON"),
        ("{", "is not valid JSON"),
        ('{"train": {"steps": ' + "9" * 5000 + "}}", "is not valid JSON: number out of range"),
        ('{"train": ' + "[" * 5000, "is not valid JSON: recursion limit exceeded"),
        ("[]", "must be a table of settings"),
        ('{"train": {"seed": "' + "x" * 9999 + '"}}', 'train.seed = "xxx'),
    ],
)
def test_a_broken_config_json_is_not_echoed(text: str, expected: str):
    with pytest.raises(UntoldError) as caught:
        parse_config_json(text, "config.json")
    message = str(caught.value)
    assert message.startswith("config.json: ") and expected in message
    assert is_in_our_words(message), message


DEEP = b"[" * 5000 + b"]" * 5000


def test_deeply_nested_files_of_a_run_are_damaged_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    root = write_corpus(tmp_path / "corpus")
    config = toy_config(root)
    tokenizers = toy_tokenizers(root, config)
    trained = TrainedModel(build_model_for(tokenizers, config.model), config, tokenizers)
    with new_directory(tmp_path / "run" / "checkpoints" / "step-00000001") as directory:
        (directory / "progress.json").write_bytes(b'{"progress": ' + DEEP + b"}")
    with pytest.raises(UntoldError, match="every checkpoint is damaged"):
        Checkpoints(tmp_path / "run", 1).latest()
    assert "progress.json cannot be used" in caplog.messages[0] and len(caplog.messages[0]) < 300
    (tmp_path / "sealed").mkdir()
    (tmp_path / "sealed" / "MANIFEST.json").write_bytes(b'{"files": ' + DEEP + b"}")
    with pytest.raises(UntoldError, match=r"MANIFEST\.json is damaged"):
        verify_directory(tmp_path / "sealed")
    with new_directory(tmp_path / "aligner") as directory:
        (directory / "aligner.json").write_bytes(DEEP)
    with pytest.raises(UntoldError, match=r"aligner\.json: is not valid JSON"):
        load_aligner(tmp_path / "aligner")
    assert Translator([trained]).translate("ab")


@pytest.mark.parametrize(
    ("settings", "flags", "expected"),
    [
        (["decode.beam=3"], {"beam": 2}, "--beam and --set decode.beam name the same setting"),
        (["decode.nbest=3"], {"nbest": 2}, "--nbest and --set decode.nbest name the same setting"),
        (["decode.beam=2"], {"beam": 2}, "name the same setting: give one"),
        (["train.steps=2"], {}, "--set train: only decode settings can change here"),
    ],
)
def test_options_that_contradict_each_other_are_refused(settings, flags, expected):
    with pytest.raises(UntoldError, match=expected):
        load_translator(Path("absent"), settings, **flags)


@pytest.fixture
def translator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Translator:
    root = write_corpus(tmp_path / "corpus")
    config = toy_config(root)
    tokenizers = toy_tokenizers(root, config)
    trained = TrainedModel(build_model_for(tokenizers, config.model), config, tokenizers)
    translator = Translator([trained])
    monkeypatch.setattr("untold.translator.load", lambda *_, **__: translator)
    return translator


def test_an_n_best_list_widens_the_beam_unless_it_was_chosen(translator: Translator):
    def decode(settings: list[str], **flags: int | None) -> tuple[int, int]:
        found = load_translator(Path("model"), settings, **flags).decode
        return found.beam, found.nbest

    assert decode([], nbest=5, beam=None) == (5, 5)
    assert decode(["decode.beam=6"], nbest=5) == (6, 5)
    assert decode(["decode.nbest=2"], beam=7) == (7, 2)
    for settings, flags in ((["decode.beam=3"], {"nbest": 5}), ([], {"nbest": 5, "beam": 3})):
        with pytest.raises(UntoldError, match="nbest 5 needs a beam at least as wide, not 3"):
            decode(settings, **flags)


def test_a_setting_with_the_name_of_a_parameter_is_just_unknown(translator: Translator):
    with pytest.raises(UntoldError, match=r"unknown key decode\.self"):
        load_translator(Path("model"), ["decode.self=1"])


def test_the_options_of_align_are_answered_in_the_same_words():
    with pytest.raises(UntoldError) as caught:
        _aligner_config(kind="giza", source_words="letter", target_words=None)
    assert str(caught.value) == (
        'align: --kind = "giza": must be one of "eflomal", "fast_align", "hmm", "ibm1", "ibm2", '
        '"ibm4"; --source-words = "letter": must be one of "blank", "word", "character", "jieba"'
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("short", "short"),
        ("x" * 100, "x" * 59 + "…"),
        ("two\nlines\t\x1b[0m", r"two\nlines\t\x1b[0m"),
        ("Straße 长", "Straße 长"),
        ("\ud800", r"\ud800"),
        (3, "3"),
    ],
)
def test_what_an_error_echoes_is_short_and_printable(value: object, expected: str):
    assert shorten(value) == expected


def test_json_that_is_right_is_read(tmp_path: Path):
    values = json.loads(Config().model_dump_json())
    assert parse_config_json(json.dumps(values), "here") == Config()
