"""Markup leaves the text, words stay apart, and text without markup stays as it is."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from untold.checking.markup import has_branches, inline_text, plain_pair, plain_text

PIECES = [
    *"<>&%{}$\\_;:/#!()=\"' \0\n\t.ab1sF日",
    *("%s", "%(a)s", "%%", "{0}", "{{x}}", "${v}", "$V", "<b>", "</b>", "<br/>", "&amp;", "&lt;"),
    *("&nbsp;", "&#38;", "&#x26;", "&#0;", "&#xd800;", "&x;", "\\n", "C:\\", "<!--", "-->", "(_F)"),
    *("\u2028", "\ud800", "\x85", "  "),
]
MARKED = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
# Signs that markup is made of, and all characters that end a line somewhere, are left out.
CLEAN = st.text(
    st.characters(exclude_characters="<>&%{}$\\_\0\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
)


STRINGS = [
    ("Open %s.", "Open."),
    ("%d files in %(dir)s", "files in"),
    ("%1$s wrote %-5.2f bytes (%lu)", "wrote bytes ()"),
    ("printf %<PRIu64> bytes", "printf bytes"),
    ("100%% sure", "100% sure"),
    ("100% sure, 5 % off, 50%dash", "100% sure, 5 % off, 50%dash"),
    ("%s%s", ""),
    ("file%sname", "file name"),
    ("{name} has {0} of {} and {x.y[0]!r:>10}", "has of and"),
    ("{{ user }} likes %{thing}", "likes"),
    ("a {not a placeholder} b", "a {not a placeholder} b"),
    ("${HOME}/bin in $PATH costs $5", "/bin in costs $5"),
    ("Hello<br>world", "Hello world"),
    ("Hello.<br/>World", "Hello. World"),
    ("Click <b>here</b>.", "Click here."),
    ("<a href=\"http://x/%s\" class='y' id=z>Link</a> to", "Link to"),
    ("(<i>x</i>)", "(x)"),
    ("点击<b>这里</b>。", "点击这里。"),
    ("a < b and c > d", "a < b and c > d"),
    ("<me@example.org> wrote", "<me@example.org> wrote"),
    ("Tom &amp; Jerry", "Tom & Jerry"),
    ("a&nbsp;b", "a b"),
    ("a &nbsp; b", "a b"),
    ("&lt;b&gt;bold&lt;/b&gt; text", "bold text"),
    ("&#228;&#xe4;&auml;", "äää"),
    ("&brandShortName; starts", "starts"),
    ("AT&T and R&D; nothing", "AT&T and R&D; nothing"),
    ("Error:\\nNo file\\tfound", "Error: No file found"),
    ("C:\\new\\table is a path", "C:\\new\\table is a path"),
    ("two\nlines\n", "two lines"),
    ("one \n  indented", "one indented"),
    ("Fichier %s : rien", "Fichier : rien"),
    ("  two  blanks  ", "  two  blanks  "),
    ("my_variable and __init__", "my_variable and __init__"),
    ("%5 artış", "%5 artış"),
]


def test_markup_of_strings_is_removed_and_nothing_else():
    assert [(text, plain_text(text)) for text, _ in STRINGS] == STRINGS


ACCELERATORS = [
    (("_File", "_Datei"), ("File", "Datei")),
    (("&File", "&Datei"), ("File", "Datei")),
    (("E_xit", "B_eenden"), ("Exit", "Beenden")),
    (("Save &As…", "Speichern &unter…"), ("Save As…", "Speichern unter…")),
    (("_File", "文件(_F)"), ("File", "文件")),
    (("&Options...", "选项(&O)..."), ("Options...", "选项...")),
    (
        ("set max_size now", "max_size jetzt setzen"),
        ("set max_size now", "max_size jetzt setzen"),
    ),
    (("a snake_case word", "ein Wort"), ("a snake_case word", "ein Wort")),
    (("a_b and c_d", "_A und _B"), ("a_b and c_d", "_A und _B")),
    (("AT&T", "AT&T"), ("AT&T", "AT&T")),
    (("R&D team", "F&E-Gruppe"), ("R&D team", "F&E-Gruppe")),
    (("Find &amp; replace", "Suchen &amp; ersetzen"), ("Find & replace", "Suchen & ersetzen")),
    (("%1 of %2", "%1 von %2"), ("of", "von")),
    (("%(_a)s x", "%(_a)s y"), ("x", "y")),
]


def test_accelerators_of_programs_are_removed_with_care():
    assert [(sides, plain_pair(*sides)) for sides, _ in ACCELERATORS] == ACCELERATORS


@given(CLEAN)
def test_text_without_markup_is_unchanged(text):
    assert plain_text(text) == text
    assert plain_pair(text, text) == (text, text)


@given(MARKED)
def test_removing_twice_is_removing_once(text):
    plain = plain_text(text)
    assert plain_text(plain) == plain


@given(MARKED, MARKED)
def test_removing_twice_is_removing_once_in_pairs(source, target):
    plain = plain_pair(source, target)
    assert plain_pair(*plain) == plain


@given(st.lists(st.sampled_from(["cat", "dog", "%s", "<br>", "{0}", "&nbsp;", "\n"]), min_size=1))
def test_words_stay_apart_and_blanks_stay_single(pieces):
    """Between two words stands markup or a blank, so none may be glued to its neighbour."""
    text = " ".join(pieces)
    words = [piece for piece in pieces if piece in ("cat", "dog")]
    assert plain_text(text) == " ".join(words)
    glued = "".join(f"{word}<br>" for word in words)
    assert plain_text(glued) == " ".join(words)


@pytest.mark.parametrize("piece", ["{", "&amp;", "&#038;", "<a ", " ", " \0", "a\n", "%", "&", "$"])
def test_long_texts_take_linear_time(piece):
    def seconds(count):
        text = piece * count + "x" + "}" * count
        start = time.process_time()
        plain_pair(text, text)
        return time.process_time() - start

    seconds(10)
    # Eight times the text may take thrice the linear time on a busy machine; squared it is 64.
    assert seconds(16_000) < 24 * max(seconds(2_000), 0.003)


def test_messages_with_branches_are_known():
    assert has_branches("{n, plural, one {a cat} other {# cats}}")
    assert has_branches("x {g , select, male {he} other {they}}")
    assert not has_branches("{n}, plural, one {a}")


INLINE = [
    ("a <g id='1'>b</g> c", "a b c"),
    ("<g id='1'>H</g>ello", "Hello"),
    ("a<x id='1'/>b <bx id='2'/>c<ex id='2'/>.", "a b c."),
    ("a <bpt id='1'>&lt;b></bpt>b<ept id='1'>&lt;/b></ept>.", "a b."),
    ("a <ph id='1'>{code}</ph> b <it id='2' pos='open'>[i]</it>c", "a b c"),
    ("a <mrk mtype='seg' mid='1'>b c</mrk> d", "a b c d"),
    ("a <ph id='1'>img alt='<sub>a picture</sub>'</ph> b", "a a picture b"),
    ("a <pc id='1'>b</pc><ph id='2'/> <sc id='3'/>c<ec startRef='3'/>", "a b c"),
    ("a<cp hex='001A'/>b <sm id='1'/>c<em startRef='1'/> d", "a b c d"),
    ("a <hi>b</hi> <ut>{\\b}</ut>c", "a b c"),
    ("a <g id='1'>b <ph id='2'>code</ph> c <g id='3'>d</g></g> e", "a b c d e"),
    ("a <!-- note --><?pi x?>b", "a b"),
    ("&amp;File &lt;b>x&lt;/b> %s", "&File x"),
]


@pytest.mark.parametrize("namespace", ["", " xmlns='urn:oasis:names:tc:xliff:document:1.2'"])
def test_inline_elements_of_xliff_and_tmx(namespace):
    parser = etree.XMLParser(remove_comments=True, remove_pis=True)

    def plain(xml):
        element = etree.fromstring(f"<source{namespace}>{xml}</source>", parser)
        return plain_text(inline_text(element))

    assert [(xml, plain(xml)) for xml, _ in INLINE] == INLINE
