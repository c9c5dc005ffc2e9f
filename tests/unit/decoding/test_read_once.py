"""A pair that is given is encoded once, and the model runs over it once, whoever asks."""

from collections import Counter
from collections.abc import Callable

import pytest

from untold.alignment.model_links import align_pairs
from untold.checking.checker import Checker
from untold.checking.segments import Segment
from untold.corpus.tokenizer import SentencePieceTokenizer
from untold.embedded import embedded_model
from untold.explain.explanation import explain
from untold.models.seq2seq import Seq2Seq
from untold.translator import Translator, load

PAIR = ("The child reads a book .", "Das Kind liest .")


def check(translator: Translator) -> None:
    Checker(translator.models, 4096).check([Segment("x.tsv", 1, *PAIR)])


def explain_given(translator: Translator) -> None:
    (explanation,) = explain(translator, [PAIR[0]], [PAIR[1]])
    assert explanation.as_record()["links"] and explanation.untold


def explain_given_by_two(translator: Translator) -> None:
    """Each model of an ensemble runs once; one of them also reads the pair."""
    explain_given(Translator([*translator.models, *translator.models]))


def explain_own(translator: Translator) -> None:
    (explanation,) = explain(translator, [PAIR[0]])
    assert explanation.as_record()["links"]


def link(translator: Translator) -> None:
    align_pairs(translator.models[0], [PAIR])


def score(translator: Translator) -> None:
    translator.score([PAIR])


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load(embedded_model())


@pytest.mark.parametrize(
    ("run", "passes", "texts"),
    [
        (check, 1, 2),
        (explain_given, 1, 2),
        (explain_given_by_two, 2, 2),
        (explain_own, 1, 1),  # the search takes steps; then its translation is read
        (link, 1, 2),
        (score, 1, 2),
    ],
)
def test_passes_and_encoded_texts(
    translator: Translator,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[[Translator], None],
    passes: int,
    texts: int,
) -> None:
    counts: Counter[str] = Counter()
    forward, encode = Seq2Seq.forward, SentencePieceTokenizer.encode

    def counted_forward(self, *given, **settings):
        counts["passes"] += 1
        return forward(self, *given, **settings)

    def counted_encode(self, lines):
        counts["texts"] += len(lines)
        return encode(self, lines)

    monkeypatch.setattr(Seq2Seq, "forward", counted_forward)
    monkeypatch.setattr(SentencePieceTokenizer, "encode", counted_encode)
    run(translator)
    assert counts == {"passes": passes, "texts": texts}
