"""gettext catalogues: entries, plurals, flags, comments, charsets, and what is damaged."""

import gzip

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translation_files import read, texts
from untold.errors import UntoldError

BOTH = frozenset({"omission", "addition"})
HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={}\\n"\n\n'

CATALOGUE = r"""# Title of the file.
# untold: ignore
#, fuzzy
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. a hint for translators
#: a.c:1 b.c:2
msgctxt "menu"
msgid "_Open the file"
msgstr "Die Datei _öffnen"

#, c-format
msgid "One cat sleeps"
msgid_plural "%d cats sleep"
msgstr[0] "Eine Katze schläft"
msgstr[1] "%d Katzen schlafen"

#, fuzzy, c-format
#| msgid "The old text"
msgid "The new text"
msgstr "Der alte Text"
msgid "no blank line before"
msgstr ""

msgid ""
"A long text\n"
"on \"two\" lines"
msgstr ""
"Ein langer Text\n"
"auf \"zwei\" Zeilen"

# untold: ignore omission
msgid "ignored one"
msgstr "eins ignoriert"

#. untold: ignore addition
msgid "ignored two"
msgstr "zwei ignoriert"

#  Untold:  Ignore
#odd comment
msgid "ignored three"
msgstr "drei ignoriert"

# untold: ignored
msgid "not ignored"
msgstr "nicht ignoriert"

#, fuzzy
#~ msgid "obsolete one"
#~ msgstr "veraltet"

msgid "The last one"
msgstr "Das letzte"
"""


def test_a_catalogue_is_read_with_lines_names_and_reasons(tmp_path):
    segments, damages = read(tmp_path / "a.po", CATALOGUE)
    assert damages == []
    lines = CATALOGUE.split("\n")
    found = [(s.source, s.target, s.name, s.unchecked, s.ignored) for s in segments]
    assert found == [
        ("Open the file", "Die Datei öffnen", "menu", "", frozenset()),
        ("One cat sleeps", "Eine Katze schläft", "One cat sleeps[0]", "", frozenset()),
        ("cats sleep", "Katzen schlafen", "One cat sleeps[1]", "", frozenset()),
        ("The new text", "Der alte Text", "The new text", "fuzzy", frozenset()),
        ("no blank line before", "", "no blank line before", "untranslated", frozenset()),
        (
            'A long text on "two" lines',
            'Ein langer Text auf "zwei" Zeilen',
            'A long text\\non "two" lines',
            "",
            frozenset(),
        ),
        ("ignored one", "eins ignoriert", "ignored one", "", frozenset({"omission"})),
        ("ignored two", "zwei ignoriert", "ignored two", "", frozenset({"addition"})),
        ("ignored three", "drei ignoriert", "ignored three", "", BOTH),
        ("not ignored", "nicht ignoriert", "not ignored", "", frozenset()),
        ("The last one", "Das letzte", "The last one", "", frozenset()),
    ]
    assert all(lines[segment.line - 1].startswith("msgstr") for segment in segments)
    assert [segment.line for segment in segments] == sorted({segment.line for segment in segments})


def test_the_only_plural_form_translates_the_plural(tmp_path):
    text = 'msgid "One cat"\nmsgid_plural "Many cats"\nmsgstr[0] "猫"\n'
    segments, _ = read(tmp_path / "a.po", text)
    assert texts(segments) == [("Many cats", "猫")]


STRINGS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=30)


@given(entries=st.lists(st.tuples(STRINGS, STRINGS), min_size=1, max_size=5))
def test_what_polib_writes_is_read_and_stands_on_its_line(tmp_path_factory, entries):
    catalogue = polib.POFile(wrapwidth=20)
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    for number, (source, target) in enumerate(entries):
        catalogue.append(polib.POEntry(msgctxt=str(number), msgid=source, msgstr=target))
    data = str(catalogue)
    segments, damages = read(tmp_path_factory.getbasetemp() / "polib.po", data)
    assert damages == []
    assert [segment.name for segment in segments] == [str(n) for n in range(len(entries))]
    lines = data.split("\n")
    assert all(lines[segment.line - 1].startswith("msgstr") for segment in segments)


FIRST = 'msgid "The first one"\nmsgstr "Das erste"\n\n'
LAST = '\n#, fuzzy\nmsgid "The last one"\nmsgstr "Das letzte"\n'


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ('msgid "broken\nmsgstr "kaputt"\n', 0),
        ('msgid "broken"\nmsgstr "kaputt\n', 1),
        ('msgid "bro"ken"\nmsgstr "kaputt"\n', 0),
        ('msgid "broken"\nmsgst "kaputt"\n', 1),
        ('msgid "broken"\nnonsense\nmsgstr "kaputt"\n', 1),
        ('msgid "broken"\n', 3),  # where the next entry begins
        ('msgid "broken"\nmsgid_plural "broken"\n#: a.c:1\n', 5),
        ('msgid "broken"\nmsgstr "kaputt"\nmsgstr "zweimal"\n', 2),
        ('msgid "broken"\nmsgstr "kaputt"\n# a hint\nmsgstr "zweimal"\n', 3),
        ('msgid "broken"\nmsgstr[x] "kaputt"\n', 1),
        ("msgid broken\nmsgstr kaputt\n", 0),
        ('msgid "broken\\"\nmsgstr "kaputt"\n', 0),
        ('# a hint\nmsgstr "kaputt"\n', 1),
        ('# a hint\n"kaputt"\n', 1),
        ('msgctxt "c"\nmsgctxt "d"\nmsgid "broken"\nmsgstr "kaputt"\n', 1),
        ('msgid "broken"\nmsgstr "k\xe4putt"\n', 1),
        ('#~ msgid "broken"\n#~ nonsense\n', 1),
    ],
)
def test_a_damaged_catalogue_is_one_damage_on_its_line(tmp_path, entry, line):
    before = HEADER.format("UTF-8") + FIRST
    segments, (damage,) = read(tmp_path / "a.po", (before + entry + LAST).encode("latin-1"))
    assert segments == []
    assert damage.line == before.count("\n") + 1 + line


