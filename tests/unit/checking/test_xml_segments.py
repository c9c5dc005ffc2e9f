"""TMX and XLIFF: languages, states, notes, lines of large files, and hostile documents."""

import os
import time

import pytest

from translation_files import FORMATS, PAIRS, XML, read, texts
from untold.checking.segments import ReadOptions
from untold.errors import UntoldError

BOTH = frozenset({"omission", "addition"})
ALL_XML = pytest.mark.parametrize("name", XML)
XLIFF_1 = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
    '<file source-language="en" target-language="de"><body>{}</body></file></xliff>'
)
XLIFF_2 = (
    '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">'
    '<file id="f">{}</file></xliff>'
)


def path_of(tmp_path, name):
    return tmp_path / f"file{FORMATS[name].suffix}"


def options(source=None, target=None):
    return ReadOptions(source_language=source, target_language=target)


def tu(**variants):
    tuvs = [
        f'<tuv xml:lang="{language.replace("_", "-")}"><seg>{text}</seg></tuv>'
        for language, text in variants.items()
    ]
    return f"<tu>{''.join(tuvs)}</tu>"


def tmx(*units, srclang="en"):
    header = f'<header srclang="{srclang}"/>'
    return f'<tmx version="1.4">{header}<body>{"".join(units)}</body></tmx>'


# --- languages of TMX


@pytest.mark.parametrize("srclang", ["en", "EN-us", "*all*"])
def test_the_header_or_the_first_unit_names_the_source(tmp_path, srclang):
    units = [tu(en_US="one cat", de="eine Katze"), tu(de="zwei Katzen", en_US="two cats")]
    segments, _ = read(tmp_path / "a.tmx", tmx(*units, srclang=srclang))
    assert texts(segments) == [("one cat", "eine Katze"), ("two cats", "zwei Katzen")]


@pytest.mark.parametrize(
    ("chosen", "pair"),
    [
        (options(target="de"), ("a cat", "eine Katze")),
        (options(target="DE"), ("a cat", "eine Katze")),
        (options(target="fr"), ("a cat", "un chat")),
        (options(target="fr_CA"), ("a cat", "un minou")),
        (options("fr", "de-AT"), ("un chat", "eine Katze")),
        (options("de", "en"), ("eine Katze", "a cat")),
    ],
)
def test_chosen_languages_are_read(tmp_path, chosen, pair):
    unit = tu(en="a cat", fr="un chat", fr_CA="un minou", de="eine Katze")
    assert texts(read(tmp_path / "a.tmx", tmx(unit), chosen)[0]) == [pair]


def test_several_languages_must_be_chosen_from(tmp_path):
    together = [tu(en="a cat", de="eine Katze", fr="un chat")]
    apart = [tu(en="a cat", de="eine Katze"), tu(en="a cat", fr="un chat")]
    for units in (together, apart):
        with pytest.raises(UntoldError, match=r"\(en, de, fr\): choose with .*--target-language"):
            read(tmp_path / "a.tmx", tmx(*units))


@ALL_XML
def test_an_unknown_language_is_an_error_that_names_the_others(tmp_path, name):
    for chosen in (options("xx"), options("en", "xx"), options("xx", "de")):
        with pytest.raises(UntoldError, match=r"there (are|is) en.*de.*--source-language"):
            read(path_of(tmp_path, name), FORMATS[name].write(PAIRS), chosen)


def test_units_without_a_language_are_counted_or_skipped(tmp_path):
    units = [tu(en="a cat"), tu(de="eine Katze"), tu(fr="un chat"), tu(en="a dog", de="ein Hund")]
    segments, _ = read(tmp_path / "a.tmx", tmx(*units), options("en", "de"))
    assert [(each.source, each.target, each.unchecked) for each in segments] == [
        ("a cat", "", "untranslated"),
        ("", "eine Katze", "empty"),
        ("a dog", "ein Hund", ""),
    ]


def test_a_text_that_names_no_language_is_of_none(tmp_path):
    unit = tu(en="a cat", de="eine Katze").replace("<tu>", "<tu><tuv><seg>odd</seg></tuv>")
    lonely = "<tu><tuv><seg>odd</seg></tuv></tu>"
    segments, _ = read(tmp_path / "a.tmx", tmx(lonely, unit), options("en", "de"))
    assert texts(segments) == [("a cat", "eine Katze")]


