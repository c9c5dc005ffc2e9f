"""`untold compare` in this process, on small models that were never trained."""

import gzip
import json

import pytest
import torch

from toys import fill, toy_config, toy_tokenizers, write_corpus
from untold.commands.evaluate import ComparedRuns, compare, read_families, read_tests
from untold.errors import UntoldError
from untold.lab import speed as run_speeds
from untold.metrics.base import corpus_scores
from untold.models.build import build_model
from untold.storage.model_directory import TrainedModel, load_model, save_model
from untold.translator import load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, and models that differ in their weights, their separators and their sizes."""
    root = write_corpus(tmp_path_factory.mktemp("compare"), valid=6)
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
    """compared(runs, tests, metric="bleu") -> the record that --json prints."""

    def compared(runs, tests, **options):
        given = {"metric": "chrf", "samples": 9, "no_speed": "rounds" not in options}
        compare(runs=list(map(str, runs)), test=tests, as_json=True, **given | options)
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
    assert all(row["training"] is None and row["decoding"] is None for row in rows)


def test_settings_of_decoding_reach_every_model(folder, compared):
    runs, tests = [folder / "plain", folder / "seed"], both_sets(folder)[:1]
    silent = compared(runs, tests, settings=["decode.max_length=1"])
    assert [row["average"]["mean"] for row in silent["rows"]] == [0.0, 0.0]
    with pytest.raises(UntoldError, match="only decode settings"):
        compared(runs, tests, settings=["train.steps=1"])


def test_json_has_the_columns_of_the_table_and_markdown_too(folder, capsys):
    given = {
        "runs": [str(folder / "plain"), str(folder / "gdr")],
        "test": [f"one={folder / 'valid.src'},{folder / 'valid.tgt'}"],
        "samples": 5,
        "rounds": 1,
    }
    threads = torch.get_num_threads()
    compare(**given, as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert "tok:none" in record["signature"], "as the baseline's configuration says"
    plain, gdr = record["rows"]
    heads = sum(p.numel() for p in load_model(folder / "gdr").model.past_future.heads.parameters())
    sizes = gdr["parameters"]
    assert sizes["total"] - sizes["to_translate_with"] == heads
    assert sizes["total"] > plain["parameters"]["total"] > plain["parameters"]["without_embeddings"]
    for row in record["rows"]:
        assert row["training"]["rate"] > 0 and len(row["training"]["ratios"]) == 1
        assert row["decoding"]["rate"] >= 0
        assert row["scores"]["one"]["mean"] == row["average"]["mean"]
    assert plain["training"]["ratio"] == 1.0 and plain["average"]["p"] is None
    assert 0 < gdr["average"]["p"]["bootstrap"] <= 1
    assert torch.get_num_threads() == threads
    compare(**given, markdown=True, no_speed=True)
    assert capsys.readouterr().out.startswith("| model | parameters |")
    compare(**given, no_speed=True)
    assert "p randomisation" in capsys.readouterr().out


def test_training_is_timed_on_the_same_pairs_in_batches_of_the_baseline_s_size(
    folder, compared, monkeypatch
):
    seen = {}

    class Recorder:
        def __init__(self, trained):
            self.rows = seen.setdefault(id(trained), [])

        def __call__(self, batch):
            self.rows.append(sorted(batch.indices.tolist()))
            assert batch.labels.numel() <= 60 or len(batch.labels) == 1  # train.batch_tokens
            return 1.0

    monkeypatch.setattr(run_speeds, "TimedUpdates", Recorder)
    compared([folder / "plain", folder / "gdr"], both_sets(folder)[1:], rounds=1)
    one, other = seen.values()
    assert sorted(one) == sorted(other) and len(one) == 4  # two updates to warm up, two timed


def test_rows_are_called_by_their_directories_or_as_they_are_told(tmp_path):
    (tmp_path / "odd=name").mkdir()
    given = [str(tmp_path / "a" / "run"), "told=x,y", f"{tmp_path}/odd=name/"]
    found = read_families(given)
    assert [family.name for family in found] == ["run", "told", "odd=name"]
    assert [str(path) for path in found[1].runs] == ["x", "y"]
    assert found[2].runs[0].exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a/run", "b/run"], "two rows are called run: call one of them otherwise"),
        (["a", "=b"], "=b: write a row as RUN, NAME=RUN"),
        (["a", "b="], "b=: write a row as RUN, NAME=RUN"),
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
        ([], "no test set"),
        ([f"x={two}"], "write it as NAME=SOURCE,REFERENCE"),
        ([f"{two},{two}"], "write it as NAME=SOURCE,REFERENCE"),
        ([f"x={two},"], "write it as NAME=SOURCE,REFERENCE"),
        ([f"x={two},{three}"], "two has 2 lines and .*three has 3"),
        ([f"x={two},{two},{three}"], "two has 2 lines and .*three has 3"),
        ([f"x={two},{two}", f"x={three},{three}"], "two test sets are called x"),
        ([f"x={tmp_path / 'absent'},{two}"], "absent: No such file"),
    ):
        with pytest.raises(UntoldError, match=message):
            read_tests(given)


def test_a_test_set_may_have_several_references(tmp_path):
    for name, text in (("source", "s\nt\n"), ("one", "a\nb\n"), ("two", "c\nd\n")):
        (tmp_path / name).write_text(text)
    given = ",".join(str(tmp_path / name) for name in ("source", "one", "two", "one"))
    (test,) = read_tests([f"x={given}"])
    assert (test.sources, test.references) == (["s", "t"], ["a", "b"])
    assert test.further_references == [["c", "d"], ["a", "b"]]


def test_other_mistakes_are_found_before_anything_is_translated(folder, compared, monkeypatch):
    monkeypatch.setattr(ComparedRuns, "_translations", lambda *_: pytest.fail("too late"))
    plain, gdr = str(folder / "plain"), str(folder / "gdr")
    with pytest.raises(UntoldError, match="unknown metric ter; known: bleu, chrf"):
        compared([plain], both_sets(folder), metric="ter")
    with pytest.raises(UntoldError, match=r"mixed: its runs have .* differ in nothing but"):
        compared([plain, f"mixed={plain},{gdr}"], both_sets(folder))
    with pytest.raises(UntoldError, match="absent: no such model"):
        compared([plain, folder / "absent"], both_sets(folder))


def test_speeds_need_text(folder, compared, tmp_path):
    (tmp_path / "first").write_text("a\n\n")  # no pair has both sides
    (tmp_path / "second").write_text("\nb\n")
    tests = [f"x={tmp_path / 'first'},{tmp_path / 'second'}"]
    with pytest.raises(UntoldError, match=r"test set x has no text .* use --no-speed"):
        compared([folder / "plain"], tests, rounds=1)
