"""The two texts of an explanation and their words as they are displayed.

Finds the words that a model with a copy mechanism has copied, and their origin.

`Translation.copying` is the probability of copying each source piece, whatever piece is produced. A
piece that was produced can only be a copy of the same piece in the source, so that only these
places count here.

Reads the states of the past and future layers of a PFRNN while it reads a target.

Explains a translation by the shares of its source words before each target word.

Explains a translation of a PFRNN without a separator by the states of its two layers.

Explains translations of any model that can be explained.

A model with past and future (a separator) is explained by the shares of its source words. A PFRNN
without a separator is explained by the states of its past and future layers.

Puts beside an explanation what another system makes of the sentence, or links by people.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float

from untold.alignment.model_links import WordLink, link_displayed_words
from untold.checking.evidence import merge_assignments, merge_copying
from untold.checking.judgement import judge_pair
from untold.config import DataConfig
from untold.corpus.alignments import Alignment, check_alignments, read_alignments
from untold.corpus.words import Span, display_spans, span_text, word_spans
from untold.decoding.scoring import AccountReader
from untold.errors import UntoldError, shorten
from untold.models.backbone import as_inspectable
from untold.models.signals import FUTURE, PAST
from untold.storage.model_directory import TrainedModel
from untold.translator import Translation, Translator

END = "(end)"  # displayed for EOS


@dataclass(frozen=True)
class Side:
    """A text and its words as they are displayed. The language is empty if it is unknown."""

    text: str
    words: tuple[str, ...]
    language: str = ""


def sides_of(translation: Translation, source: str, data: DataConfig) -> tuple[Side, Side]:
    """Makes both sides of a translation; merges pieces into words."""
    if not source.strip():
        raise UntoldError("the source is blank: there is nothing to explain")
    source_words = displayed_words(source, translation.source_tokens)
    target_words = displayed_words(translation.text, translation.tokens)
    return (
        Side(source, source_words, _language(data, "source_language")),
        Side(translation.text, target_words, _language(data, "target_language")),
    )


def side_records(source: Side, target: Side, *, given: bool) -> dict[str, Any]:
    """Converts both sides for JSON; `given` says that the user gave the target."""
    return {"source": _record(source), "target": _record(target) | {"given": given}}


def displayed_words(text: str, pieces: Sequence[str]) -> tuple[str, ...]:
    """Takes whole words from the text, which may have unknown characters, and parts from pieces."""
    whole, written = word_spans(pieces), [word for word in text.split(" ") if word]
    known: dict[Span, str] = {}
    if len(whole) == len(written):
        known = dict(zip(whole, written, strict=True))
    return tuple(known.get(span) or span_text(pieces, span) for span in display_spans(pieces))


def _language(data: DataConfig, field: str) -> str:
    """Returns the configured language, or nothing if it is only the default name."""
    language = getattr(data, field)
    return "" if language == DataConfig.model_fields[field].default else language


def _record(side: Side) -> dict[str, Any]:
    return {"text": side.text, "language": side.language, "words": list(side.words)}


_MOSTLY = 0.5  # a word with a lower probability may as well have been generated


@dataclass(frozen=True)
class Copy:
    """A target word that was copied, and the source word that most of it was copied from."""

    target: int
    source: int
    probability: float  # of copying it from any place; the mean over the pieces of the word


def copy_probabilities(translation: Translation) -> Float[np.ndarray, "t i"] | None:
    """Returns the probability that each piece is a copy of each source piece.

    The result is None if the model does not copy. Rows and columns are those of
    `Translation.copying`; EOS is never copied.
    """
    if translation.copying is None:
        return None
    same: Bool[np.ndarray, "t i"] = np.zeros(translation.copying.shape, dtype=bool)
    for place, piece in enumerate(translation.tokens):
        same[place, :-1] = [piece == other for other in translation.source_tokens]
    return np.where(same, translation.copying, 0)


def find_copies(translation: Translation) -> tuple[Copy, ...]:
    """Finds the copied words in the order of the target; counts words as they are displayed."""
    weights = copy_probabilities(translation)
    if weights is None:
        return ()
    rows = _merge(weights, translation)[:-1]
    return tuple(
        Copy(place, int(row.argmax()), round(float(row.sum()), 6))
        for place, row in enumerate(rows)
        if row.sum() > _MOSTLY
    )


def copied_words(translation: Translation) -> Float[np.ndarray, "t i"] | None:
    """Merges the pieces of `Translation.copying` into words; the last row is that of EOS."""
    return None if translation.copying is None else _merge(translation.copying, translation)


def copy_records(
    copying: Float[np.ndarray, "t i"] | None, copies: tuple[Copy, ...]
) -> dict[str, Any]:
    """Converts both for JSON, in the layout of docs/explain.md."""
    numbers = None if copying is None else copying.astype(np.float64).round(6).tolist()
    return {"copying": numbers, "copies": [asdict(each) for each in copies]}


def _merge(
    weights: Float[np.ndarray, "t i"], translation: Translation
) -> Float[np.ndarray, "words_t words_i"]:
    target, source = (display_spans(s) for s in (translation.tokens, translation.source_tokens))
    return merge_copying(weights, target, source)


@dataclass(frozen=True, eq=False)  # numpy arrays cannot be compared for equality by `==`
class PfrnnStates:
    """The states of both layers after each target piece and, last, after EOS."""

    pieces: tuple[str, ...]
    past: Float[np.ndarray, "t h"]
    future: Float[np.ndarray, "t h"]
    # The likeliest pieces by the heads of the layers' losses: the piece that a step added to the
    # past and the one that it took from the future. A well-trained model predicts the piece itself.
    added: tuple[str, ...]
    taken: tuple[str, ...]

    def norms(self) -> dict[str, Float[np.ndarray, " t"]]:
        """Returns the Euclidean norms of the states of each layer."""
        return {name: np.linalg.norm(states, axis=1) for name, states in self._by_layer().items()}

    def cosines(self) -> dict[str, Float[np.ndarray, "t t"]]:
        """Returns the cosines of all pairs of states of each layer; 0 if a state is zero."""
        found = {}
        for name, states in self._by_layer().items():
            lengths = np.linalg.norm(states, axis=1, keepdims=True)
            units = states / np.where(lengths > 0, lengths, 1)
            found[name] = units @ units.T
        return found

    def as_record(self) -> dict[str, Any]:
        """Converts the pieces, norms and cosines for JSON; the states are left out."""
        words = {"pieces": self.pieces, "added": self.added, "taken": self.taken}
        record: dict[str, Any] = {name: list(values) for name, values in words.items()}
        for kind, figures in (("norms", self.norms()), ("cosines", self.cosines())):
            for name, values in figures.items():
                record[f"{name}_{kind}"] = values.astype(np.float64).round(6).tolist()
        return record

    def _by_layer(self) -> dict[str, Float[np.ndarray, "t h"]]:
        return {"past": self.past, "future": self.future}


def has_pfrnn_states(trained: TrainedModel) -> bool:
    """Says if the backbone has past and future layers."""
    return as_inspectable(trained.model.backbone) is not None


def pfrnn_states(trained: TrainedModel, pairs: Sequence[tuple[str, str]]) -> list[PfrnnStates]:
    """Reads the states for each source text and its given translation."""
    return _all_states(trained, trained.codec.encode_pairs(pairs))


def states_of_pieces(
    trained: TrainedModel, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> list[PfrnnStates]:
    """Reads the states for pairs in pieces; a search may cut words unlike the tokenizer."""
    of_source, of_target = trained.tokenizers.source.ids, trained.tokenizers.target.ids
    return _all_states(
        trained, [(of_source(source), of_target(target)) for source, target in pairs]
    )


@torch.inference_mode()
def _all_states(
    trained: TrainedModel, pairs: Sequence[tuple[list[int], list[int]]]
) -> list[PfrnnStates]:
    if not has_pfrnn_states(trained):
        raise UntoldError(
            f"the backbone {trained.config.model.backbone} has no past and future layers: train "
            'one with model.backbone = "pfrnn"'
        )
    return [_states(trained, source, target) for source, target in pairs]


def _states(trained: TrainedModel, source: list[int], target: list[int]) -> PfrnnStates:
    model = trained.model
    batch = trained.codec.batch([(source, target)], [0])
    timeline = model(batch.source, batch.source_mask, batch.prefix).inner_states
    past, future = timeline.after[0].float().cpu().numpy().transpose(1, 0, 2)
    backbone = as_inspectable(model.backbone)
    guesses = {} if backbone is None else backbone.guesses(timeline)
    best = {name: model.logits(guess[0]).argmax(-1).tolist() for name, guess in guesses.items()}
    eos = batch.special.eos
    pieces, added, taken = (
        _displayed(trained, ids) for ids in ([*target, eos], best["past"], best["future"])
    )
    return PfrnnStates(pieces, past, future, added, taken)


def _displayed(trained: TrainedModel, ids: list[int]) -> tuple[str, ...]:
    tokenizer = trained.tokenizers.target
    eos, pieces = tokenizer.special_ids.eos, tokenizer.pieces(ids)
    return tuple(END if i == eos else piece for i, piece in zip(ids, pieces, strict=True))


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


@dataclass(frozen=True, eq=False)  # numpy arrays cannot be compared for equality by `==`
class PfrnnExplanation:
    """The states of the past and future layers after each target piece and, last, after EOS."""

    kind: ClassVar[str] = "pfrnn"

    source: Side
    target: Side
    pfrnn: PfrnnStates
    score: float
    log_probability: float
    given: bool = False  # the user gave the target; the model did not search for it
    copying: Float[np.ndarray, "t i"] | None = None  # how much of each word was copied from where
    copies: tuple[Copy, ...] = ()  # the target words that were copied

    def as_record(self) -> dict[str, Any]:
        """Converts all fields for JSON, in the layout of docs/explain.md."""
        return {
            **side_records(self.source, self.target, given=self.given),
            "score": self.score,
            "log_probability": self.log_probability,
            **copy_records(self.copying, self.copies),
            "layers": self.pfrnn.as_record(),
        }


def explain_pfrnn(
    translator: Translator, sources: Sequence[str], targets: Sequence[str] = ()
) -> list[PfrnnExplanation]:
    """Explains the model's own translation of each source, or the given targets."""
    if targets:
        translations = translator.score(list(zip(sources, targets, strict=True)))
    else:
        translations = list(translator.stream(sources, copying=True))
        for source, translation in zip(sources, translations, strict=True):
            _refuse_long_text(source, translation, translator.data)
    pairs = [(each.source_tokens, each.tokens) for each in translations]
    states = states_of_pieces(translator.models[0], pairs)
    return [
        PfrnnExplanation(
            *sides_of(translation, source, translator.data),
            own,
            translation.score,
            translation.log_probability,
            bool(targets),
            copied_words(translation),
            find_copies(translation),
        )
        for source, translation, own in zip(sources, translations, states, strict=True)
    ]