def test_tmx_names_and_notes(tmp_path):
    unit = tu(en="a cat", de="eine Katze")
    noted = unit.replace("<tu>", '<tu tuid="x7"><note>untold: ignore omission</note>')
    inner = unit.replace('"de">', '"de"><note>untold: ignore</note>')
    segments, _ = read(tmp_path / "a.tmx", tmx(noted, inner, unit))
    assert [(each.name, each.ignored) for each in segments] == [
        ("x7", frozenset({"omission"})),
        ("", BOTH),
        ("", frozenset()),
    ]


# --- XLIFF


def unit_1(inside="", source="a cat", target="<target>eine Katze</target>", attributes=""):
    return f'<trans-unit id="u" {attributes}><source>{source}</source>{target}{inside}</trans-unit>'


@pytest.mark.parametrize(
    ("unit", "unchecked"),
    [
        (unit_1(), ""),
        (unit_1(attributes='approved="yes"'), ""),
        (unit_1(attributes='approved="no"'), ""),
        (unit_1(target=""), "untranslated"),
        (unit_1(target="<target/>"), "untranslated"),
        (unit_1(target='<target state="new">eine Katze</target>'), "untranslated"),
        (unit_1(target='<target state="needs-translation">x y</target>'), "untranslated"),
        (unit_1(target='<target state="needs-review-translation">eine Katze</target>'), ""),
        (unit_1(target='<target state="final">eine Katze</target>'), ""),
        (unit_1(target='<target state-qualifier="fuzzy-match">x y</target>'), "fuzzy"),
        (unit_1("<alt-trans><source>b</source><target>b</target></alt-trans>"), ""),
        (unit_1("<seg-source>not this</seg-source>"), ""),
    ],
)
def test_states_of_xliff_1(tmp_path, unit, unchecked):
    ((segment,), damages) = read(tmp_path / "a.xlf", XLIFF_1.format(unit))
    assert (segment.source, segment.unchecked, segment.name, damages) == (
        "a cat",
        unchecked,
        "u",
        [],
    )


YES = 'translate="yes"'


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (XLIFF_1.format(unit_1(attributes='translate="no"')), 0),
        (XLIFF_1.format(f'<group translate="no">{unit_1()}</group>'), 0),
        (XLIFF_1.format(f'<group translate="no">{unit_1(attributes=YES)}</group>'), 1),
        (XLIFF_1.format(f'<group translate="no"/>{unit_1()}'), 1),
        (
            XLIFF_2.format(
                '<unit id="1" translate="no"><segment><source>a</source></segment></unit>'
            ),
            0,
        ),
    ],
)
def test_what_is_not_to_be_translated_is_skipped(tmp_path, text, count):
    assert len(read(tmp_path / "a.xlf", text)[0]) == count


def test_segments_of_xliff_2(tmp_path):
    unit = (
        '<unit id="u"><notes><note>untold: ignore addition</note></notes>'
        "<originalData><data id='d'>&lt;b></data></originalData>"
        '<segment id="s1" state="final"><source>one <ph id="1" dataRef="d"/>cat</source>'
        "<target>eine Katze</target></segment>"
        "<ignorable><source> </source></ignorable>"
        '<segment state="initial"><source>two cats</source><target>two cats</target></segment>'
        "<segment><source>three cats</source></segment></unit>"
    )
    segments, damages = read(tmp_path / "a.xliff", XLIFF_2.format(unit))
    assert damages == []
    assert [
        (each.name, *pair, each.unchecked)
        for each, pair in zip(segments, texts(segments), strict=True)
    ] == [
        ("u/s1", "one cat", "eine Katze", ""),
        ("u/2", "two cats", "two cats", "untranslated"),
        ("u/3", "three cats", "", "untranslated"),
    ]
    assert {each.ignored for each in segments} == {frozenset({"addition"})}


def test_notes_of_xliff_1(tmp_path):
    text = XLIFF_1.format(unit_1("<note>untold: ignore</note>") + unit_1("<note>Untold!</note>"))
    assert [each.ignored for each in read(tmp_path / "a.xlf", text)[0]] == [BOTH, frozenset()]


def test_files_of_other_languages_are_left_out(tmp_path):
    german = f'<file source-language="en" target-language="de-DE"><body>{unit_1()}</body></file>'
    french = german.replace("de-DE", "fr").replace("eine Katze", "un chat")
    text = f'<xliff version="1.2">{german}{french}</xliff>'
    assert len(read(tmp_path / "a.xlf", text)[0]) == 2
    assert texts(read(tmp_path / "a.xlf", text, options("en", "fr"))[0]) == [("a cat", "un chat")]
    assert texts(read(tmp_path / "a.xlf", text, options(target="de"))[0]) == [
        ("a cat", "eine Katze")
    ]


