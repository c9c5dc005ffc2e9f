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


@pytest.mark.parametrize("chosen", [options("xx"), options("en", "xx"), options("xx", "de")])
@ALL_XML
def test_an_unknown_language_is_an_error_that_names_the_others(tmp_path, name, chosen):
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


def test_elements_around_are_entered_again_as_they_were(tmp_path):
    text = (
        '<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:1.2" xmlns:y="urn: odd" version="1.2">'
        '<x:file source-language="en" target-language="de" y:z="a&#10;&quot;&lt;\'" xml:lang="en">'
        '<x:body><y:z/><z:z><x:group translate="no">{0}{1}</x:group>{0}{1}{0}</z:z></x:body>'
        "</x:file></x:xliff>"
    )
    inside = "<x:source>a cat</x:source><x:target>eine Katze</x:target>"
    good = f'<x:trans-unit id="1">{inside}</x:trans-unit>'
    bad = good.replace("eine", "&")
    segments, damages = read(tmp_path / "a.xlf", text.format(good, bad), options("en", "de"))
    assert texts(segments) == [("a cat", "eine Katze")] * 2
    # Two units are broken, and the prefixes z and y are not what they should be.
    assert len(damages) == 3


# --- encodings and lines


@ALL_XML
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "iso-8859-1", "gb18030"]
)
def test_declared_encodings_are_read(tmp_path, name, encoding):
    pairs = PAIRS[:3]
    declared = encoding.removesuffix("-le").removesuffix("-be")
    text = FORMATS[name].write(pairs)
    text = text.replace('"1.0"?>', f'"1.0" encoding="{declared}"?>')
    segments, damages = read(path_of(tmp_path, name), text.encode(encoding))
    assert (texts(segments), damages) == (pairs, [])
    assert [each.line for each in segments] == [FORMATS[name].line(n) for n in range(3)]


@ALL_XML
def test_bytes_that_are_not_of_the_encoding_cost_their_unit(tmp_path, name):
    text = FORMATS[name].write([PAIRS[0], ("two cats", "zwei schöne Katzen"), PAIRS[1]])
    data = text.encode().replace("schöne".encode(), "schöne".encode("latin-1"))
    segments, (damage,) = read(path_of(tmp_path, name), data)
    assert texts(segments) == [PAIRS[0], PAIRS[1]]
    assert damage.line == FORMATS[name].line(1)
    assert "do not fit the encoding" in damage.reason


@ALL_XML
@pytest.mark.parametrize("encoding", ["klingon", "rot13", "hex", "undefined", "idna"])
def test_an_unknown_encoding_is_a_damage(tmp_path, name, encoding):
    text = FORMATS[name].write(PAIRS).replace('"1.0"?>', f'"1.0" encoding="{encoding}"?>')
    segments, (damage,) = read(path_of(tmp_path, name), text)
    assert segments == []
    assert damage.line == 1
    assert "encoding" in damage.reason


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


# --- mistakes


@ALL_XML
def test_a_unit_that_is_not_closed_costs_itself(tmp_path, name):
    close = {"tmx": "</tu>\n", "xliff-1": "</trans-unit>\n", "xliff-2": "</unit>\n"}[name]
    text = FORMATS[name].write(PAIRS)
    for number in range(3):
        parts = text.split(close)
        parts[number : number + 2] = [parts[number] + "\n" + parts[number + 1]]
        segments, (damage,) = read(path_of(tmp_path, name), close.join(parts))
        assert texts(segments) == [*PAIRS[:number], *PAIRS[number + 1 :]]
        assert damage.line < FORMATS[name].line(number) + 3
        assert "not closed" in damage.reason


@ALL_XML
@pytest.mark.parametrize(
    "break_it",
    [
        lambda text: text.replace('id="1"', 'id="1', 1),
        lambda text: text.replace("Hunde", "<!-- Hunde", 1),
        lambda text: text.replace("Hunde", "Hu<![CDATA[nde", 1),
        lambda text: text.replace("Hunde", "<b>Hunde", 1),
        lambda text: text.replace("Hunde", "Hu&nd;e", 1),
        lambda text: text.replace("Hunde", "Hu&#0;nde", 1),
        lambda text: text.replace("Hunde", "Hu&#xd800;nde", 1),
        lambda text: text.replace("Hunde", "</body></tmx></xliff>Hunde", 1),
        lambda text: text.replace('id="1"', 'id="1" x="1" x="1"', 1),
        lambda text: text.replace("Hunde", "Hunde & Co.", 1),
        lambda text: text.replace("Hunde", "Hunde &", 1),
        lambda text: text.replace("Hunde", "<!-- x --> & Hunde", 1),
        lambda text: text.replace("Hunde", "<!-- x --> &nd; Hunde", 1),
        lambda text: text.replace('id="1"', 'id="&nd;"', 1),
        lambda text: text.replace('id="1"', 'id="1" <!-- x="&nd;"', 1),
        lambda text: text.replace("Hunde", "<g>" * 300, 1),
        lambda text: text.replace("Hunde", "Hunde" * 2_200_000, 1),
    ],
)
def test_a_broken_unit_costs_itself_and_is_named(tmp_path, name, break_it):
    segments, damages = read(path_of(tmp_path, name), break_it(FORMATS[name].write(PAIRS)))
    assert texts(segments) == [PAIRS[0], PAIRS[2], PAIRS[3]]
    assert damages
    assert damages[0].line >= FORMATS[name].line(0) + 2