def _refuse_long_text(source: str, translation: Translation, data: DataConfig) -> None:
    """Refuses a text that was translated in stretches: the model never saw it as a whole."""
    if len(translation.source_tokens) > data.max_tokens:
        raise UntoldError(
            f"{source[:40]!r} has {len(translation.source_tokens)} pieces and is translated in "
            f"stretches: explain a text of at most {data.max_tokens} (data.max_tokens)"
        )


Explanation: TypeAlias = ShareExplanation | PfrnnExplanation


def explain(
    translator: Translator, sources: Sequence[str], targets: Sequence[str] = ()
) -> list[Explanation]:
    """Explains the model's own translation of each source, or the given targets, one for each."""
    if targets and len(targets) != len(sources):
        raise UntoldError(f"{len(sources)} sources but {len(targets)} targets: give one each")
    if explanation_kind(translator) == PfrnnExplanation.kind:
        return [*explain_pfrnn(translator, sources, targets)]
    return [*explain_shares(translator, sources, targets)]


def explanation_kind(translator: Translator) -> str:
    """Returns the `kind` of the explanations that `explain` gives for this translator."""
    first, *others = translator.models
    is_pfrnn_alone = not others and has_pfrnn_states(first) and first.model.past_future is None
    return PfrnnExplanation.kind if is_pfrnn_alone else ShareExplanation.kind


