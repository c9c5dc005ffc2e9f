import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untold.config import (
    BACKBONES,
    SEPARATOR_PRESETS,
    Config,
    DecodeConfig,
    ModelConfig,
    SeparatorConfig,
    load_config,
    model_config_class,
    override,
    parse_config,
    parse_config_json,
)
from untold.config.older import _FORMER, lost_values, without_former
from untold.errors import UntoldError
from untold.models.pfrnn import PfrnnConfig
from untold.models.rnmt import RnmtConfig
from untold.models.transformer import TransformerConfig

PRESETS = {name: model_config_class(name).presets for name in BACKBONES.names}
OLD_CONFIGS = Path(__file__).parent / "old_configs"


def refusal(values: dict) -> str:
    with pytest.raises(UntoldError) as caught:
        parse_config(values)
    return str(caught.value)


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    assert "unknown key train.stpes; did you mean train.steps?" in refusal({"train": {"stpes": 3}})
    assert "did you mean data.train.source?" in refusal({"data": {"train": {"sourc": "a"}}})
    assert "did you mean train?" in refusal({"trian": {}})


def test_an_unknown_key_of_the_model_names_the_nearest_of_the_chosen_backbone() -> None:
    assert "model.head; did you mean model.heads?" in refusal({"model": {"head": 3}})
    near = "unknown key model.d_embeding; did you mean model.d_embedding?"
    assert near in refusal({"model": {"backbone": "rnmt", "d_embeding": 3}})
    assert "model.d_embedding" not in refusal({"model": {"d_embeding": 3}})
    assert "future_layer?" in refusal({"model": {"backbone": "pfrnn", "future_layers": "gru"}})
    text = json.dumps({"model": {"backbone": "rnmt", "d_embeding": 3}})
    with pytest.raises(UntoldError, match=r"did you mean model\.d_embedding\?"):
        parse_config_json(text, "here")


def test_every_problem_is_named_with_its_value() -> None:
    message = refusal({"model": {"dropout": 1.5}, "train": {"steps": "many"}})
    assert "model.dropout = 1.5" in message and 'train.steps = "many"' in message


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"train": {"steps": 1.0}}, "train.steps"),
        ({"train": {"steps": True}}, "train.steps"),
        ({"data": {"lowercase": "no"}}, "data.lowercase"),
        ({"model": {"d_model": 100, "heads": 3}}, "d_model 100 is not a multiple of heads 3"),
        ({"model": {"d_model": 15, "heads": 5}}, "d_model 15 is odd"),
        ({"model": {"d_embedding": 64}}, "as wide as d_model, here 512: leave d_embedding out"),
        ({"model": {"backbone": "rnmt", "heads": 4}}, "heads 4 means nothing to rnmt: leave"),
        ({"model": {"backbone": "rnmt", "decoder_layers": 2}}, "leave decoder_layers out"),
        ({"model": {"backbone": "rnmt", "activation_dropout": 0.1}}, "leave activation_dropout"),
        ({"model": {"backbone": "rnmt", "preset": "big"}}, "rnmt has tiny, small, base"),
        ({"model": {"backbone": "rnmt", "preset": "huge"}}, 'model.preset = "huge"'),
        ({"model": {"backbone": "rnmt", "future_layer": "gru"}}, "leave future_layer out"),
        ({"model": {"attention_coverage": "neural"}}, "means nothing to transformer: leave"),
        ({"model": {"backbone": "rnn"}}, 'model.backbone = "rnn": unknown backbone rnn; did you'),
        ({"model": {"backbone": "rnn", "heads": 3}}, "known: transformer, rnmt, pfrnn"),
        ({"model": {"backbone": 3}}, "model.backbone = 3"),
        ({"model": {"backbone": ["rnmt"]}}, "model.backbone: "),
        ({"model": 3}, "model = 3"),
        ({"model": {"backbone": "rnmt", "heads": 8}}, "heads 8 means nothing to rnmt: leave heads"),
        ({"model": {"preset": "huge"}}, "transformer has tiny, small, base, big"),
        ({"decode": {"beam": 2, "nbest": 5}}, "nbest 5 needs a beam"),
        ({"tokenizer": {"kind": "word", "dropout": 0.1}}, "word has none: set it to 0"),
        ({"train": {"freeze_backbone": True}}, 'no translation changes: set best_by = "loss"'),
        ({"train": {"bow_share": 0.0}}, "train.bow_share = 0.0"),
        ({"train": {"counterfactual": 1.1}}, "train.counterfactual = 1.1"),
        ({"model": {"separator": {"past": 0}}}, "model.separator.past = 0"),
        ({"model": {"separator": {"kind": "pdr"}}}, 'model.separator.kind = "pdr"'),
        (
            {"model": {"separator": {"kind": "x"}}},
            "separator x; known: gdr, clf, attn, none",
        ),
        ({"data": {"train": {"source": "a"}}}, "both source and target"),
        ({"data": {"train": {"source": "a", "target": "b", "path": "c"}}}, "exactly one of"),
    ],
)
def test_wrong_types_and_contradictions_are_refused(values: dict, expected: str) -> None:
    assert expected in refusal(values)


