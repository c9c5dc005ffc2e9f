"""Checks a grammar before anyone samples from it; each error names the line and the cure."""

from collections import defaultdict

from untold.corpus.grammars.expansion import Expansion, expand_rules
from untold.corpus.grammars.notation import Notation, Word
from untold.corpus.grammars.plain_grammar import PlainGrammar, Production, build_plain_grammar
from untold.corpus.grammars.rule_parser import Place

__all__ = ["expand"]


def expand(notation: Notation) -> PlainGrammar:
    """Checks the rules of a file and turns them into a plain grammar.

    Every rule can be reached from the start, can end in words, and is used.
    """
    _check_categories(notation)
    expansion = expand_rules(notation)
    _check_use(notation, expansion)
    plain = build_plain_grammar(expansion)
    _check_loops(notation, plain)
    if plain.sizes[0] > notation.length[1]:
        raise Place(notation.where, 1).error(
            f"the shortest sentence has {plain.sizes[0]} words, length allows {notation.length[1]}:"
            " raise it"
        )
    return plain


def _check_categories(notation: Notation) -> None:
    """Checks that every constituent has rules, and that some rule has each feature it needs."""
    known: dict[str, set[str]] = defaultdict(set)
    for rule in notation.rules:
        known[rule.category] |= rule.features.keys()
    if notation.start not in known:
        raise Place(notation.where, 1).error(f"start {notation.start} has no rule: write one")
    for rule in notation.rules:
        place = Place(notation.where, rule.origin)
        for child in rule.children:
            if child.category not in known:
                raise place.error(f"{child.category} has no rule: write one or mend the name")
            if odd := sorted(child.features.keys() - known[child.category]):
                raise place.error(
                    f"no rule of {child.category} has the feature {odd[0]}: give it to their left"
                    " sides or do not ask for it"
                )


def _check_use(notation: Notation, expansion: Expansion) -> None:
    """Checks that every category can end in words, and that every rule and row can be used."""
    sizes = expansion.sizes
    reached = {category for category, _ in expansion.symbols}
    ended = {s[0] for s, size in zip(expansion.symbols, sizes, strict=True) if size is not None}
    used = {instance.rule.origin for choices in expansion.instances for instance in choices}
    for rule in notation.rules:
        place = Place(notation.where, rule.origin)
        if rule.category not in reached:
            raise place.error(f"{notation.start} never leads to {rule.category}: use or remove it")
        if rule.category not in ended:
            raise place.error(
                f"{rule.category} never ends in words: give it a rule that does not lead back to"
                " itself, with features that can be met"
            )
        if rule.origin not in used:
            raise place.error(
                f"this {rule.category} can never be used: nothing asks for its features, or a"
                " constituent cannot meet them"
            )


def _check_loops(notation: Notation, plain: PlainGrammar) -> None:
    """Checks that no symbol leads back to itself without a new source word.

    The derivations of a source sentence are therefore finite in number.
    """
    steps = [
        sorted(
            {
                child
                for p in choices
                if p.children
                for child in _children_spanning_source(p, plain.nullable)
            }
        )
        for choices in plain.productions
    ]
    opened, closed = 1, 2
    state = [0] * len(steps)
    for root in range(len(steps)):
        path = [] if state[root] else [(root, iter(steps[root]))]
        state[root] = state[root] or opened
        while path:
            symbol, rest = path[-1]
            child = next(rest, None)
            if child is None:
                state[symbol] = closed
                path.pop()
            elif state[child] == opened:
                raise Place(notation.where, plain.productions[child][0].origin).error(
                    f"{plain.symbols[child][0]} leads back to itself without a new source word:"
                    " add a word to the loop or break it"
                )
            elif not state[child]:
                state[child] = opened
                path.append((child, iter(steps[child])))


def _children_spanning_source(production: Production, nullable: tuple[bool, ...]) -> list[int]:
    """Lists the children that can be the whole source side of a production."""
    full = [child for child in production.children if not nullable[child]]
    if len(full) > 1 or any(isinstance(item, Word) for item in production.source):
        return []
    return full or list(production.children)
