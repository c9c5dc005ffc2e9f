"""Options and settings that would do nothing are refused or told, and nothing is done silently."""

from pathlib import Path

import pytest
import typer

from fuzz.in_process import Ended, run_in_process
from jobs import write_toml
from toys import toy_values, write_corpus
from untold.cli import app
from untold.commands.options import NO_EFFECT
from untold.config import IDLE_RULES, Config, idle_settings, load_config, parse_config, why_idle

COMMANDS = typer.main.get_command(app).commands
COMBINATIONS = [(rule, name) for rule in NO_EFFECT for name in rule.idle]
CONFIGS = sorted((Path(__file__).parents[2] / "configs").rglob("*.toml"))


def parameters(command):
    return {each.name: each for each in COMMANDS[command].params}


def written(parameter) -> list[str]:
    """An option as it is typed, with some value that its type allows."""
    if parameter.param_type_name == "argument":
        return ["model"]
    value = [] if parameter.is_flag else ["decode.beam=2" if parameter.name == "settings" else "3"]
    return [parameter.opts[0], *value]


def command_line(command: str, *names: str) -> list[str]:
    known = parameters(command)
    required = [each for each in known.values() if each.required]
    chosen = [*required, *(known[name] for name in names)]
    return [command, *(word for each in chosen for word in written(each))]