@pytest.mark.parametrize(("backbone", "name"), [(b, name) for b in PRESETS for name in PRESETS[b]])
def test_a_preset_fills_in_what_is_not_written_out(backbone: str, name: str) -> None:
    config = parse_config({"model": {"backbone": backbone, "preset": name, "d_ffn": 24}}).model
    assert config.d_model == PRESETS[backbone][name]["d_model"]
    assert config.d_ffn == 24
    assert parse_config_json(Config(model=config).model_dump_json(), "here").model == config


def test_presets_of_a_recurrent_model_are_its_own() -> None:
    config = parse_config({"model": {"backbone": "rnmt"}}).model
    assert (config.d_embedding, config.d_model, config.encoder_layers) == (512, 1024, 1)
    one = {"backbone": "rnmt", "heads": 1, "decoder_layers": 1, "attention_dropout": 0.0}
    assert parse_config({"model": one}).model == config, "what is true may be written out"


@pytest.mark.parametrize(
    ("backbone", "kind"),
    [("transformer", TransformerConfig), ("rnmt", RnmtConfig), ("pfrnn", PfrnnConfig)],
)
def test_the_backbone_chooses_the_class_of_the_model_s_settings(backbone: str, kind: type) -> None:
    config = parse_config({"model": {"backbone": backbone, "preset": "tiny"}})
    assert type(config.model) is kind
    assert type(ModelConfig.model_validate({"backbone": backbone})) is kind
    dumped = json.loads(config.model_dump_json())
    assert dumped["model"].keys() == kind.model_fields.keys(), "its own keys and no others"
    assert parse_config_json(config.model_dump_json(), "here") == config
    assert parse_config(config.model_dump()) == config


@pytest.mark.parametrize("backbone", ["transformer", "rnmt", "pfrnn"])
def test_a_model_of_before_the_union_is_read(backbone: str) -> None:
    """config.json as versions wrote it that gave every backbone the keys of all."""
    text = (OLD_CONFIGS / f"{backbone}.json").read_text()
    old, config = json.loads(text), parse_config_json(text, "old")
    now = json.loads(config.model_dump_json())
    assert now["model"].pop("output_bias") is False, "newer than the file"
    assert now["model"]["separator"].pop("token_coverage") is False, "newer than the file"
    if backbone == "transformer":
        newer = {"norm": "pre", "activation": "relu"}
        assert {key: now["model"].pop(key) for key in newer} == newer
    for key in _FORMER:
        *outer, name = key.split(".")
        functools.reduce(lambda table, each: table.get(each, {}), outer, old).pop(name, None)
    dropped = old["model"].keys() - now["model"].keys()
    assert old["model"] == now["model"] | {key: old["model"][key] for key in dropped}
    assert dropped
    assert config.decode.temperature == 0.0, "no search became a sample"
    del old["decode"]["temperature"]
    del old["decode"]["sample"]
    for section in ("data", "tokenizer", "train", "decode"):
        assert old[section].items() <= now[section].items()
    for key in dropped - {"d_embedding"}:
        for other in ("neither", 7):
            changed = old | {"model": old["model"] | {key: other}}
            with pytest.raises(UntoldError, match=f"{key} {other} means nothing to {backbone}: l"):
                parse_config_json(json.dumps(changed), "old")


def test_a_configuration_of_another_backbone_is_refused_by_the_class_of_one() -> None:
    with pytest.raises(ValueError, match="RnmtConfig configures the backbone rnmt: write rnmt"):
        RnmtConfig(backbone="pfrnn")


def test_a_backbone_without_a_configuration_of_its_own_is_refused() -> None:
    BACKBONES.add("bare", object)
    try:
        with pytest.raises(UntoldError, match="backbone bare: its class names no config_class"):
            parse_config({"model": {"backbone": "bare"}})
    finally:
        BACKBONES.remove("bare")


