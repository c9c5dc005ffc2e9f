"""Word alignments of a model that separates past and future: no aligner is trained for them.

The account of a pair (pair_account.py) says when each source word was told, so it says which target
word told it. There are three ways to read that:

links        where the links of source words and the origins of target words lead, symmetrised
flips        the target word after which a source word turns to past
assignments  every target word while which PAST of a source word rises

Words stand between blanks, and links count them from 0.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from untold.alignment.aligners import looks_unsegmented
from untold.checking.evidence import merge_assignments
from untold.corpus.alignments import Alignment
from untold.corpus.words import Span, display_spans, word_spans
from untold.decoding.scoring import AccountReader, PairAccount
from untold.errors import UntoldError
from untold.models.signals import FUTURE, PAST, REDUNDANT
from untold.storage.model_directory import TrainedModel

_PAIRS_AT_ONCE = 500  # whose accounts are in memory together
_LEAST = 0.3  # links, origins and rises that are not above it do not count

Link = tuple[int, int]  # source word, target word
Links = frozenset[Link]


@dataclass(frozen=True)
class Unlinked:
    """Says why a pair has no alignment: `kind` in few words, and `reason` with a cure."""

    kind: str
    reason: str


@dataclass(frozen=True)
class WordLink:
    """Links two words as they are displayed; `probability` is that of the surer direction."""

    source: int
    target: int
    probability: float


class LinkReader:
    """Aligns pairs with one model, in batches."""

    def __init__(self, trained: TrainedModel, by: str = "links", batch_tokens: int = 4096) -> None:
        if by not in WAYS:
            raise UntoldError(f"{by!r} is no way to link words; known: {', '.join(WAYS)}")
        self.reader = AccountReader(trained, batch_tokens)
        self.longest = max(batch_tokens, trained.config.data.max_tokens + 1)
        self._way = WAYS[by]

    def align(
        self, pairs: Sequence[tuple[str, str]], advance: Callable[[int], object] | None = None
    ) -> Iterator[Alignment | Unlinked]:
        """Yields the links of each pair, in order; a pair with a blank side has none.

        `advance` hears how many more pairs were read after every batch.
        """
        if reason := _why_unsegmented(pairs):
            yield from (reason for _ in pairs)
            return
        for first in range(0, len(pairs), _PAIRS_AT_ONCE):
            yield from self._align_group(pairs[first : first + _PAIRS_AT_ONCE], advance)

    def _align_group(
        self, pairs: Sequence[tuple[str, str]], advance: Callable[[int], object] | None
    ) -> list[Alignment | Unlinked]:
        nothing = Alignment(frozenset(), frozenset())
        found: list[Alignment | Unlinked] = [nothing for _ in pairs]
        lengths = [max(map(len, ids)) + 1 for ids in self.reader.codec.encode_pairs(pairs)]
        places = []
        for place, (pair, length) in enumerate(zip(pairs, lengths, strict=True)):
            if length > self.longest:
                found[place] = self._too_long(length)
            elif all(side.strip() for side in pair):
                places.append(place)
        if advance is not None:
            advance(len(pairs) - len(places))
        accounts = self.reader.read([pairs[place] for place in places], advance)
        for place, account in zip(places, accounts, strict=True):
            found[place] = self._align_account(pairs[place], account)
        return found

    def _too_long(self, length: int) -> Unlinked:
        reason = f"a side has {length:,} pieces, and at most {self.longest:,} are read: divide it"
        return Unlinked("too long", reason)

    def _align_account(self, pair: tuple[str, str], account: PairAccount) -> Alignment | Unlinked:
        source, target = word_spans(account.source), word_spans(account.target)
        for text, spans in zip(pair, (source, target), strict=True):
            if len(text.split()) != len(spans):
                return Unlinked(
                    "other words",
                    f"{' '.join(text.split())[:80]!r} has {len(text.split())} words, but "
                    f"{len(spans)} for the tokenizer: links need text whose words stand between "
                    "single blanks",
                )
        links = self._way(account, source, target)
        return Alignment(links, links)


def align_pairs(
    trained: TrainedModel, pairs: Sequence[tuple[str, str]], by: str = "links"
) -> list[Alignment]:
    """Aligns each pair of texts by a model; raises an error that names the first that it cannot."""
    found = []
    for number, each in enumerate(LinkReader(trained, by).align(pairs), start=1):
        if isinstance(each, Unlinked):
            raise UntoldError(f"pair {number}: {each.reason}")
        found.append(each)
    return found


def link_displayed_words(account: PairAccount) -> tuple[WordLink, ...]:
    """Links the words of a pair as they are displayed, in the order of the source."""
    source, target = display_spans(account.source), display_spans(account.target)
    if not source or not target:
        return ()
    surer = np.maximum(
        _of_words(account.links, target, source), _of_words(account.origins, target, source)
    )
    links = sorted(_by_links(account, source, target))
    return tuple(WordLink(i, t, round(float(surer[t, i]), 6)) for i, t in links)


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """Joins the links that two directions found: more than their intersection, less than all.

    Links that both found are kept. Then those of either direction that touch a kept one, also
    diagonally, are added if their source word or their target word has no link yet, round by round
    until none is left. At last those are added whose words both have no link. All links of a round
    are judged before any is added, so that neither their order nor that of the sides matters.
    """
    union, found = forward | backward, forward & backward
    while True:
        sources, targets = {i for i, _ in found}, {j for _, j in found}
        free = [(i, j) for i, j in union - found if i not in sources or j not in targets]
        new = {link for link in free if _touches(link, found)}
        if not new:
            return found | {(i, j) for i, j in free if i not in sources and j not in targets}
        found |= new


def turning_links(shares: Float[np.ndarray, "t1 i 3"]) -> Links:
    """Links each word to the target word after which it turns, unless it is mostly redundant."""
    redundant = shares[..., REDUNDANT].mean(0) > 0.5
    return frozenset(
        (i, int(flip) - 1)
        for i, flip in enumerate(flip_steps(shares))
        if not redundant[i] and 0 < flip < len(shares)
    )


def flip_steps(shares: Float[np.ndarray, "t1 i 3"]) -> Int[np.ndarray, " i"]:
    """Finds the step at which each word turns from future to past.

    A change at this step fits P - F best. At 0 the word is always past, at t1 never.
    """
    gain = shares[..., PAST] - shares[..., FUTURE]
    after = np.concatenate([np.cumsum(gain[::-1], 0)[::-1], np.zeros((1, gain.shape[1]))])
    before = np.concatenate([np.zeros((1, gain.shape[1])), np.cumsum(gain, 0)])
    return np.argmax(after - before, axis=0)


def _by_links(account: PairAccount, source: Sequence[Span], target: Sequence[Span]) -> Links:
    links = _of_words(account.links, target, source)
    origins = _of_words(account.origins, target, source)
    forward = {(i, int(links[:, i].argmax())) for i in range(len(source))}
    backward = {(int(origins[t].argmax()), t) for t in range(len(target))}
    return grow_diag_final_and(
        frozenset((i, t) for i, t in forward if links[t, i] > _LEAST),
        frozenset((i, t) for i, t in backward if origins[t, i] > _LEAST),
    )


def _by_flips(account: PairAccount, source: Sequence[Span], target: Sequence[Span]) -> Links:
    return turning_links(merge_assignments(account.shares, target, source))


def _by_assignments(account: PairAccount, source: Sequence[Span], target: Sequence[Span]) -> Links:
    past = merge_assignments(account.shares, target, source)[..., PAST]
    said, words = np.nonzero(past[1:] - past[:-1] > _LEAST)
    return frozenset(zip(words.tolist(), said.tolist(), strict=True))


WAYS: dict[str, Callable[[PairAccount, Sequence[Span], Sequence[Span]], Links]] = {
    "links": _by_links,
    "flips": _by_flips,
    "assignments": _by_assignments,
}


def _of_words(
    values: Float[np.ndarray, "pieces_t pieces_i"], target: Sequence[Span], source: Sequence[Span]
) -> Float[np.ndarray, "t i"]:
    """Gives two words the highest value of any two of their pieces; words follow each other."""
    if not target or not source:
        return np.zeros((len(target), len(source)), values.dtype)
    rows = values[: target[-1].stop, : source[-1].stop]
    for axis, spans in enumerate((target, source)):
        rows = np.maximum.reduceat(rows, [span.start for span in spans], axis=axis)
    return rows


def _touches(link: Link, others: Links) -> bool:
    i, j = link
    return any((i + di, j + dj) in others for di in (-1, 0, 1) for dj in (-1, 0, 1))


def _why_unsegmented(pairs: Sequence[tuple[str, str]]) -> Unlinked | None:
    for number, side in enumerate(("source", "target")):
        if looks_unsegmented([pair[number] for pair in pairs]):
            return Unlinked(
                "unsegmented",
                f"the {side} side is written without blanks, but links count words between blanks: "
                "use untold align without --model, whose --source-words and --target-words split "
                "such text",
            )
    return None