@pytest.mark.parametrize(
    ("rule", "name"), COMBINATIONS, ids=[f"{r.command}-{r.beside}-{n}" for r, n in COMBINATIONS]
)
def test_an_option_that_does_nothing_beside_another_is_refused(rule, name, tmp_path):
    known = parameters(rule.command)
    option, other = known[name].opts[0], known[rule.beside].opts[0]
    ended = run_in_process(command_line(rule.command, name, rule.beside), tmp_path)
    assert (ended.code, ended.output) == (2, "")
    assert ended.errors == (
        f"untold: {option} has no effect beside {other}, {rule.reason}: leave out one of them\n"
    )
    for alone in (name, rule.beside):  # the control: either of them is fine, but the files are not
        ended = run_in_process(command_line(rule.command, alone), tmp_path)
        assert ended.code == 2 and "has no effect" not in ended.errors


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, a configuration and a run."""
    folder = tmp_path_factory.mktemp("idle")
    write_corpus(folder, valid=4)
    sections = {"model": {"separator": {"kind": "gdr", "d_capsule": 3}}, "train": {"steps": 3}}
    write_toml(folder / "toy.toml", toy_values(Path(), **sections))
    assert run_in_process(("train", "toy.toml", "--out", "run"), folder).code == 0
    (folder / "gaps.src").write_text("ab\n\ncd\n \n")
    (folder / "gaps.tgt").write_text("ba\nx\n\ny\n")
    (folder / "blank").write_text("\n \n\t\n\n")
    (folder / "empty").write_text("")
    (folder / "links").write_text("0-0\n\n\n0p1\n")
    return folder


PAIR = ("--source", "valid.src", "--target", "valid.tgt")
TEST = ("--source", "valid.src", "--reference", "valid.tgt")
RACE = ("--test", "t=valid.src,valid.tgt", "--no-speed")
SENTENCE = ("--source", "ab", "--target", "ba")


def idle(*changes: str) -> list[str]:
    return [word for change in changes for word in ("--set", f"decode.{change}")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("translate", "run", *idle("temperature=0.5")), "only samples are drawn with it"),
        (("translate", "run", *idle("top_k=5")), "set decode.sample = true"),
        (("translate", "run", *idle("top_p=0.5")), "set decode.sample = true"),
        (("evaluate", "run", *TEST, *idle("seed=2")), "set decode.sample = true"),
        (("translate", "run", *idle("sample=true", "beam=3")), "samples need no beam"),
        (("translate", "run", "--beam", 3, *idle("sample=true")), "samples need no beam"),
        (("translate", "run", *idle("coverage_source=past")), "decode.coverage_penalty is 0"),
        (("score", "run", *PAIR, *idle("beam=2")), "what has one: decode.batch_tokens"),
        (("score", "run", *PAIR, *idle("length_penalty=1")), "has no effect here"),
        (("score", "run", *PAIR, "--json", *idle("nbest=1")), "decode.coverage_source"),
        (("explain", "run", *SENTENCE, *idle("beam=2")), "has no effect here"),
        (("evaluate", "run", *TEST, "--alignments", "links", *idle("beam=2")), "no effect here"),
        (("evaluate", "run", *TEST, "--metrics", "chrf,ter", "--tokenize", "zh"), "on chrf, ter"),
        (("compare", "run", *RACE, "--metric", "chrf", "--tokenize", "none"), "on chrf: leave"),
    ],
)
def test_a_setting_of_decoding_that_does_nothing_is_refused(folder, arguments, expected):
    ended = run_in_process(arguments, folder)
    assert ended.code == 2, ended.output
    assert "has no effect" in ended.errors and expected in ended.errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "run", *idle("sample=true", "temperature=0.5", "nbest=2", "seed=3")),
        ("translate", "run", "--nbest", 3, *idle("sample=true")),
        ("translate", "run", *idle("coverage_penalty=0.2", "coverage_source=past")),
        ("score", "run", *PAIR, *idle("batch_tokens=50")),
        ("score", "run", *PAIR, "--json", *idle("length_penalty=1")),
        ("score", "run", *PAIR, "--json", *idle("tell_all=0.5")),
        ("translate", "run", *idle("tell_all=0.5")),
        ("explain", "run", "--source", "ab", *idle("beam=2")),
        ("evaluate", "run", *TEST, "--metrics", "bleu,chrf", "--tokenize", "char", "--lowercase"),
    ],
)
def test_a_setting_of_decoding_that_does_something_is_accepted(folder, arguments):
    ended = run_in_process(arguments, folder, b"ab cd\n")
    assert ended.code == 0, ended.errors


def idle_values(key: str):
    """A configuration in which the setting asks for something, in vain, if there is any."""
    holders = [
        {},
        {"data": {"train": {"source": "a", "target": "b"}}, "train": {"schedule": "plateau"}},
        {"train": {"validate_bleu": False, "best_by": "loss"}, "data": {"valid": VALID}},
        {"decode": {"sample": True}},
        {"train": {"counterfactual": 0.0}, "model": {"separator": {"kind": "gdr"}}},
        {"model": {"backbone": "huggingface"}},
    ]
    for values in holders:
        yield from (with_value(values, key, value) for value in CANDIDATES)


VALID = {"source": "a", "target": "b"}
CANDIDATES = (2, 3, 0.75, True, "loss", "paper", "mean", "first", "nbest", "plateau", "past", "ffn")
CANDIDATES += ("mlp", "chrf", "self_critical", "capsule_to_state", "unigram", 500, 0.99, "x")


def with_value(values: dict, key: str, value: object) -> Config | None:
    from untold.errors import UntoldError

    *sections, name = key.split(".")
    copy: dict = {section: dict(inner) for section, inner in values.items()}
    place = copy
    for section in sections:
        place = place.setdefault(section, {})
    place[name] = value
    try:
        return parse_config(copy)
    except UntoldError:
        return None


KEYS = sorted({key for rule in IDLE_RULES for key in rule.keys})


@pytest.mark.parametrize("key", KEYS)
def test_every_rule_about_settings_tells_some_configuration(key):
    told = [
        line
        for config in idle_values(key)
        if config is not None
        for line in idle_settings(config)
        if line.startswith(f"{key} = ")
    ]
    assert told and all("has no effect: " in line for line in told)


def test_defaults_and_zeros_are_not_told():
    assert list(idle_settings(parse_config({}))) == []
    assert list(idle_settings(parse_config({"train": {"bow_weight": 0.0}}))) == []
    assert why_idle(parse_config({}), "decode.temperature") is not None
    assert why_idle(parse_config({"decode": {"sample": True}}), "decode.temperature") is None


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configurations_that_are_shipped_ask_for_nothing_in_vain(path):
    assert list(idle_settings(load_config(path))) == []


def test_training_tells_settings_that_do_nothing(folder):
    change = ("--set", "train.plateau_factor=0.25", "--set", "train.steps=1")
    ended = run_in_process(("train", "toy.toml", "--out", "told", *change), folder)
    assert ended.code == 0
    line = 'train.plateau_factor = 0.25 has no effect: it is for train.schedule = "plateau"\n'
    assert ended.errors.count(line) == 1


def evaluate(folder: Path, source: str, reference: str, *more: object) -> Ended:
    options = ("--source", source, "--reference", reference, *more)
    return run_in_process(("evaluate", "run", *options), folder)


def test_blank_references_are_told_and_a_text_of_blanks_alone_is_refused(folder):
    ended = evaluate(folder, "gaps.src", "gaps.tgt", "--metrics", "bleu")
    assert ended.code == 0 and ended.output.startswith("BLEU ")
    assert "gaps.src: 2 of 4 lines are blank, the first is line 2\n" in ended.errors
    assert "gaps.tgt: 1 of 4 lines are blank, the first is line 3\n" in ended.errors
    assert "blank" not in evaluate(folder, "valid.src", "valid.tgt").errors
    for source, reference in (("blank", "gaps.tgt"), ("gaps.src", "blank")):
        for more in ((), ("--metrics", "chrf"), ("--overlap",)):
            ended = evaluate(folder, source, reference, *more)
            assert ended.code == 2
            assert "blank: all 4 lines are blank: there is nothing to score\n" in ended.errors
    assert "empty: is empty: there is nothing to score" in evaluate(folder, "empty", "empty").errors
    ended = run_in_process(("compare", "run", "--test", "t=gaps.src,blank", "--no-speed"), folder)
    assert ended.code == 2 and "all 4 lines are blank" in ended.errors


@pytest.mark.parametrize("link", ["7-0", "0-7", "0p7"])
def test_a_link_that_leads_out_names_file_and_line(folder, link):
    (folder / "wrong").write_text(f"0-0\n\n{link} 0-0\n\n")
    ended = evaluate(folder, "valid.src", "valid.tgt", "--alignments", "wrong")
    assert ended.code == 2
    assert f"wrong:3: the link {link.replace('p', '-')} leads out of a pair of " in ended.errors
    options = ("--gold", "wrong", "--kind", "ibm1")
    ended = run_in_process(("align", *PAIR, *options), folder)
    assert ended.code == 2 and "wrong:3: the link " in ended.errors


def test_a_link_of_a_thousand_digits_is_no_link(folder):
    (folder / "wrong").write_text(f"0-{'9' * 5000}\n\n\n\n")
    ended = evaluate(folder, "valid.src", "valid.tgt", "--alignments", "wrong")
    assert ended.code == 2 and "wrong:1: " in ended.errors and "is no link" in ended.errors
