"""The English-German grammar: sentences it must have, sentences it must not, and its extent."""

from itertools import islice, pairwise
from math import prod
from random import Random

import pytest

from grammar_recognition import count_derivations, derive, derives
from untold.lab.grammars.sampling import load_grammar


@pytest.fixture(scope="module")
def grammar():
    return load_grammar("en-de")


@pytest.fixture(scope="module")
def samples(grammar):
    return list(islice(grammar.stream(seed=2024), 1500))


HAS = {
    "verb second": ("The child eats the bread .", "Das Kind isst das Brot ."),
    "verb second after time": ("Today the child eats bread .", "Heute isst das Kind Brot ."),
    "verb final": (
        "The man laughs because the woman reads the book .",
        "Der Mann lacht , weil die Frau das Buch liest .",
    ),
    "subordinate clause first": (
        "If it is raining , I read a letter .",
        "Wenn es regnet , lese ich einen Brief .",
    ),
    "separable verb": ("Peter calls his mother .", "Peter ruft seine Mutter an ."),
    "separable verb, final": (
        "She knows that Peter calls his mother .",
        "Sie weiß , dass Peter seine Mutter anruft .",
    ),
    "separable verb with zu": (
        "He promises to invite the neighbours .",
        "Er verspricht , die Nachbarn einzuladen .",
    ),
    "perfect bracket": ("I have not seen the dog .", "Ich habe den Hund nicht gesehen ."),
    "perfect with sein": ("We have gone to Berlin .", "Wir sind nach Berlin gegangen ."),
    "modal": ("You must help the teacher .", "Sie müssen dem Lehrer helfen ."),
    "future": ("Anna will buy a coat tomorrow .", "Anna wird morgen einen Mantel kaufen ."),
    "passive": (
        "The letter was written by the minister .",
        "Der Brief wurde vom Minister geschrieben .",
    ),
    "do-support, negated": ("He does not sleep .", "Er schläft nicht ."),
    "do-support, asked": ("Did you read the novel ?", "Lasen Sie den Roman ?"),
    "progressive": ("The cat is sleeping .", "Die Katze schläft ."),
    "strong adjective": ("She drinks cold water .", "Sie trinkt kaltes Wasser ."),
    "mixed adjective": ("A young man sings .", "Ein junger Mann singt ."),
    "weak adjective": ("The young man sings .", "Der junge Mann singt ."),
    "plural dative": (
        "He helps the old farmers .",
        "Er hilft den alten Bauern .",
    ),
    "relative clause, subject": (
        "The woman who laughs is tired .",
        "Die Frau , die lacht , ist müde .",
    ),
    "relative clause, object": (
        "I know the man whom she loves .",
        "Ich kenne den Mann , den sie liebt .",
    ),
    "relative clause, no English pronoun": (
        "The book he reads is good .",
        "Das Buch , das er liest , ist gut .",
    ),
    "relative clause, dative": (
        "The child whom I help laughs .",
        "Das Kind , dem ich helfe , lacht .",
    ),
    "two objects": ("She gives him the key .", "Sie gibt ihm den Schlüssel ."),
    "time, manner, place": (
        "We will travel to Vienna by train tomorrow .",
        "Wir werden morgen mit dem Zug nach Wien reisen .",
    ),
    "fused article": ("They go to the museum .", "Sie gehen zum Museum ."),
    "compound": ("My sister drinks apple juice .", "Meine Schwester trinkt Apfelsaft ."),
    "genitive": (
        "The minister defends the plan of the president .",
        "Der Minister verteidigt den Plan des Präsidenten .",
    ),
    "idiom": ("She let the cat out of the bag .", "Sie ließ die Katze aus dem Sack ."),
    "reflexive": ("I remember the concert .", "Ich erinnere mich an das Konzert ."),
    "es gibt": ("There is no museum in Italy .", "Es gibt kein Museum in Italien ."),
    "numbers": (
        "Two years ago she sold twelve rings .",
        "Vor zwei Jahren verkaufte sie zwölf Ringe .",
    ),
    "a trade without article": ("Julia is a doctor .", "Julia ist Ärztin ."),
    "comparison": ("Paul is older than Anna .", "Paul ist älter als Anna ."),
    "three words": ("He sleeps .", "Er schläft ."),
}

