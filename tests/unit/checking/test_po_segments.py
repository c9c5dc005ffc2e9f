"""gettext catalogues: entries, plurals, flags, comments, charsets, and what is damaged."""

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


BROKEN = [
    'msgid "broken\nmsgstr "kaputt"\n',
    'msgid "broken"\nmsgstr "kaputt\n',
    'msgid "bro"ken"\nmsgstr "kaputt"\n',
    'msgid "broken"\nmsgst "kaputt"\n',
    'msgid "broken"\nnonsense\nmsgstr "kaputt"\n',
    'msgid "broken"\n',
    'msgid "broken"\nmsgstr "kaputt"\nmsgstr "zweimal"\n',
    'msgid "broken"\nmsgstr[x] "kaputt"\n',
    "msgid broken\nmsgstr kaputt\n",
    'msgid "broken\\"\nmsgstr "kaputt"\n',
]
ALONE = [
    'msgstr "kaputt"\n',
    '"kaputt"\n',
]  # belong to the entry before if no blank line parts them


@pytest.mark.parametrize(
    ("entry", "blank"),
    [*((each, "") for each in BROKEN), *((each, "\n") for each in (*BROKEN, *ALONE))],
)
def test_a_damaged_entry_costs_itself_and_names_its_line(tmp_path, entry, blank):
    before = f'#: a.c:1\nmsgid "The first one"\nmsgstr "Das erste"\n{blank}'
    after = f'{blank}#, fuzzy\nmsgid "The last one"\nmsgstr "Das letzte"\n'
    segments, damages = read(tmp_path / "a.po", HEADER.format("UTF-8") + before + entry + after)
    assert [s.unchecked for s in segments][:1] == [""]
    assert texts(segments) == [("The first one", "Das erste"), ("The last one", "Das letzte")]
    start = (HEADER + before).count("\n") + 1
    assert damages
    assert all(start <= damage.line < start + entry.count("\n") for damage in damages)
    if blank:
        assert segments[1].unchecked == "fuzzy"  # its own comments stay with the next entry


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


def test_bytes_of_another_charset_cost_their_entry(tmp_path):
    text = 'msgid "cheese"\nmsgstr "Käse"\n\n# Käse\nmsgid "The last one"\nmsgstr "Das letzte"\n'
    segments, damages = read(tmp_path / "a.po", (HEADER.format("UTF-8") + text).encode("latin-1"))
    assert texts(segments) == [("The last one", "Das letzte")]  # a comment may be odd
    (damage,) = damages
    assert damage.line == 6
    assert "bytes that are not UTF-8" in damage.reason


def test_a_template_and_an_unknown_charset_are_utf8(tmp_path):
    text = 'msgid "cheese is good"\nmsgstr "Käse ist gut"\n'
    segments, damages = read(tmp_path / "a.pot", HEADER.format("CHARSET") + text)
    assert (texts(segments), damages) == ([("cheese is good", "Käse ist gut")], [])
    for charset in ("klingon", "rot13", "undefined", "hex"):
        segments, damages = read(tmp_path / "a.po", HEADER.format(charset) + text)
        assert texts(segments) == [("cheese is good", "Käse ist gut")]
        assert [damage.line for damage in damages] == [1]
        assert f"unknown charset {charset}" in damages[0].reason


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_wide_encodings_are_refused_in_one_line(tmp_path, encoding):
    with pytest.raises(UntoldError, match=r"a\.po: is UTF-16 or UTF-32: convert it"):
        read(tmp_path / "a.po", CATALOGUE.encode(encoding))
