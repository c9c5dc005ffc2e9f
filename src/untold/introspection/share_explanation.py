"""Explains a translation by the shares of its source words before each target word."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from untold.account.judgement import judge_pair
from untold.account.model_links import WordLink, link_displayed_words
from untold.account.pair_account import AccountReader
from untold.account.word_figures import merge_assignments
from untold.categories import FUTURE, PAST
from untold.config import DataConfig
from untold.corpus.alignments import Alignment
from untold.corpus.word_spans import display_spans
from untold.errors import UntoldError
from untold.introspection.copies import Copy, copied_words, copy_records, find_copies
from untold.introspection.pfrnn_states import PfrnnStates, has_pfrnn_states, states_of_pieces
from untold.introspection.sentence_sides import END, Side, side_records, sides_of
from untold.translator import Translation, Translator

__all__ = [
    "LIKELY",
    "Flip",
    "ShareExplanation",
    "explain_shares",
    "explain_translations",
    "explanation_of",
    "find_flips",
]

LIKELY = 0.5  # a word is marked as untold or added from this probability on

Pieces = tuple[Sequence[str], Sequence[str]]  # of a source and of its target


@dataclass(frozen=True)
class Flip:
    """A source word that became more past than future when this target word was produced."""

    source: int
    target: int


@dataclass(frozen=True, eq=False)  # numpy arrays cannot be compared for equality by `==`
class ShareExplanation:
    """The shares of every source word before each target word and, in the last row, the end."""

    kind: ClassVar[str] = "shares"

    source: Side
    target: Side
    shares: Float[np.ndarray, "t i g"]
    ending: Float[np.ndarray, "t g"]  # the shares of the source's EOS
    score: float
    log_probability: float
    given: bool = False  # the user gave the target; the model did not search for it
    copying: Float[np.ndarray, "t i"] | None = None  # how much of each word was copied from where
    copies: tuple[Copy, ...] = ()  # the target words that were copied
    pfrnn: PfrnnStates | None = None  # for a PFRNN that has a separator as well
    # Probabilities that each source word is untold at the end, and that nothing in the source
    # explains each target word; None if the model is not calibrated.
    untold: tuple[float, ...] | None = None
    added: tuple[float, ...] | None = None
    links: tuple[WordLink, ...] = ()  # which target word tells which source word
    gold: Alignment | None = None  # links that people made, to be shown beside the model's
    system: str = ""  # whose explanation it is, where there are two
    against: "ShareExplanation | None" = None  # what another system makes of the same source

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
            **side_records(self.source, self.target, given=self.given),
            "score": self.score,
            "log_probability": self.log_probability,
            "shares": _rounded(self.shares),
            "source_end": _rounded(self.ending),
            "flips": [vars(flip) for flip in self.flips],
            **copy_records(self.copying, self.copies),
            "layers": None if self.pfrnn is None else self.pfrnn.as_record(),
            "untold": None if self.untold is None else _rounded(np.array(self.untold)),
            "added": None if self.added is None else _rounded(np.array(self.added)),
            "links": [asdict(link) for link in self.links],
            "gold_links": _gold_records(self.gold),
            "system": self.system,
            "against": None if self.against is None else self.against.as_record(),
        }


def find_flips(shares: Float[np.ndarray, "t i g"]) -> tuple[Flip, ...]:
    """Finds where past overtakes future from one row to the next; a word may flip repeatedly."""
    past = shares[:, :, PAST] > shares[:, :, FUTURE]
    rows, words = np.nonzero(past[1:] & ~past[:-1])
    return tuple(Flip(int(word), int(row)) for row, word in zip(rows, words, strict=True))


def explain_shares(
    translator: Translator, sources: Sequence[str], targets: Sequence[str] = ()
) -> list[ShareExplanation]:
    """Explains the model's own translation of each source, or the given targets."""
    # With targets this translates nothing, but it raises if the model has no assignments.
    translations = translator.translate([] if targets else sources, assignments=True)
    if targets:
        translations = translator.score(list(zip(sources, targets, strict=True)))
    return explain_translations(translator, sources, translations, given=bool(targets))


def explain_translations(
    translator: Translator,
    sources: Sequence[str],
    translations: Sequence[Translation],
    *,
    given: bool = False,
) -> list[ShareExplanation]:
    """Explains translations that have assignments, one of each source."""
    found = [
        explanation_of(translation, source, translator.data, given=given)
        for source, translation in zip(sources, translations, strict=True)
    ]
    pieces = [(each.source_tokens, each.tokens) for each in translations]
    found = _judge(translator, found, pieces)
    first, *others = translator.models
    if others or not has_pfrnn_states(first):
        return found
    states = states_of_pieces(first, pieces)
    return [replace(each, pfrnn=own) for each, own in zip(found, states, strict=True)]


def explanation_of(
    translation: Translation, source: str, data: DataConfig, *, given: bool = False
) -> ShareExplanation:
    """Explains one translation that has assignments; merges its pieces into words."""
    sides = sides_of(translation, source, data)
    if translation.assignments is None:
        raise UntoldError(
            f"no assignments for {source[:40]!r}: they need a model that separates past and future "
            f"and a text of at most {data.max_tokens} pieces (data.max_tokens)"
        )
    source_spans = display_spans(translation.source_tokens)
    target_spans = display_spans(translation.tokens)
    rows = [*(span.start for span in target_spans), len(translation.assignments) - 1]
    return ShareExplanation(
        *sides,
        merge_assignments(translation.assignments, target_spans, source_spans),
        translation.assignments[rows, -1],
        translation.score,
        translation.log_probability,
        given,
        copied_words(translation),
        find_copies(translation),
    )


def _judge(
    translator: Translator, explanations: list[ShareExplanation], pieces: Sequence[Pieces]
) -> list[ShareExplanation]:
    """Adds links and, if the model is calibrated, probabilities.

    Of several models the first that is calibrated is asked, or else the first that can be.
    """
    able = [trained for trained in translator.models if trained.model.past_future is not None]
    if not able:
        return explanations
    trained = next((each for each in able if each.calibration is not None), able[0])
    accounts = AccountReader(trained, translator.decode.batch_tokens).read_pieces(pieces)
    found = [
        replace(each, links=link_displayed_words(account))
        for each, account in zip(explanations, accounts, strict=True)
    ]
    if trained.calibration is None:
        return found
    judged = [judge_pair(account, trained.calibration) for account in accounts]
    return [
        replace(each, untold=judgement.omission[0], added=judgement.addition[0])
        for each, judgement in zip(found, judged, strict=True)
    ]


def _gold_records(gold: Alignment | None) -> list[dict[str, Any]] | None:
    if gold is None:
        return None
    links = sorted(gold.possible)
    return [{"source": i, "target": t, "sure": (i, t) in gold.sure} for i, t in links]


def _rounded(values: np.ndarray) -> list[Any]:
    return values.astype(np.float64).round(6).tolist()
