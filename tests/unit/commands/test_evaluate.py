"""`untold evaluate` with several systems, in this process, on models that were never trained."""

import gzip
import json

import pytest

from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.commands import compared_systems
from untold.commands.compared_systems import read_families, read_tests
from untold.commands.evaluate import compare, evaluate
from untold.errors import UntoldError
from untold.metrics.base import corpus_scores
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, load_model, save_model
from untold.translator import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, and models that differ in their weights, their separators and their sizes."""
    root = write_corpus(tmp_path_factory.mktemp("evaluate"), valid=6)
    for name, scale, model in (
        ("plain", 0.8, {}),
        ("seed", 0.9, {}),
        ("gdr", 0.8, {"separator": {"kind": "gdr", "d_capsule": 3}}),
    ):
        config = toy_config(root)
        config = toy_config(root, model=config.model.model_dump(exclude_defaults=True) | model)
        tokenizers = toy_tokenizers(root, config)
        sizes = (len(tokenizers.source), len(tokenizers.target))
        made = fill(build_model(config.model, sizes, shared=tokenizers.joint), scale)
        save_model(root / name, TrainedModel(made, config, tokenizers))
    (root / "valid.src.gz").write_bytes(gzip.compress((root / "valid.src").read_bytes()))
    return root


def both_sets(folder):
    return [
        f"one={folder / 'valid.src.gz'},{folder / 'valid.tgt'}",
        f"two={folder / 'train.src'},{folder / 'train.tgt'}",
    ]


@pytest.fixture
def compared(capsys):
    """compared(runs, tests, metrics="chrf") -> the record that --json prints; the first run is
    the baseline."""

    def compared(runs, tests, **options):
        baseline, *others = map(str, runs)
        systems = {"systems": others, "against": baseline} if others else {"systems": [baseline]}
        given = {"metrics": "chrf", "samples": 9, "test": tests, "as_json": True}
        evaluate(**systems, **given | options)
        return json.loads(capsys.readouterr().out)

    return compared


def test_scores_are_those_of_each_model_s_own_translations(folder, compared):
    runs = [folder / "plain", f"both={folder / 'plain'},{folder / 'seed'}"]
    rows = compared(runs, both_sets(folder))["rows"]
    assert [row["name"] for row in rows] == ["plain", "both"]
    lines = (folder / "valid.src").read_text().split("\n")[:-1]
    references = (folder / "valid.tgt").read_text().split("\n")[:-1]
    values = []
    for name in ("plain", "seed"):
        texts = [each.text for each in load(folder / name).translate(lines)]
        values.append(corpus_scores(texts, references, ["chrf"])[0].value)
    assert rows[0]["scores"]["one"]["values"] == pytest.approx([values[0]])
    assert rows[1]["scores"]["one"]["values"] == pytest.approx(values)
    assert values[0] != values[1]


def test_settings_of_decoding_reach_every_model(folder, compared):
    runs, tests = [folder / "plain", folder / "seed"], both_sets(folder)[:1]
    silent = compared(runs, tests, settings=["decode.max_length=1"])
    assert [row["average"]["mean"] for row in silent["rows"]] == [0.0, 0.0]
    with pytest.raises(UntoldError, match="only decode settings"):
        compared(runs, tests, settings=["train.steps=1"])


def test_json_has_the_columns_of_the_table_and_markdown_too(folder, capsys):
    given = {
        "systems": [str(folder / "gdr")],
        "against": str(folder / "plain"),
        "test": [f"one={folder / 'valid.src'},{folder / 'valid.tgt'}"],
        "samples": 5,
    }
    evaluate(**given, as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert "tok:none" in record["signature"], "as the baseline's configuration says"
    plain, gdr = record["rows"]
    heads = sum(p.numel() for p in load_model(folder / "gdr").model.past_future.heads.parameters())
    sizes = gdr["parameters"]
    assert sizes["total"] - sizes["to_translate_with"] == heads
    assert sizes["total"] > plain["parameters"]["total"] > plain["parameters"]["without_embeddings"]
    for row in record["rows"]:
        assert row["scores"]["one"]["mean"] == row["average"]["mean"]
    assert plain["average"]["p"] is None
    assert 0 < gdr["average"]["p"]["bootstrap"] <= 1
    evaluate(**given, markdown=True)
    assert capsys.readouterr().out.startswith("| model | parameters |")
    evaluate(**given)
    assert "p randomisation" in capsys.readouterr().out


def test_files_of_translations_are_systems_too(folder, compared, capsys, tmp_path):
    source, reference = folder / "valid.src", folder / "valid.tgt"
    lines = source.read_text().split("\n")[:-1]
    texts = [each.text for each in load(folder / "seed").translate(lines)]
    outputs = tmp_path / "outputs"
    outputs.write_text("".join(f"{text}\n" for text in texts))
    tests = [f"one={source},{reference}"]
    model, file = (
        compared([folder / "plain", run], tests)["rows"][1] for run in (folder / "seed", outputs)
    )
    assert file["average"] == model["average"] and file["name"] == "outputs"
    assert file["parameters"] is None
    evaluate([str(outputs)], source, [reference], metrics="chrf", as_json=True)
    (score,) = json.loads(capsys.readouterr().out)
    assert score["value"] == pytest.approx(model["average"]["mean"])
    evaluate([str(outputs)], source, [reference], against=str(folder / "plain"), samples=5)
    assert " -" in capsys.readouterr().out
    with pytest.raises(UntoldError, match="outputs holds the translations of one test set"):
        compared([folder / "plain", outputs], both_sets(folder))
    outputs.write_text("a\n")
    with pytest.raises(UntoldError, match="outputs has 1 lines and the source of one has 6"):
        compared([folder / "plain", outputs], tests)


def test_rows_are_called_by_their_directories_or_as_they_are_told(tmp_path):
    (tmp_path / "odd=name").mkdir()
    given = [str(tmp_path / "a" / "run"), "told=x,y", f"{tmp_path}/odd=name/"]
    families = read_families(given)
    assert [family.name for family in families] == ["run", "told", "odd=name"]
    assert [str(path) for path in families[1].runs] == ["x", "y"]
    assert families[2].runs[0].exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a/run", "b/run"], "two systems are called run: call one of them otherwise"),
        (["a", "=b"], "=b: write a system as RUN, NAME=RUN"),
        (["a", "b="], "b=: write a system as RUN, NAME=RUN"),
        (["a", "b=c,c"], "b=c,c: names the same run twice"),
    ],
)
def test_rows_that_cannot_be_told_apart_are_errors(given, message):
    with pytest.raises(UntoldError, match=message):
        read_families(given)


def test_test_sets_that_do_not_fit_are_errors(tmp_path):
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "three").write_text("a\nb\nc\n")
    two, three = tmp_path / "two", tmp_path / "three"
    for given, message in (
        ([], "name test sets either by --source"),
        ([f"x={two}"], "write it as NAME=SOURCE,REFERENCE"),
        ([f"{two},{two}"], "write it as NAME=SOURCE,REFERENCE"),
        ([f"x={two},"], "write it as NAME=SOURCE,REFERENCE"),
        ([f"x={two},{three}"], "two has 2 lines and .*three has 3"),
        ([f"x={two},{two},{three}"], "two has 2 lines and .*three has 3"),
        ([f"x={two},{two}", f"x={three},{three}"], "two test sets are called x"),
        ([f"x={tmp_path / 'absent'},{two}"], "absent: No such file"),
    ):
        with pytest.raises(UntoldError, match=message):
            read_tests(None, [], given)


def test_a_test_set_may_have_several_references(tmp_path):
    for name, text in (("source", "s\nt\n"), ("one", "a\nb\n"), ("two", "c\nd\n")):
        (tmp_path / name).write_text(text)
    given = ",".join(str(tmp_path / name) for name in ("source", "one", "two", "one"))
    (test,) = read_tests(None, [], [f"x={given}"])
    assert (test.sources, test.references) == (["s", "t"], ["a", "b"])
    assert test.further_references == [["c", "d"], ["a", "b"]]


def test_other_mistakes_are_found_before_anything_is_translated(folder, compared, monkeypatch):
    monkeypatch.setattr(compared_systems, "translate_test", lambda *_: pytest.fail("too late"))
    plain, gdr = str(folder / "plain"), str(folder / "gdr")
    sets = both_sets(folder)
    with pytest.raises(UntoldError, match=r"--metrics ter: .* one metric of: bleu, chrf"):
        compared([plain], sets, metrics="ter")
    with pytest.raises(UntoldError, match=r"mixed: its runs have .* differ in nothing but"):
        compared([plain, f"mixed={plain},{gdr}"], sets)
    with pytest.raises(UntoldError, match="absent: no such model"):
        compared([plain, folder / "absent"], sets)
    with pytest.raises(UntoldError, match=r"2 systems, but no baseline: .* as --against RUN"):
        evaluate([plain, gdr], test=sets)
    with pytest.raises(UntoldError, match=r"--out .*x has no effect where systems are compared"):
        evaluate([plain], test=sets, against=gdr, out=folder / ".." / "x")
    with pytest.raises(UntoldError, match="either by --source and --reference or by --test"):
        evaluate([plain], folder / "valid.src", [folder / "valid.tgt"], sets)


def test_the_command_of_before_names_what_took_its_place():
    with pytest.raises(UntoldError, match=r"is now untold evaluate B --against A --test"):
        compare()