def test_prefixes_and_foreign_elements(tmp_path):
    text = (
        '<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:1.2" xmlns:y="urn:y" version="1.2">'
        '<x:file source-language="en" target-language="de"><x:body><x:trans-unit id="1">'
        "<y:source>not this</y:source><x:source>a cat</x:source><y:unit>nor this</y:unit>"
        "<x:target>eine Katze</x:target></x:trans-unit><y:unit><y:source>b</y:source></y:unit>"
        "</x:body></x:file></x:xliff>"
    )
    segments, damages = read(tmp_path / "a.xlf", text)
    assert (texts(segments), damages) == ([("a cat", "eine Katze")], [])


# --- encodings and lines


@ALL_XML
def test_declared_encodings_are_read(tmp_path, name):
    pairs = PAIRS[:3]
    for encoding in ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "gb18030"):
        check_encoding(tmp_path, name, encoding, pairs)


def check_encoding(tmp_path, name, encoding, pairs):
    declared = encoding.removesuffix("-le").removesuffix("-be")
    text = FORMATS[name].write(pairs)
    text = text.replace('"1.0"?>', f'"1.0" encoding="{declared}"?>')
    segments, damages = read(path_of(tmp_path, name), text.encode(encoding))
    assert (texts(segments), damages) == (pairs, [])
    assert [each.line for each in segments] == [FORMATS[name].line(n) for n in range(3)]


@ALL_XML
def test_lines_are_right_beyond_sixteen_bits(tmp_path, name):
    text = FORMATS[name].write([*PAIRS, *PAIRS])
    gap = "\n" * 40_000
    close = {"tmx": "</tu>\n", "xliff-1": "</trans-unit>\n", "xliff-2": "</unit>\n"}[name]
    text = text.replace(close, close + gap)
    text = text.replace("Das letzte", "Das & letzte", 2).replace("Das & letzte", "Das letzte", 1)
    segments, (damage,) = read(path_of(tmp_path, name), text)
    assert texts(segments) == [*PAIRS, *PAIRS[:3]]
    lines = [FORMATS[name].line(n) + 40_000 * n for n in range(8)]
    assert [each.line for each in segments] == lines[:7]
    assert damage.line == lines[7]


# --- damage

CLOSE = {"tmx": "</tu>\n", "xliff-1": "</trans-unit>\n", "xliff-2": "</unit>\n"}


def encoding(name):
    return lambda text: text.replace('"1.0"?>', f'"1.0" encoding="{name}"?>')


@pytest.mark.parametrize(
    ("damage", "whole", "words"),
    [
        (lambda text: text.replace('id="1"', 'id="1', 1), 1, "column"),
        (lambda text: text.replace("Hunde", "<!-- Hunde", 1), 1, "Comment"),
        (lambda text: text.replace("Hunde", "<b>Hunde", 1), 1, "tag mismatch"),
        (lambda text: text.replace("Hunde", "Hu&nd;e", 1), 1, "write &amp;"),
        (lambda text: text.replace("Hunde", "Hunde & Co.", 1), 1, "EntityRef"),
        (lambda text: text.replace("Hunde", "Hu&#0;nde", 1), 1, "column"),
        (lambda text: text.replace("Hunde", "</body></tmx></xliff>Hunde", 1), 1, "mismatch"),
        (lambda text: text.replace('id="1"', 'id="1" x="1" x="1"', 1), 1, "column"),
        (lambda text: text.replace("Hunde", "H\udcffunde", 1), 1, "convert the file to UTF-8"),
        (lambda text: text.replace("Hunde", "<g>" * 300, 1), 1, "Excessive depth"),
        (lambda text: text.replace("Hunde", "Hunde" * 2_200_000, 1), 1, "too long"),
        (lambda text: text[: text.index("Hunde")], 1, "column"),
        (lambda text: text + "<more/>", 4, "column"),
        (lambda text: f"x{text}", 0, "column 1"),
        (lambda _: "", 0, "holds no XML document"),
        (lambda _: '<?xml version="1.0"?>\n<html><tu><tuv/></tu></html>', 0, "<html>"),
        *((encoding(each), 0, "encoding") for each in ("klingon", "rot13", "hex", "undefined")),
    ],
)
def test_a_damaged_document_is_one_damage_behind_what_is_whole(tmp_path, damage, whole, words):
    for name in XML:
        text = damage(FORMATS[name].write(PAIRS))
        segments, (found,) = read(path_of(tmp_path, name), text.encode(errors="surrogateescape"))
        assert texts(segments) == PAIRS[:whole], name
        assert words in found.reason, name
        assert found.line <= text.count("\n") + 1, name
        if whole == 1 and words != "Comment":
            assert FORMATS[name].line(0) < found.line <= FORMATS[name].line(2), name


