"""What holds of every synchronous grammar and every sample."""

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from grammar_recognition import derive, derives
from untold.lab.grammars.sampling import parse_grammar

SEEDS = st.integers(0, 2**32)


@st.composite
def permuted_grammars(draw):
    """A grammar with one rule that puts its constituents into another order on the target side."""
    order = draw(st.permutations(range(draw(st.integers(1, 6)))))
    widths = draw(st.lists(st.integers(1, 3), min_size=len(order), max_size=len(order)))
    source = " ".join(f"C{n}" for n in range(len(order)))
    target = " ".join(f"C{n}" for n in order)
    rules = [f"S -> {source} || {target}"]
    for n, width in enumerate(widths):
        words = " ".join(f"t{n}{k}" for k in range(width))
        rules.append(f'C{n} -> "s{n}" || "{words}"')
    return "languages xx yy\nstart S\n" + "\n".join(rules) + "\n", widths


@given(permuted_grammars(), SEEDS)
def test_links_keep_constituents_together_in_any_order(grammar, seed):
    text, widths = grammar
    toy = parse_grammar(text)
    pair = next(toy.stream(seed))
    assert len(pair.alignment) == sum(widths)
    for source, target in pair.alignment:
        assert pair.target[target].startswith(f"t{source}")
    assert derive(toy, " ".join(pair.source), " ".join(pair.target)) == pair


RECURSIVE = """
languages xx yy
start S
length 2 12
capitalize yy
absorb yy , before , .
feature num = sg pl
S -> Clause "."~1 || Clause "."~1
Clause -> N[num] V[num] || N V
Clause -> Clause:1 "and"~1 Clause:2 || Clause:2 "und"~1 Clause:1
N[num] -> D[num] "thing"~1 || D "ding"~1
N[num] -> N[num] "that"~1 V[num=sg] || N "," "das"~1 V "," * 0.7
D[num=sg] -> "a" || ""
D[num=pl] -> "two of" || "zwei"
V[num=sg] -> "works out" || "geht"
V[num=pl] -> "work" || "gehen los"
"""
TOY = parse_grammar(RECURSIVE)


@given(SEEDS)
def test_every_sample_is_in_bounds_and_in_the_grammar(seed):
    pair = next(TOY.stream(seed))
    assert 2 <= len(pair.source) <= 12
    assert 2 <= len(pair.target) <= 12
    assert list(pair.alignment) == sorted(set(pair.alignment))
    for source, target in pair.alignment:
        assert 0 <= source < len(pair.source)
        assert 0 <= target < len(pair.target)
    assert (len(pair.source) - 1, len(pair.target) - 1) in pair.alignment
    assert derives(TOY, " ".join(pair.source), " ".join(pair.target))


@given(SEEDS, st.integers(1, 20))
@settings(max_examples=20, deadline=None)
def test_a_stream_is_a_function_of_its_seed(seed, count):
    first = list(islice(TOY.stream(seed), count))
    again = list(islice(parse_grammar(RECURSIVE).stream(seed), count))
    assert first == again