HAS_NOT = {
    "nominative object": ("The child eats the apple .", "Das Kind isst der Apfel ."),
    "verb third": ("Today the child eats bread .", "Heute das Kind isst Brot ."),
    "verb second after weil": (
        "He laughs because she does not sleep .",
        "Er lacht , weil sie schläft nicht .",
    ),
    "no comma": ("He knows that she sleeps .", "Er weiß dass sie schläft ."),
    "comma before the stop": (
        "I know the man whom she loves .",
        "Ich kenne den Mann , den sie liebt , .",
    ),
    "joined particle": ("Peter calls Anna .", "Peter anruft Anna ."),
    "wrong gender": ("The woman laughs .", "Der Frau lacht ."),
    "wrong relative pronoun": (
        "The woman who laughs is tired .",
        "Die Frau , der lacht , ist müde .",
    ),
    "strong for weak": ("The young man sings .", "Der junger Mann singt ."),
    "agreement": ("The men sing .", "Die Männer singt ."),
    "English agreement": ("The man sing .", "Der Mann singt ."),
    "a before a vowel": ("He eats a apple .", "Er isst einen Apfel ."),
    "unfused article": ("They go to the museum .", "Sie gehen zu dem Museum ."),
    "dative missing": ("He helps the man .", "Er hilft den Mann ."),
    "no do-support": ("He sleeps not .", "Er schläft nicht ."),
    "haben for sein": ("We have gone to Berlin .", "Wir haben nach Berlin gegangen ."),
    "nonsense": ("The bread reads the minister .", "Das Brot liest den Minister ."),
    "another meaning": ("The child eats the bread .", "Das Kind isst den Käse ."),
    "small first letter": ("he sleeps .", "Er schläft ."),
}

ALIGNED = {
    ("He gets up .", "Er steht auf ."): "0-0 1-1 1-2 2-1 2-2 3-3",
    ("He does not sleep .", "Er schläft nicht ."): "0-0 2-2 3-1 4-3",
    ("They go to the museum .", "Sie gehen zum Museum ."): "0-0 1-1 2-2 3-2 4-3 5-4",
    (
        "My sister drinks apple juice .",
        "Meine Schwester trinkt Apfelsaft .",
    ): "0-0 1-1 2-2 3-3 4-3 5-4",
    (
        "She knows that Peter calls his mother .",
        "Sie weiß , dass Peter seine Mutter anruft .",
    ): "0-0 1-1 2-3 3-4 4-7 5-5 6-6 7-8",
    (
        "Two years ago she laughed .",
        "Vor zwei Jahren lachte sie .",
    ): "0-1 1-2 2-0 3-4 4-3 5-5",
    ("Julia is a doctor .", "Julia ist Ärztin ."): "0-0 1-1 3-2 4-3",
    ("I remember Anna .", "Ich erinnere mich an Anna ."): "0-0 1-1 2-4 3-5",
    (
        "The book he reads is good .",
        "Das Buch , das er liest , ist gut .",
    ): "0-0 1-1 2-4 3-5 4-7 5-8 6-9",
}


@pytest.mark.parametrize("name", HAS)
def test_it_has(grammar, name):
    assert derives(grammar, *HAS[name])


@pytest.mark.parametrize("name", HAS_NOT)
def test_it_has_not(grammar, name):
    assert not derives(grammar, *HAS_NOT[name])


@pytest.mark.parametrize("pair", ALIGNED, ids=" | ".join)
def test_alignments_checked_by_hand(grammar, pair):
    found = derive(grammar, *pair)
    assert found is not None
    assert " ".join(f"{i}-{j}" for i, j in found.alignment) == ALIGNED[pair]