@ALL_XML
def test_a_huge_attribute_is_a_damage(tmp_path, name):
    text = FORMATS[name].write(PAIRS).replace('id="1"', f'id="{"1" * 11_000_000}"', 1)
    segments, (damage,) = read(path_of(tmp_path, name), text)
    assert "limit" in damage.reason
    assert all(len(each.name) <= 60 for each in segments)


@ALL_XML
def test_a_unit_that_is_not_closed_is_named(tmp_path, name):
    text = FORMATS[name].write(PAIRS).replace(CLOSE[name], "", 2)
    segments, (damage,) = read(path_of(tmp_path, name), text)
    assert segments == []
    assert damage.line < FORMATS[name].line(0)
    assert "not closed" in damage.reason


@ALL_XML
def test_references_and_ampersands_in_cdata_are_text(tmp_path, name):
    text = FORMATS[name].write(PAIRS).replace("Hunde", "Hunde<![CDATA[ & &x; <]]> &#228;&lt;")
    segments, damages = read(path_of(tmp_path, name), text)
    assert damages == []
    assert segments[1].target == "Zwei Hunde & &x; < ä< laufen im Park."


@ALL_XML
def test_a_unit_in_a_comment_is_no_unit(tmp_path, name):
    text = FORMATS[name].write(PAIRS)
    start = {"tmx": "<tu ", "xliff-1": "<trans-unit ", "xliff-2": "<unit "}[name]
    close = start.replace("<", "</").replace(" ", ">")
    parts = text.split(start)
    parts[2] = parts[2].replace(close, f"{close}-->")
    commented = f"{start.join(parts[:2])}<!-- {start}{start.join(parts[2:])}"
    segments, damages = read(path_of(tmp_path, name), commented)
    assert (texts(segments), damages) == ([PAIRS[0], PAIRS[2], PAIRS[3]], [])


# --- hostile documents

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


def with_doctype(text, name, declarations):
    root = "tmx" if name == "tmx" else "xliff"
    return text.replace("?>\n", f"?><!DOCTYPE {root} [{declarations}]>\n", 1)


@ALL_XML
def test_entities_are_refused_and_never_expanded(tmp_path, name):
    text = FORMATS[name].write(PAIRS)
    in_root = text.replace('version="', 'x="&l9;" version="').replace('x="&l9;" ', "", 1)
    for hostile in (
        text,
        text.replace("Hunde", "&l9;"),
        text.replace('id="1', 'id="&l9;'),
        in_root,
    ):
        start = time.process_time()
        document = with_doctype(hostile, name, f'<!ENTITY l0 "lol">{LAUGHS}')
        segments, (damage,) = read(path_of(tmp_path, name), document)
        assert time.process_time() - start < 1
        assert segments == []
        assert "lol" not in damage.reason


@ALL_XML
def test_files_outside_are_never_read(tmp_path, name):
    secret = tmp_path / "secret"
    secret.write_text("<!ENTITY leak 'the secret'>the secret", encoding="utf-8")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # whoever opens it waits for ever
    for target in (secret, fifo):
        for declared in (
            f'<!ENTITY out SYSTEM "{target.as_uri()}">',
            f'<!ENTITY % in SYSTEM "{target.as_uri()}">%in;',
        ):
            text = FORMATS[name].write(PAIRS).replace("Hunde", "&out;&leak;")
            segments, (damage,) = read(path_of(tmp_path, name), with_doctype(text, name, declared))
            assert segments in ([], segments[:1])
            assert "secret" not in damage.reason


@ALL_XML
def test_an_entity_of_a_dtd_that_is_not_read_is_a_damage(tmp_path, name):
    text = FORMATS[name].write(PAIRS).replace("Hunde", "Hu&nd;e")
    document = text.replace("?>\n", '?><!DOCTYPE tmx SYSTEM "tmx14.dtd">\n')
    segments, (damage,) = read(path_of(tmp_path, name), document)
    assert texts(segments) == PAIRS[:1]
    assert "write &amp;" in damage.reason


@ALL_XML
def test_a_doctype_without_entities_changes_nothing(tmp_path, name):
    text = FORMATS[name].write(PAIRS).replace("?>\n", '?><!DOCTYPE tmx SYSTEM "tmx14.dtd">\n')
    segments, damages = read(path_of(tmp_path, name), text)
    assert (texts(segments), damages) == (PAIRS, [])
    assert [each.line for each in segments] == [FORMATS[name].line(n) for n in range(4)]
