"""Tests the engine of the synchronous grammars on grammars of a few lines."""

import os
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from grammar_recognition import count_derivations, derive, derives
from untold.errors import UntoldError
from untold.lab.grammars.sampling import Sample, known_grammars, load_grammar, parse_grammar

HEAD = """
languages xx yy
start S
feature num = sg pl
feature case = nom acc
"""


def grammar(rules: str, head: str = HEAD):
    return parse_grammar(head + rules, "toy")


def everything(rules: str, head: str = HEAD, draws: int = 200) -> set[str]:
    """Returns all pairs that many draws give, as `source | target`."""
    pairs = islice(grammar(rules, head).stream(seed=1), draws)
    return {f"{' '.join(p.source)} | {' '.join(p.target)}" for p in pairs}


def only(rules: str, head: str = HEAD) -> Sample:
    """Returns the only pair of a grammar without choices."""
    return grammar(rules, head).sample(Random(0))


def test_words_of_an_entry_align_all_with_all():
    assert only('S -> "of course" || "natürlich"').alignment == ((0, 0), (1, 0))


def test_constituents_change_places_and_keep_their_alignment():
    rules = """
S -> A B C || C A B
A -> "a" || "eins"
B -> "b" || "zwei"
C -> "c" || "drei vier"
"""
    pair = only(rules)
    assert pair.target == ("drei", "vier", "eins", "zwei")
    assert pair.alignment == ((0, 2), (1, 3), (2, 0), (2, 1))


def test_in_a_rule_with_constituents_only_tags_align():
    rules = """
S -> "does"~ A "not"~1 "."~2 || A "ne"~1 "pas"~1 "."~2
A -> "it" || "ça"
"""
    assert only(rules).alignment == ((1, 0), (2, 1), (2, 2), (3, 3))


def test_tags_inside_quotes_and_words_without_counterpart():
    pair = only('S -> "at~1 the~ bank~2,3" || "am~1 Ufer~2 Rand~3"')
    assert pair.alignment == ((0, 0), (2, 1), (2, 2))


def test_a_tagged_constituent_lends_its_tag_to_all_its_words():
    rules = """
S -> V~1 N P || V N P~1
V -> "gets up" || "steht"
N -> "now" || "jetzt"
P -> "" || "auf"
"""
    assert only(rules).alignment == ((0, 0), (0, 2), (1, 0), (1, 2), (2, 1))


def test_the_same_rule_twice_does_not_align_across_its_uses():
    rules = """
S -> A:1 A:2 || A:2 A:1
A -> "x"~1 B || B "x"~1
B -> "y" || "y"
"""
    assert only(rules).alignment == ((0, 3), (1, 2), (2, 1), (3, 0))


def test_a_bare_feature_name_is_agreement():
    rules = """
S -> N[num] V[num] || N V
N[num=sg] -> "it" || "es"
N[num=pl] -> "they" || "sie"
V[num=sg] -> "sleeps" || "schläft"
V[num=pl] -> "sleep" || "schlafen"
"""
    assert everything(rules) == {"it sleeps | es schläft", "they sleep | sie schlafen"}


def test_values_pass_through_levels_and_meet():
    rules = """
S -> NP[case=nom num=?n] V[num=?n] NP:2[case=acc] || NP V NP:2
NP[case num] -> D[case] N[num] || D N
D[case=nom] -> "the" || "der"
D[case=acc] -> "the" || "den"
N[num=sg] -> "dog" || "Hund"
V[num=sg] -> "sees" || "sieht"
"""
    assert everything(rules) == {"the dog sees the dog | der Hund sieht den Hund"}


def test_sets_of_values_narrowed_variables_and_groups():
    head = HEAD + "feature sem subj = a b c\ngroup sem ab = a b\n"
    rules = """
S -> X[sem=?s:ab] Y[subj=?s] || X Y
X[sem=a,c] -> "x" || "x"
X[sem=b] -> "z" || "z"
Y[subj=a] -> "ya" || "ya"
Y[subj=b] -> "yb" || "yb"
"""
    assert everything(rules, head) == {"x ya | x ya", "z yb | z yb"}


def test_an_unmentioned_feature_is_free():
    rules = """
S -> N[num=pl] || N
N -> "fish" || "Fisch"
N[num=pl] -> "cats" || "Katzen"
"""
    assert everything(rules) == {"fish | Fisch", "cats | Katzen"}


def test_a_row_fills_every_rule_of_its_paradigm():
    rules = """
paradigm noun(one, many = eins, viele, weg?)
    S[num=sg] -> "{one}" || "{weg}{eins}"
    S[num=pl] -> "the {many}" || "{viele}"
words noun
    child, children = Kind, Kinder
    water, - = Wasser, -
    up, - = stehen,
        -, auf
    walk, - = gehen, -, spazieren_
"""
    assert everything(rules) == {
        "child | Kind",
        "the children | Kinder",
        "water | Wasser",
        "up | aufstehen",
        "walk | spazieren gehen",
    }


def test_row_features_replace_values_and_narrow_variables():
    rules = """
paradigm verb(en = de)
    V[num=sg case] -> "{en}" N[case] || "{de}" N
words verb[case=nom]
    is = ist
    are = sind [num=pl]
    eats = isst [case=acc]
S -> V[num=sg] || V
S -> "many"~1 V[num=pl] || "viele"~1 V
N[case=nom] -> "the" || "der"
N[case=acc] -> "the" || "den"
"""
    assert everything(rules) == {
        "is the | ist der",
        "many are the | viele sind der",
        "eats the | isst den",
    }


