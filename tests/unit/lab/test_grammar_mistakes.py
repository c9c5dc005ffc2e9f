"""Every mistake in a grammar file is reported when it is loaded, with file, line and cure."""

import pytest

from untold.errors import UntoldError
from untold.lab.grammars.sampling import parse_grammar

HEAD = """
languages xx yy
start S
feature num = sg pl
feature case = nom acc
"""

ERRORS = {
    "an unknown feature": ('S[gender=m] -> "a" || "b"', 6, "unknown feature gender"),
    "an unknown value": ('S[num=dual] -> "a" || "b"', 6, "the values of num are sg, pl"),
    "one side only": ('S -> A || "b"\nA -> "a" || "b"', 6, "A stands on one side only"),
    "twice on a side": ('S -> A A || A\nA -> "a" || "b"', 6, "label them A:1, A:2"),
    "a tag alone": ('S -> "a"~1 || "b"', 6, "tag ~1 stands on one side only"),
    "no quotes": ("S -> a || b", 6, 'words stand in "quotes"'),
    "one side missing": ('S -> "a"', 6, "source || target"),
    "no rule for a category": ("S -> A || A", 6, "A has no rule"),
    "never reached": ('S -> "a" || "b"\nA -> "a" || "b"', 7, "never leads to A"),
    "never ends": ('S -> "a"~1 S || S "a"~1', 6, "S never ends in words"),
    "never used": (
        'S -> A[num=sg] || A\nA[num=sg] -> "a" || "b"\nA[num=pl] -> "c" || "d"',
        8,
        "can never be used",
    ),
    "a loop": ('S -> S "" || S "x"\nS -> "a" || "b"', 6, "back to itself without a new source"),
    "a feature nobody has": ('S -> A[num=sg] || A\nA -> "a" || "b"', 6, "has the feature num"),
    "an idle variable": ('S -> A || A\nA[num] -> "a" || "b"', 7, "num on the left ties nothing"),
    "no such statement": ("rule S", 6, "starts no statement"),
    "a malformed statement": ("feature = a b", 6, "write `feature name = value"),
    "a missing paradigm": ("words noun\n    a = b", 6, "no paradigm noun"),
    "a missing form": (
        'paradigm noun(a, b = c)\n    S -> "{a}" || "{c}"\nwords noun\n    x = y',
        9,
        "a row here reads a, b = c",
    ),
    "an unknown form": ('paradigm n(a = b)\n    S -> "{a}" || "{x}"', 7, "{x} is no form"),
    "nothing at all": ("", 1, "start S has no rule"),
    "a bad weight": ("feature x = a*b", 6, "a weight is a number"),
    "a weight that is no number": ("feature x = a*nan", 6, "a weight is a number from 1e-6"),
    "a weight of zero": ('S -> "a" || "b" * 0', 6, "a weight is a number from 1e-6 to 1e6"),
    "a weight beyond all": ('S -> "a" || "b" * ' + "9" * 400, 6, "a weight is a number"),
    "a feature twice": ("feature num = one two", 6, "feature num was declared above"),
    "endless sentences": ("length 1 " + "9" * 5000, 6, "give the fewest and the most words"),
    "a group of nothing": ("group sem x = y", 6, "declare it above its groups"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_mistakes_name_file_line_and_cure(name):
    rules, line, cure = ERRORS[name]
    with pytest.raises(UntoldError) as error:
        parse_grammar(HEAD + rules, "toy")
    assert cure in str(error.value)
    assert str(error.value).startswith(f"toy:{line}: ")


@pytest.mark.parametrize(
    ("head", "cure"),
    [
        ("start S", "`languages` needs 2"),
        ("languages a b", "`start` needs 1"),
        ("languages a b\nstart S\nlength 5 2", "fewest and the most"),
        ("languages a b\nstart S\ncapitalize c", "none of the languages a b"),
        ("languages a b\nstart S\nlength 1 1", "shortest sentence has 2 words"),
        ("  languages a b", "there is none"),
    ],
)
def test_mistakes_in_the_header(head, cure):
    with pytest.raises(UntoldError, match=cure):
        parse_grammar(head + '\nS -> "a b" || "c"\n')