def beside_another(
    explanations: Sequence[Explanation], others: Sequence[Explanation], names: tuple[str, str]
) -> list[ShareExplanation]:
    """Pairs the explanations of two systems, which have these names, sentence by sentence."""
    found = []
    for one, other in zip(explanations, others, strict=True):
        if not isinstance(one, ShareExplanation) or not isinstance(other, ShareExplanation):
            raise UntoldError(
                "two systems stand side by side only if both separate past and future: "
                'train them with model.separator.kind = "gdr"'
            )
        beside = replace(other, system=names[1])
        found.append(replace(one, system=names[0], against=beside))
    return found


def with_gold_links(explanations: Sequence[Explanation], path: Path) -> list[ShareExplanation]:
    """Adds the links of a file in Pharaoh format, a line for each sentence, to explanations.

    Links count words between blanks, so texts that are shown in other words are refused.
    """
    found = [each for each in explanations if isinstance(each, ShareExplanation)]
    if len(found) < len(explanations):
        raise UntoldError(
            f"{path}: links are shown beside past and future, which this model does not separate: "
            "leave out --alignments"
        )
    for each in found:
        for side in (each.source, each.target):
            if list(side.words) != side.text.split():
                raise UntoldError(
                    f"{path}: {shorten(side.text)!r} is shown as {len(side.words)} words, but "
                    f"links count its {len(side.text.split())} words between blanks: write "
                    "blanks between its words, or leave out --alignments"
                )
    gold = read_alignments(path)
    check_alignments(path, gold, [(each.source.words, each.target.words) for each in found])
    return [replace(each, gold=links) for each, links in zip(found, gold, strict=True)]
