"""Names: a person who knows the field finds each thing by the word for it, and only once."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "untold"
SOURCES = sorted(ROOT.rglob("*.py"))
# What someone who knows fairseq, Marian or transformers would look for.
WORDS = """
early stopping, cross entropy, label smoothed cross entropy, KV cache, mixed precision, distributed,
process group, resume, HTML page, teacher forcing, minimum risk, GRU cell, beam search, length
penalty, coverage penalty, warm start, learning rate schedule, checkpoint, tokenizer, vocabulary,
batching, BLEU, significance, bootstrap, alignment, attention, capsule routing, squash, bag of
words, counterfactual, translation table, copy mechanism, REINFORCE, actor critic, discriminator,
heatmap, transformer, encoder layer, decoder layer, self attention, cross attention, feed forward,
dropout, positional embedding, ensemble, sampling, optimizer, validation, registry, special ids,
codec, checkpoint averaging, aligner, signals, output layer, translator, critic, rewards, content
agreement
"""
# A word has one meaning in the package: these names may stand in the files of that meaning alone.
OWNERS = {
    "trace": {"metrics/separation.py"},
    "told": set(),
}
COMMANDS = ROOT / "commands"
MODULES_IN_A_PACKAGE = 15


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def definitions(path: Path) -> list[str]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node.name for node in ast.walk(tree(path)) if isinstance(node, kinds)]


def classes(path: Path) -> list[str]:
    return [node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]


def plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


NAMES = {plain(name) for path in SOURCES for name in (path.stem, *definitions(path))}


@pytest.mark.parametrize("word", [" ".join(word.split()) for word in WORDS.split(",")])
def test_each_word_of_the_field_names_a_file_or_a_definition(word):
    assert any(plain(word) in name for name in NAMES), f"nothing is called {word}"


def test_a_word_that_nothing_is_called_by_is_noticed():
    assert not any(plain("hidden markov model") in name for name in NAMES)


def test_no_two_modules_have_the_same_name():
    stems = Counter(path.stem for path in SOURCES if path.stem != "__init__")
    assert [stem for stem, count in stems.items() if count > 1] == []


def test_no_two_classes_have_the_same_name():
    names = Counter(name.lstrip("_") for path in SOURCES for name in classes(path))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("word", OWNERS)
def test_a_word_with_one_meaning_names_nothing_else(word):
    for path in SOURCES:
        place = str(path.relative_to(ROOT))
        if place not in OWNERS[word]:
            names = [path.stem, *definitions(path)]
            parts = {part for name in names for part in re.findall(r"[a-z]+", snake(name))}
            assert not parts & {word, f"{word}s"}, f"{place} uses {word} for something else"


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def test_no_package_has_too_many_modules():
    # Commands are one module each, however many there are: a flat list that --help prints.
    counted = [path for path in SOURCES if path.stem != "__init__" and path.parent != COMMANDS]
    sizes = Counter(path.parent for path in counted)
    large = {str(k.relative_to(ROOT)): v for k, v in sizes.items() if v > MODULES_IN_A_PACKAGE}
    assert large == {}


def docstrings(path: Path) -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = [ast.get_docstring(node) for node in ast.walk(tree(path)) if isinstance(node, kinds)]
    return [each for each in found if each]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_are_sentences_that_say_something(path):
    for text in docstrings(path):
        first = text.split(maxsplit=1)[0]
        assert first not in {"Of", "As", "What", "Whether", "Where", "Which"}, text
        assert not text.startswith("The same"), text
        assert len(text.split()) > 1, text