@ALL_XML
def test_a_huge_attribute_costs_its_unit_at_most(tmp_path, name):
    text = FORMATS[name].write(PAIRS).replace('id="1"', f'id="{"1" * 11_000_000}"', 1)
    segments, _ = read(path_of(tmp_path, name), text)
    assert [pair for pair in texts(segments) if pair != PAIRS[1]] == [PAIRS[0], *PAIRS[2:]]
    assert all(len(each.name) <= 60 for each in segments)


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


@ALL_XML
def test_another_document_is_named(tmp_path, name):
    text = '<?xml version="1.0"?>\n<html><tu><tuv/></tu><unit/></html>'
    segments, (damage,) = read(path_of(tmp_path, name), text)
    assert segments == []
    assert damage.line == 2
    assert "<html>" in damage.reason


def test_a_file_of_nothing_but_mistakes_ends_soon(tmp_path, monkeypatch):
    from untold.checking import xml_formats as xml_units

    monkeypatch.setattr(xml_units, "_MOST_READ_AGAIN", 5000)
    start = time.process_time()
    units = tu(en="<!-- a", de="b").replace("</tu>", "") * 3000  # each hides all that follow
    segments, damages = read(tmp_path / "a.tmx", tmx(units))
    assert segments == []
    assert damages
    assert time.process_time() - start < 10  # four and a half million pieces would take minutes


# --- hostile documents

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


def with_doctype(text, name, declarations):
    root = "tmx" if name == "tmx" else "xliff"
    return text.replace("?>\n", f"?><!DOCTYPE {root} [{declarations}]>\n", 1)


@ALL_XML
@pytest.mark.parametrize("place", ["text", "attribute"])
def test_entities_are_never_expanded(tmp_path, name, place):
    text = FORMATS[name].write(PAIRS)
    hostile = text.replace("Hunde", "&l9;") if place == "text" else text.replace('"1">', '"&l9;">')
    assert hostile != text
    start = time.process_time()
    document = with_doctype(hostile, name, f'<!ENTITY l0 "lol">{LAUGHS}')
    segments, damages = read(path_of(tmp_path, name), document)
    assert time.process_time() - start < 1
    assert texts(segments) == [PAIRS[0], PAIRS[2], PAIRS[3]]
    assert len(damages) == 1
    assert "lol" not in damages[0].reason.replace("l9", "")


@ALL_XML
def test_files_outside_are_never_read(tmp_path, name):
    secret = tmp_path / "secret"
    secret.write_text("<!ENTITY leak 'the secret'>the secret", encoding="utf-8")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # whoever opens it waits for ever
    for target in (secret, fifo):
        declared = (
            f'<!ENTITY out SYSTEM "{target.as_uri()}"><!ENTITY % in SYSTEM "{target.as_uri()}">%in;'
        )
        text = FORMATS[name].write(PAIRS).replace("Hunde", "&out;&leak;")
        segments, damages = read(path_of(tmp_path, name), with_doctype(text, name, declared))
        assert [pair for pair in texts(segments) if "Zwei" not in pair[1]] == [
            PAIRS[0],
            PAIRS[2],
            PAIRS[3],
        ]
        assert len(segments) == 3
        assert "secret" not in " ".join(damage.reason for damage in damages)


@ALL_XML
def test_a_doctype_without_entities_changes_nothing(tmp_path, name):
    text = FORMATS[name].write(PAIRS).replace("?>\n", '?><!DOCTYPE tmx SYSTEM "tmx14.dtd">\n')
    segments, damages = read(path_of(tmp_path, name), text)
    assert (texts(segments), damages) == (PAIRS, [])
    assert [each.line for each in segments] == [FORMATS[name].line(n) for n in range(4)]