@given(st.integers(0, 10**6), st.sampled_from(["", '"', "\\", "msgid", "\n", "\0", "\x85", "#"]))
def test_a_cut_or_changed_catalogue_is_read_whole_or_is_one_damage(tmp_path_factory, place, junk):
    path, place = tmp_path_factory.getbasetemp() / "cut.po", place % len(CATALOGUE)
    for data in (CATALOGUE[:place], CATALOGUE[:place] + junk + CATALOGUE[place:]):
        segments, damages = read(path, data)
        assert len(damages) <= 1 and not (segments and damages)


def test_the_last_entry_needs_a_msgstr(tmp_path):
    segments, (damage,) = read(tmp_path / "a.po", f'{FIRST}msgid "broken"\n')
    assert (segments, damage.line) == ([], 4)


@pytest.mark.parametrize("sign", ["#:", "#,", "#.", "#~| msgid", "# a hint", "#:a.c:1", '#| "x"'])
def test_comments_behind_the_last_entry_change_nothing(tmp_path, sign):
    segments, damages = read(tmp_path / "a.po", f"{FIRST}{sign}\n")
    assert (texts(segments), damages) == ([("The first one", "Das erste")], [])


def test_comments_need_no_blank_and_belong_to_the_first_entry_of_a_file_without_a_header(tmp_path):
    text = f"#untold: ignore omission\n#,fuzzy\n{FIRST}#.untold: ignore\n#:a.c:1\n{FIRST}"
    segments, damages = read(tmp_path / "a.po", text)
    assert damages == []
    assert [(each.ignored, each.unchecked) for each in segments] == [
        (frozenset({"omission"}), "fuzzy"),
        (BOTH, ""),
    ]


def test_a_catalogue_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("untold.checking.po._LARGEST", 1000)
    segments, (damage,) = read(tmp_path / "a.po.gz", gzip.compress(FIRST.encode() * 100))
    assert (segments, damage.line) == ([], 71)
    assert "divide it" in damage.reason


def test_a_text_is_not_taken_for_the_name_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "#secret").write_text('msgid "a b"\nmsgstr "c d"\n')
    assert read(tmp_path / "a.po", "#secret") == ([], [])


def test_the_charset_of_the_header_is_used(tmp_path):
    text = 'msgid "cheese is good"\nmsgstr "Käse ist gut"\n'
    for charset in ("ISO-8859-1", "windows-1252", "UTF-8", "utf-8"):
        data = (HEADER.format(charset) + text).encode(charset)
        segments, damages = read(tmp_path / "a.po", data)
        assert (texts(segments), damages) == ([("cheese is good", "Käse ist gut")], [])
    for charset in ("GBK", "Shift_JIS", "BIG5", "EUC-JP"):
        for target in ("中文 表示 十", "能 功"):  # some end in the byte of a backslash
            data = (HEADER.format(charset) + f'msgid "two words"\nmsgstr "{target}"\n').encode(
                charset
            )
            assert texts(read(tmp_path / "a.po", data)[0]) == [("two words", target)]


def test_comments_may_hold_bytes_of_another_charset(tmp_path):
    data = (HEADER.format("UTF-8") + f"# K\xe4se\n{FIRST}").encode("latin-1")
    segments, damages = read(tmp_path / "a.po", data)
    assert (texts(segments), damages) == ([("The first one", "Das erste")], [])


def test_a_template_is_utf8_and_an_unknown_charset_is_a_damage(tmp_path):
    text = 'msgid "cheese is good"\nmsgstr "Käse ist gut"\n'
    segments, damages = read(tmp_path / "a.pot", HEADER.format("CHARSET") + text)
    assert (texts(segments), damages) == ([("cheese is good", "Käse ist gut")], [])
    for charset in ("klingon", "rot13", "undefined", "hex"):
        segments, damages = read(tmp_path / "a.po", HEADER.format(charset) + text)
        assert (segments, [damage.line for damage in damages]) == ([], [3])
        assert f"unknown charset {charset}" in damages[0].reason


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_wide_encodings_are_refused_in_one_line(tmp_path, encoding):
    with pytest.raises(UntoldError, match=r"a\.po: is UTF-16 or UTF-32: convert it"):
        read(tmp_path / "a.po", CATALOGUE.encode(encoding))