def test_weights_of_rules_rows_and_values():
    rules = 'S -> "a" || "a" * 9\nS -> "b" || "b"\n'
    pairs = list(islice(grammar(rules).stream(3), 600))
    assert 0.85 < sum(p.source == ("a",) for p in pairs) / 600 < 0.95
    values = """
languages xx yy
start S
feature num = sg*9 pl
S -> A[num] B[num] || A B
A[num=sg,pl] -> "a" || "a"
B[num=sg] -> "s" || "s"
B[num=pl] -> "p" || "p"
"""
    pairs = list(islice(parse_grammar(values).stream(3), 600))
    assert 0.85 < sum(p.source[1] == "s" for p in pairs) / 600 < 0.95


def test_an_entry_is_as_likely_in_a_small_class_as_in_a_large_one():
    rules = """
S -> A[num] N[num] || A N
A[num=sg] -> "s" || "s"
A[num=pl] -> "p" || "p"
N[num=sg] -> "1" || "1"
N[num=sg] -> "2" || "2"
N[num=sg] -> "3" || "3"
N[num=pl] -> "4" || "4"
"""
    pairs = list(islice(grammar(rules).stream(3), 800))
    assert 0.2 < sum(p.source[1] == "4" for p in pairs) / 800 < 0.3


def test_a_weight_cannot_make_a_sentence_too_long():
    head = "languages xx yy\nstart S\nlength 2 7\n"
    rules = 'S -> "a"~1 S || S "b" "c"~1 * 100\nS -> "a" || "c"\n'
    lengths = {(len(p.source), len(p.target)) for p in islice(grammar(rules, head).stream(1), 300)}
    assert max(target for _, target in lengths) == 7
    assert min(source for source, _ in lengths) >= 2


def test_marks_are_absorbed_before_marks_and_sentences_get_a_capital():
    head = "languages xx yy\nstart S\ncapitalize yy\nabsorb yy , before , .\n"
    rules = """
S -> A "." || A "."
A -> "who"~1 B || "der"~1 B ","
B -> "sleeps" || "schläft" ","
"""
    pair = only(rules, head)
    assert (pair.source, pair.target) == (("who", "sleeps", "."), ("Der", "schläft", "."))
    found = derive(grammar(rules, head), "who sleeps .", "Der schläft .")
    assert found is not None
    assert found.alignment == pair.alignment == ((0, 0), (1, 1))
    assert not derives(grammar(rules, head), "who sleeps .", "Der schläft , .")
    assert not derives(grammar(rules, head), "who sleeps .", "der schläft .")


def test_derivation_of_reordered_recursive_and_empty_constituents():
    rules = """
S -> A S B || B S A
S -> "m" || "m"
A -> "a" || ""
A -> "a" || "c"
B -> "" || "b"
"""
    toy = grammar(rules)
    assert derives(toy, "a a m", "b b m c c")
    assert derives(toy, "a a m", "b b m c")
    assert not derives(toy, "a a m", "b m c c")
    assert not derives(toy, "a m a", "b m c")


def test_every_sample_is_derivable_with_its_alignment():
    rules = """
S -> S:1 "and"~1 S:2 || S:2 "und"~1 S:1 * 0.5
S -> "a" || "x y"
S -> "b" || "z"
"""
    toy = grammar(rules)
    for pair in islice(toy.stream(5), 30):
        found = derive(toy, " ".join(pair.source), " ".join(pair.target))
        assert found is not None
        assert len(found.alignment) == len(pair.alignment)


def test_derivations_are_counted_by_length():
    toy = grammar('S -> "a"~1 S || S "a"~1\nS -> "b" || "b"\nS -> "c" || "c"\n')
    assert [count_derivations(toy.plain, words) for words in (1, 2, 3)] == [2, 4, 6]


def test_the_same_seed_gives_the_same_pairs():
    toy = grammar('S -> "a"~1 S || S "a"~1\nS -> "b" || "b"\n')
    assert list(islice(toy.stream(7), 50)) == list(islice(toy.stream(7), 50))
    assert list(islice(toy.stream(7), 50)) != list(islice(toy.stream(8), 50))


def documented() -> str:
    """Returns the grammar that docs/grammars.md shows."""
    text = (Path(__file__).parents[3] / "notes" / "grammars.md").read_text(encoding="utf-8")
    return re.findall(r"```\n(languages.*?)```", text, re.DOTALL)[0]


def test_the_documented_grammar_works():
    example = parse_grammar(documented(), "docs")
    assert derives(example, "The man eats up the apple .", "Der Mann isst den Apfel auf .")
    assert derives(
        example, "The women eat up the apple juice .", "Die Frauen essen den Apfelsaft auf ."
    )
    assert not derives(example, "The man eats up the apple .", "Der Mann aufisst den Apfel .")
    assert example.languages == ("en", "de")


def test_pairs_do_not_depend_on_the_hash_seed(tmp_path):
    file = tmp_path / "docs.grammar"
    file.write_text(documented(), encoding="utf-8")
    code = (
        "import sys; from itertools import islice; "
        "from untold.lab.grammars.sampling import load_grammar;"
        "print(list(islice(load_grammar(sys.argv[1]).stream(5), 40)))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code, str(file)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_grammars_are_known_by_name_or_path(tmp_path):
    assert "en-de" in known_grammars()
    file = tmp_path / "mine.grammar"
    file.write_text(HEAD + 'S -> "ja" || "да"\n', encoding="utf-8")
    mine = load_grammar(file)
    assert (mine.name, mine.languages, mine.entries) == ("mine", ("xx", "yy"), 1)
    with pytest.raises(UntoldError, match=r"klingon: no such grammar; known: .*en-de"):
        load_grammar("klingon")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UntoldError, match="save it as UTF-8"):
        load_grammar(str(file))