def test_one_corpus_or_several() -> None:
    one = {"source": "a.en", "target": "a.de"}
    assert len(parse_config({"data": {"train": one}}).data.train) == 1
    several = parse_config({"data": {"train": [one, {"path": "b.tsv", "columns": ["x", "y"]}]}})
    assert several.data.train[1].columns == ("x", "y")


def test_a_configuration_survives_json() -> None:
    corpus = {"path": "b.tsv", "columns": ["x", "y"]}
    config = parse_config({"data": {"train": corpus}, "model": {"preset": "tiny"}})
    assert parse_config_json(config.model_dump_json(), "here") == config
    with pytest.raises(UntoldError, match=r"there: .*unknown key modle"):
        parse_config_json('{"modle": {}}', "there")


def test_importing_the_configuration_leaves_torch_out() -> None:
    code = "import sys; from untold import config; config.SeparatorConfig(kind='gdr'); "
    code += "print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_configurations_are_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        Config().train.steps = 3  # type: ignore[misc]


def test_overrides_are_toml_or_bare_words(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[train]\nsteps = 5\n")
    config = load_config(
        file,
        [
            "train.steps=7",
            "train.learning_rate=1e-4",
            "model.preset=tiny",
            "data.root=/some/where else",
            'train.best_by="loss"',
        ],
    )
    assert (config.train.steps, config.train.learning_rate) == (7, 1e-4)
    assert (config.model.preset, config.data.root) == ("tiny", "/some/where else")
    assert load_config(file).train.steps == 5


@pytest.mark.parametrize("change", ["train.steps", "steps=3", "=3", "train.=3", "train.steps.x=3"])
def test_a_malformed_override_says_how_to_write_it(change: str) -> None:
    with pytest.raises(UntoldError, match="--set"):
        override({"train": {"steps": 5}}, [change])


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(UntoldError, match="no such configuration file"):
        load_config(tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[train\n")
    with pytest.raises(UntoldError, match=r"broken\.toml: not valid TOML"):
        load_config(broken)


@given(st.text(min_size=1))
def test_any_other_section_name_is_refused_in_one_line(name: str) -> None:
    if name not in Config.model_fields:
        assert "unknown key" in refusal({name: 1})


def separator(**settings: object) -> SeparatorConfig:
    return parse_config({"model": {"separator": settings}}).model.separator


def test_the_paper_s_separator_is_a_preset_and_what_is_written_out_wins() -> None:
    paper = separator(kind="gdr", preset="paper")
    assert (paper.agreement, paper.capsule_scale, paper.fusion) == ("mlp", False, "ffn")
    assert paper.num_iterations == SeparatorConfig().num_iterations
    changed = separator(kind="gdr", preset="paper", coverage=True)
    assert (changed.coverage, changed.fusion) == (True, "ffn")
    default = separator(kind="gdr")
    assert default == SeparatorConfig(kind="gdr")
    assert (default.agreement, default.capsule_scale, default.fusion) != ("mlp", False, "ffn")
    for name, settings in SEPARATOR_PRESETS.items():
        chosen = separator(preset=name).model_dump()
        assert {key: chosen[key] for key in settings} == dict(settings)


def test_a_separator_survives_its_json() -> None:
    """The preset's name is written out with its settings, and those win when read again."""
    given = {"kind": "gdr", "preset": "paper", "coverage": True, "redundant": 0}
    config = parse_config({"model": {"separator": given}})
    assert parse_config_json(config.model_dump_json(), "text") == config


def test_capsules_of_each_category_are_counted() -> None:
    sizes = {"past": 1, "future": 3, "redundant": 4}
    assert separator(kind="gdr", **sizes).counts == (1, 3, 4)
    assert separator(kind="clf", **sizes).counts == (1, 3, 4)
    assert separator(kind="attn", **sizes).counts == (1, 3, 0), "attention has no redundant share"


def test_an_unknown_key_of_the_separator_names_the_nearest() -> None:
    message = refusal({"model": {"separator": {"coverge": False}}})
    assert "unknown key model.separator.coverge" in message
    assert "did you mean model.separator.coverage?" in message


def test_a_configuration_from_before_separators_is_one_without() -> None:
    values = json.loads(Config().model_dump_json())
    del values["model"]["separator"]
    new = [name for name in values["train"] if name.startswith(("bow_", "bca_", "auxiliary_"))]
    for name in [*new, "counterfactual", "freeze_backbone"]:
        del values["train"][name]
    config = parse_config_json(json.dumps(values), "text")
    assert config == Config()
    assert config.model.separator.kind == "none"


ROOT = Path(__file__).parents[2]
SHIPPED = [*sorted((ROOT / "configs").rglob("*.toml")), ROOT / "src/untold/lab/demo.toml"]


def test_every_configuration_that_is_shipped_is_valid_and_names_its_languages() -> None:
    for path in SHIPPED:
        data, unnamed = load_config(path).data, Config().data
        assert data.train or path.stem == "demo"
        assert data.source_language != unnamed.source_language
        assert data.target_language != unnamed.target_language
        name = path.stem
        assert f"{data.source_language}-{data.target_language}" in name or name == "demo"
    assert len(SHIPPED) > 20


def test_a_saved_configuration_keeps_what_was_done_before_a_setting_existed() -> None:
    """A new model gets the new default; one whose config.json lacks the key is older."""
    values = {"model": {"separator": {"kind": "gdr"}}}
    new = parse_config(values)
    assert new.model.separator.token_coverage
    assert new.train.vocabulary_share == 0.1
    saved = json.loads(new.model_dump_json())
    assert parse_config_json(json.dumps(saved), "here") == new
    del saved["model"]["separator"]["token_coverage"]
    del saved["train"]["vocabulary_share"]
    old = parse_config_json(json.dumps(saved), "here")
    assert not old.model.separator.token_coverage
    assert old.train.vocabulary_share == 1.0
    assert not parse_config({"model": {"separator": {"preset": "paper"}}}).model.separator.coverage


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"model": 3}', "[" * 100_000])
def test_json_that_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(UntoldError, match="here: "):
        parse_config_json(text, "here")


def test_former_settings_of_the_search_say_what_to_write_instead():
    former = {"tell_all": 0.0, "no_repeat_ngram": 0, "top_k": 0, "top_p": 1.0, "sample": False}
    assert parse_config({"decode": former | {"temperature": 1.0}}).decode == DecodeConfig()
    drawn = parse_config({"decode": former | {"sample": True, "temperature": 0.5}}).decode
    assert drawn.temperature == 0.5
    with pytest.raises(UntoldError, match=r"tell_all = 0\.5 was rem.*coverage_source = \"past\""):
        parse_config({"decode": {"tell_all": 0.5}})
    with pytest.raises(UntoldError, match="top_k = 5 was removed"):
        parse_config(override({}, ["decode.top_k=5"]))
    with pytest.raises(UntoldError, match=r"0\.0001 must be 0 or at least"):
        parse_config({"decode": {"temperature": 0.0001}})


WRONG = {"train.schedule": "plateau"} | dict.fromkeys(_FORMER, 7)


def test_settings_that_are_gone_are_refused_with_what_to_do() -> None:
    for key in WRONG:
        change = f"{key}={json.dumps(WRONG[key])}"
        with pytest.raises(UntoldError, match=f"here: {key} = .* was removed: .{{9}}"):
            parse_config(override({}, [change]), "here")
        saved = override(json.loads(Config().model_dump_json()), [change])
        if key.startswith(("decode", "model")) and not key.endswith("backbone_gradient"):
            # translations would change
            with pytest.raises(UntoldError, match="was removed: "):
                parse_config_json(json.dumps(saved), "here")
        else:  # it trained a model, which translates as it did
            expected = Config().with_train(
                schedule="constant" if "schedule" in key else "inverse_sqrt"
            )
            assert parse_config_json(json.dumps(saved), "here") == expected


def test_a_former_setting_that_did_nothing_is_left_out() -> None:
    assert without_former({"train": {"betas": [0.9, 0.98], "sequence": {"d_judge": 64}}}, "") == {
        "train": {"sequence": {}}
    }
    saved = json.loads(Config().model_dump_json())
    for key, former in _FORMER.items():
        if former.value is not None:
            saved = override(saved, [f"{key}={json.dumps(former.value)}"])
    assert parse_config(saved) == Config()
    assert lost_values(saved) == []
    del saved["train"]["short_spans"]
    assert lost_values(saved) == [("train.short_spans", 0.0, 0.6)]


def test_a_separator_of_the_paper_had_other_values() -> None:
    former = {"agreement": "mlp", "fusion": "ffn", "capsule_scale": False, "backbone_gradient": 1.0}
    paper = {"kind": "gdr", "preset": "paper"}
    assert separator(**paper, **former) == separator(**paper)
    with pytest.raises(UntoldError, match=r"separator\.agreement = \"mlp\" was removed: .*preset"):
        separator(kind="gdr", agreement="mlp")
    with pytest.raises(UntoldError, match=r"separator\.capsule_scale = true was removed"):
        separator(**paper, capsule_scale=True)
