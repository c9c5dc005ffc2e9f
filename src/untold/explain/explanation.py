"""Explains translations by the shares of their source words before each target word.

A model that separates past and future has such shares. If it is calibrated, it also says how
probable it is that a word is untold or added; if it copies, which words it has copied.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from untold.alignment.model_links import WordLink, link_displayed_words
from untold.checking.evidence import judge_pair
from untold.config import DataConfig
from untold.corpus.alignments import Alignment, check_alignments, read_alignments
from untold.corpus.words import Word, merge_assignments, merge_copying, word_steps
from untold.decoding.scoring import CANNOT_TELL, PairReader, ReadPair
from untold.errors import UntoldError, shorten
from untold.models.signals import FUTURE, PAST
from untold.storage.model_directory import TrainedModel
from untold.translator import Translation, Translator

END = "(end)"  # displayed for EOS
LIKELY = 0.5  # a word is marked as untold or added from this probability on
_MOSTLY = 0.5  # a word with a lower probability may as well have been generated


@dataclass(frozen=True)
class Side:
    """A text and its words as they are displayed. The language is empty if it is unknown."""

    text: str
    words: tuple[str, ...]
    language: str = ""

    def as_record(self) -> dict[str, Any]:
        """Converts all fields for JSON."""
        return {"text": self.text, "language": self.language, "words": list(self.words)}


@dataclass(frozen=True)
class Copy:
    """A target word that was copied, and the source word that most of it was copied from."""

    target: int
    source: int
    probability: float  # of copying it from any place; the mean over the pieces of the word


@dataclass(frozen=True)
class Flip:
    """A source word that became more past than future when this target word was produced."""

    source: int
    target: int


@dataclass(frozen=True, eq=False)  # numpy arrays cannot be compared for equality by `==`
class Explanation:
    """The shares of every source word before each target word and, in the last row, the end."""

    source: Side
    target: Side
    shares: Float[np.ndarray, "t i g"]
    ending: Float[np.ndarray, "t g"]  # the shares of the source's EOS
    score: float
    log_probability: float
    given: bool = False  # the user gave the target; the model did not search for it
    copying: Float[np.ndarray, "t i"] | None = None  # how much of each word was copied from where
    copies: tuple[Copy, ...] = ()  # the target words that were copied
    # Probabilities that each source word is untold at the end, and that nothing in the source
    # explains each target word; None if the model is not calibrated.
    untold: tuple[float, ...] | None = None
    added: tuple[float, ...] | None = None
    links: tuple[WordLink, ...] = ()  # which target word tells which source word
    gold: Alignment | None = None  # links that people made, to be shown beside the model's
    system: str = ""  # whose explanation it is, where there are two
    against: "Explanation | None" = None  # what another system makes of the same source

    @property
    def steps(self) -> tuple[str, ...]:
        """The word that comes next at each row of the shares: the target words and the end."""
        return (*self.target.words, END)

    @property
    def flips(self) -> tuple[Flip, ...]:
        """All flips in the order of the target."""
        return find_flips(self.shares)

    def as_record(self) -> dict[str, Any]:
        """Converts all fields for JSON, in the layout of docs/explain.md."""
        return {
            "source": self.source.as_record(),
            "target": self.target.as_record() | {"given": self.given},
            "score": self.score,
            "log_probability": self.log_probability,
            "shares": _rounded(self.shares),
            "source_end": _rounded(self.ending),
            "flips": [vars(flip) for flip in self.flips],
            "copying": None if self.copying is None else _rounded(self.copying),
            "copies": [asdict(copy) for copy in self.copies],
            "untold": None if self.untold is None else _rounded(np.array(self.untold)),
            "added": None if self.added is None else _rounded(np.array(self.added)),
            "links": [asdict(link) for link in self.links],
            "gold_links": _gold_records(self.gold),
            "system": self.system,
            "against": None if self.against is None else self.against.as_record(),
        }


def explain(
    translator: Translator, sources: Sequence[str], targets: Sequence[str] = ()
) -> list[Explanation]:
    """Explains the model's own translation of each source, or the given targets, one for each.

    A given pair is encoded once and costs one pass of the model.
    """
    if targets and len(targets) != len(sources):
        raise UntoldError(f"{len(sources)} sources but {len(targets)} targets: give one each")
    trained = _reading_model(translator)
    for source in sources:
        _refuse_blank(source)
    if not targets:
        translations = translator.translate(sources, assignments=True)
        return explain_translations(translator, sources, translations)
    reader = PairReader(trained, translator.decode.batch_tokens)
    scored = translator.read(list(zip(sources, targets, strict=True)), reader)
    return [
        _explain(translation, pair, trained, translator.data, given=True)
        for translation, pair in scored
        if pair is not None
    ]


def explain_translations(
    translator: Translator, sources: Sequence[str], translations: Sequence[Translation]
) -> list[Explanation]:
    """Explains translations that a search has found with their assignments, one of each source."""
    trained = _reading_model(translator)
    for source, translation in zip(sources, translations, strict=True):
        _refuse_blank(source)
        _refuse_divided(source, translation, translator.data)
    reader = PairReader(trained, translator.decode.batch_tokens)
    targets = [translation.text for translation in translations]
    texts = list(zip(sources, targets, strict=True))
    pieces = [(translation.source_tokens, translation.tokens) for translation in translations]
    pairs = reader.read(reader.encode_pieces(texts, pieces))
    return [
        _explain(translation, pair, trained, translator.data, given=False)
        for translation, pair in zip(translations, pairs, strict=True)
    ]


def find_flips(shares: Float[np.ndarray, "t i g"]) -> tuple[Flip, ...]:
    """Finds where past overtakes future from one row to the next; a word may flip repeatedly."""
    past = shares[:, :, PAST] > shares[:, :, FUTURE]
    rows, words = np.nonzero(past[1:] & ~past[:-1])
    return tuple(Flip(int(word), int(row)) for row, word in zip(rows, words, strict=True))


def copy_probabilities(translation: Translation) -> Float[np.ndarray, "t i"] | None:
    """Returns the probability that each piece is a copy of each source piece.

    `Translation.copying` is the probability of copying a source piece whatever is produced; but a
    piece can only be a copy of the same piece in the source. The result is None if the model does
    not copy. EOS, in the last row and column, is never copied.
    """
    if translation.copying is None:
        return None
    same: Bool[np.ndarray, "t i"] = np.zeros(translation.copying.shape, dtype=bool)
    for place, piece in enumerate(translation.tokens):
        same[place, :-1] = [piece == other for other in translation.source_tokens]
    return np.where(same, translation.copying, 0)


def beside_another(
    explanations: Sequence[Explanation], others: Sequence[Explanation], names: tuple[str, str]
) -> list[Explanation]:
    """Pairs the explanations of two systems, which have these names, sentence by sentence."""
    return [
        replace(one, system=names[0], against=replace(other, system=names[1]))
        for one, other in zip(explanations, others, strict=True)
    ]


def with_gold_links(explanations: Sequence[Explanation], path: Path) -> list[Explanation]:
    """Adds the links of a file in Pharaoh format, a line for each sentence, to explanations.

    Links count words between blanks, so texts that are shown in other words are refused.
    """
    for explanation in explanations:
        for side in (explanation.source, explanation.target):
            if list(side.words) != side.text.split():
                raise UntoldError(
                    f"{path}: {shorten(side.text)!r} is shown as {len(side.words)} words, but "
                    f"links count its {len(side.text.split())} words between blanks: write "
                    "blanks between its words, or leave out --alignments"
                )
    gold = read_alignments(path)
    words = [(shown.source.words, shown.target.words) for shown in explanations]
    check_alignments(path, gold, words)
    return [replace(shown, gold=links) for shown, links in zip(explanations, gold, strict=True)]


def _reading_model(translator: Translator) -> TrainedModel:
    """Takes the first calibrated model that separates past and future, or the first that does."""
    separating = [one for one in translator.models if one.model.past_future is not None]
    if not separating:
        raise UntoldError(CANNOT_TELL)
    return next((one for one in separating if one.calibration is not None), separating[0])


def _refuse_blank(source: str) -> None:
    if not source.strip():
        raise UntoldError("the source is blank: there is nothing to explain")


def _refuse_divided(source: str, translation: Translation, data: DataConfig) -> None:
    if translation.assignments is None:
        raise UntoldError(
            f"no assignments for {source[:40]!r}: they need a model that separates past and future "
            f"and a text of at most {data.max_tokens} pieces (data.max_tokens)"
        )


def _explain(
    translation: Translation,
    pair: ReadPair,
    trained: TrainedModel,
    data: DataConfig,
    *,
    given: bool,
) -> Explanation:
    """Joins what a translation says of itself to what a model has read of the pair."""
    explanation = explanation_of(translation, pair, data, given=given)
    if trained.calibration is None:
        return explanation
    judged = judge_pair(pair, trained.calibration)
    return replace(explanation, untold=judged.omission[0], added=judged.addition[0])


def explanation_of(
    translation: Translation, pair: ReadPair, data: DataConfig, *, given: bool = False
) -> Explanation:
    """Explains a translation that has assignments by words, without probabilities."""
    assert translation.assignments is not None
    source, target = pair.source_words, pair.target_words
    steps = word_steps(target, len(translation.assignments))
    return Explanation(
        _side(pair.texts[0], source, data, "source_language"),
        _side(pair.texts[1], target, data, "target_language"),
        merge_assignments(translation.assignments, target, source),
        translation.assignments[steps, -1],
        translation.score,
        translation.log_probability,
        given,
        None if translation.copying is None else merge_copying(translation.copying, target, source),
        find_copies(translation, pair),
        links=link_displayed_words(pair),
    )


def find_copies(translation: Translation, pair: ReadPair) -> tuple[Copy, ...]:
    """Finds the copied words in the order of the target; counts words as they are displayed."""
    weights = copy_probabilities(translation)
    if weights is None:
        return ()
    rows = merge_copying(weights, pair.target_words, pair.source_words)[:-1]
    return tuple(
        Copy(place, int(row.argmax()), round(float(row.sum()), 6))
        for place, row in enumerate(rows)
        if row.sum() > _MOSTLY
    )


def _side(text: str, words: Sequence[Word], data: DataConfig, language: str) -> Side:
    """Names the language that is configured, but not the default, which says nothing."""
    name = getattr(data, language)
    default = DataConfig.model_fields[language].default
    return Side(text, tuple(word.text for word in words), "" if name == default else name)


def _gold_records(gold: Alignment | None) -> list[dict[str, Any]] | None:
    if gold is None:
        return None
    links = sorted(gold.possible)
    return [{"source": i, "target": t, "sure": (i, t) in gold.sure} for i, t in links]


def _rounded(values: np.ndarray) -> list[Any]:
    return values.astype(np.float64).round(6).tolist()
