"""docs/extend.md, "A backbone" and "A separator", followed literally: the package that
it shows is installed, trains, translates and passes the conformance battery.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from rich.console import Console

import untold
from toys import records, toy_config, write_corpus
from untold.config import BACKBONES, SEPARATORS, parse_config_json
from untold.errors import UntoldError
from untold.training.log import Reporter

ROOT = Path(__file__).parents[2]
EXTEND = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
PAGE = EXTEND.partition("## A backbone")[2].partition("\n## A loss")[0]
SHORT = {"steps": 40, "validate_every": 20, "save_every": 20, "learning_rate": 0.02}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


class Quiet(Reporter):
    """Writes metrics and says nothing."""

    def __init__(self, run: Path, steps: int) -> None:
        super().__init__(run, steps, Console(quiet=True))


def install(site: Path) -> None:
    """Does what pip does: writes the modules, and the metadata that pyproject.toml asks for."""
    (project,) = map(tomllib.loads, blocks("toml"))
    modules = project["tool"]["setuptools"]["py-modules"]
    for name, text in zip(modules, blocks("python")[: len(modules)], strict=True):
        assert f"`{name}.py`" in PAGE
        (site / f"{name}.py").write_text(text)
    about = project["project"]
    info = site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir()
    header = f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n"
    (info / "METADATA").write_text(header)
    lines = []
    for group, points in about["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("site-packages")
    install(path)
    return path


@pytest.fixture
def installed(site, monkeypatch):
    """The package on this process's path; registries look for entry points anew."""
    monkeypatch.syspath_prepend(str(site))
    for registry in (BACKBONES, SEPARATORS):
        monkeypatch.setattr(registry, "_found", dict(registry._found))
        monkeypatch.delitem(vars(registry), "_entry_points", raising=False)
    yield
    for registry in (BACKBONES, SEPARATORS):
        vars(registry).pop("_entry_points", None)
    for name in ("untold_bag", "untold_even"):
        sys.modules.pop(name, None)


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "corpus")


def train(corpus, out, init=None, **model):
    config = toy_config(corpus, model={"backbone": "bag"} | model, train=SHORT)
    return untold.train(config, untold.RunOptions(out, init), Quiet(out, 1))


def losses(out):
    return [record["nll"] for record in records(out, "train")]


def test_it_is_found_by_its_entry_point(installed):
    assert "bag" in BACKBONES.names and "even" in SEPARATORS.names
    assert BACKBONES["bag"].__module__ == "untold_bag"


def test_it_trains_translates_and_is_loaded_again(installed, corpus, tmp_path):
    assert train(corpus, tmp_path / "run").progress.step == 40
    assert losses(tmp_path / "run")[-1] < 0.8 * losses(tmp_path / "run")[0]
    translator = untold.load(tmp_path / "run")
    text = (corpus / "valid.src").read_text().split("\n")[0]
    first = translator.translate(text)
    assert first.text and first.text == untold.load(tmp_path / "run").translate(text).text
    assert translator.score([(text, first.text)])[0].score < 0
    config = translator.models[0].config.model
    assert (config.backbone, config.d_model) == ("bag", 24)


@pytest.mark.parametrize("kind", ["gdr", "even"])
def test_past_and_future_sit_on_top_of_it(installed, corpus, tmp_path, kind):
    train(corpus, tmp_path / "plain")
    separator = {"kind": kind, "d_capsule": 6}
    train(corpus, tmp_path / "run", tmp_path / "plain", separator=separator, output_bias=True)
    translator = untold.load(tmp_path / "run")
    assert translator.models[0].model.backbone.output_bias.any()
    text = (corpus / "valid.src").read_text().split("\n")[0]
    found = translator.translate(text, assignments=True)
    shares = torch.as_tensor(found.assignments)
    assert shares.shape[-1] == 3
    torch.testing.assert_close(shares.sum(-1), torch.ones(shares.shape[:-1]))
    if kind == "even":
        torch.testing.assert_close(shares, torch.full_like(shares, 1 / 3))


def test_its_keys_are_checked_like_those_of_any_backbone(installed, corpus):
    config = toy_config(corpus, model={"backbone": "bag"})
    assert parse_config_json(config.model_dump_json(), "here") == config
    for model, message in (
        ({"d_modle": 3}, r"unknown key model\.d_modle; did you mean model\.d_model\?"),
        ({"heads": 8}, r"unknown key model\.heads"),
        ({"preset": "big"}, "bag has tiny, base"),
    ):
        with pytest.raises(UntoldError, match=message):
            toy_config(corpus, model={"backbone": "bag"} | model)


def test_without_the_package_its_models_name_what_is_missing(installed, corpus, monkeypatch):
    text = toy_config(corpus, model={"backbone": "bag"}).model_dump_json()
    BACKBONES._found.pop("bag")
    monkeypatch.setitem(vars(BACKBONES), "_entry_points", {})
    with pytest.raises(UntoldError, match=r'model\.backbone = "bag": unknown backbone bag'):
        parse_config_json(text, "here")


def test_it_passes_the_conformance_battery(site):
    """In a process of its own, in which the package is installed from the start."""
    paths = [str(site), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "pytest", "tests/conformance/test_backbones.py", "-k", "bag"]
    run = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-3000:]
    assert run.stdout.count(".") > 300, "hundreds of tests ran"