def test_its_extent(grammar):
    assert grammar.languages == ("en", "de")
    assert grammar.entries >= 250
    assert count_derivations(grammar.plain, 7) > 1_000_000_000


def table(text: str) -> dict[str, str]:
    """`english=deutsch` per item; `_` is a space."""
    return dict(item.replace("_", " ").split("=") for item in text.split())


TIMES = table(
    "Yesterday=Gestern Today=Heute Last_week=Letzte_Woche Last_year=Letztes_Jahr"
    " On_Monday=Am_Montag On_Friday=Am_Freitag On_Sunday=Am_Sonntag In_the_summer=Im_Sommer"
)
PEOPLE = table(
    "man=Mann father=Vater brother=Bruder teacher=Lehrer cook=Koch guest=Gast judge=Richter"
    " baker=Bäcker king=König writer=Schriftsteller minister=Minister mayor=Bürgermeister"
)
KINDS = table(
    "young=junge friendly=freundliche clever=kluge famous=berühmte rich=reiche poor=arme"
    " happy=glückliche sad=traurige brave=mutige strict=strenge polite=höfliche tired=müde"
)
DEEDS = table(
    "bought=kaufte sold=verkaufte found=fand needed=brauchte forgot=vergaß looked_for=suchte"
    " cleaned=putzte lost=verlor"
)
THINGS = table(
    "key=den_{}en_Schlüssel chair=den_{}en_Stuhl umbrella=den_{}en_Regenschirm ring=den_{}en_Ring"
    " lamp=die_{}e_Lampe watch=die_{}e_Uhr bag=die_{}e_Tasche bottle=die_{}e_Flasche"
    " picture=das_{}e_Bild knife=das_{}e_Messer mobile_phone=das_{}e_Handy camera=die_{}e_Kamera"
)
LOOKS = table(
    "big=groß small=klein old=alt new=neu expensive=teur cheap=billig heavy=schwer red=rot"
    " blue=blau beautiful=schön modern=modern"
)


def test_one_frame_alone_has_more_than_a_million_pairs(grammar):
    tables = (TIMES, KINDS, PEOPLE, DEEDS, LOOKS, THINGS)
    assert prod(len(words) for words in tables) > 1_000_000
    rng = Random(1)
    for _ in range(4):
        time, kind, person, deed, look, thing = (rng.choice(list(words)) for words in tables)
        source = f"{time} the {kind} {person} {deed} the {look} {thing} ."
        found = THINGS[thing].format(LOOKS[look])
        target = f"{TIMES[time]} {DEEDS[deed]} der {KINDS[kind]} {PEOPLE[person]} {found} ."
        assert derives(grammar, source, target), (source, target)


def test_longer_samples_are_all_different(samples):
    long = [(s.source, s.target) for s in samples if len(s.source) >= 10]
    assert len(long) > 600
    assert len(long) == len(set(long))


def test_lengths(grammar, samples):
    lengths = [len(s.source) for s in samples]
    assert min(lengths) == 3
    assert 11 <= sum(lengths) / len(lengths) <= 16
    assert max(max(len(s.source), len(s.target)) for s in samples) > 50
    assert all(max(len(s.source), len(s.target)) <= 60 for s in samples)
    assert grammar.plain.sizes[0] <= 3


def test_every_sample_is_clean_text(samples):
    for sample in samples:
        for words in (sample.source, sample.target):
            assert words[0][0].isupper()
            assert words[-1] in (".", "?")
            assert not any(one == "," and two in (",", ".", "?") for one, two in pairwise(words))
            assert all(word and not set(word) & set(' {}_~"') for word in words)
        assert (len(sample.source) - 1, len(sample.target) - 1) in sample.alignment
        assert 2 * len({j for _, j in sample.alignment}) >= len(sample.target)


def test_samples_are_derivable_with_an_alignment(grammar, samples):
    for sample in [s for s in samples if len(s.source) <= 8][:12]:
        assert derives(grammar, " ".join(sample.source), " ".join(sample.target))
