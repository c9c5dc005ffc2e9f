"""Word alignments of a model that separates past and future: no aligner is trained for them.

What a model reads of a pair (decoding/scoring.py) says when each source word was told, and so which
target word told it. There are three ways to read that:

links        where the links of source words and the origins of target words lead, symmetrised
flips        the target word after which a source word turns to past
assignments  every target word while which PAST of a source word rises

Words stand between spaces, and links count them from 0.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from untold.alignment.aligners import looks_unsegmented
from untold.corpus.alignments import Alignment
from untold.corpus.words import Word, merge_assignments, merge_links, words_between_spaces
from untold.decoding.scoring import EncodedPair, PairReader, ReadPair, Trained
from untold.errors import UntoldError
from untold.models.signals import FUTURE, PAST, REDUNDANT

_PAIRS_AT_ONCE = 500  # that are in memory together
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

    def __init__(self, trained: Trained, by: str = "links", batch_tokens: int = 4096) -> None:
        if by not in WAYS:
            raise UntoldError(f"{by!r} is no way to link words; known: {', '.join(WAYS)}")
        self.reader = PairReader(trained, batch_tokens)
        self._way = WAYS[by]

    def align(
        self,
        pairs: Sequence[tuple[str, str]],
        on_progress: Callable[[int], object] | None = None,
    ) -> Iterator[Alignment | Unlinked]:
        """Yields the links of each pair, in order; a pair with a blank side has none.

        `on_progress` hears how many more pairs were read after every batch.
        """
        if reason := _why_unsegmented(pairs):
            yield from (reason for _ in pairs)
            return
        for first in range(0, len(pairs), _PAIRS_AT_ONCE):
            encoded = self.reader.encode(pairs[first : first + _PAIRS_AT_ONCE])
            yield from self._align_group(encoded, on_progress)

    def align_encoded(self, pairs: Sequence[EncodedPair]) -> Iterator[Alignment | Unlinked]:
        """Does the same for pairs that are encoded already."""
        if reason := _why_unsegmented([(pair.source, pair.target) for pair in pairs]):
            yield from (reason for _ in pairs)
            return
        for first in range(0, len(pairs), _PAIRS_AT_ONCE):
            yield from self._align_group(pairs[first : first + _PAIRS_AT_ONCE], None)

    def _align_group(
        self, pairs: Sequence[EncodedPair], on_progress: Callable[[int], object] | None
    ) -> list[Alignment | Unlinked]:
        short = [pair for pair in pairs if self.reader.fits(pair) and not _has_blank_side(pair)]
        if on_progress is not None:
            on_progress(len(pairs) - len(short))
        read = iter(self.reader.read(short, on_progress))
        links: list[Alignment | Unlinked] = []
        for pair in pairs:
            if not self.reader.fits(pair):
                links.append(self._too_long(pair))
            elif _has_blank_side(pair):
                links.append(Alignment(frozenset(), frozenset()))
            else:
                links.append(self._align(next(read)))
        return links

    def _too_long(self, pair: EncodedPair) -> Unlinked:
        sizes = f"{pair.length:,} pieces, and at most {self.reader.longest:,} are read"
        return Unlinked("too long", f"a side has {sizes}: divide it")

    def _align(self, pair: ReadPair) -> Alignment | Unlinked:
        sides = pair.texts, (pair.source, pair.target)
        source, target = (words_between_spaces(*side) for side in zip(*sides, strict=True))
        for text, words in zip(pair.texts, (source, target), strict=True):
            if len(text.split()) != len(words):
                return Unlinked(
                    "other words",
                    f"{' '.join(text.split())[:80]!r} has {len(text.split())} words, but "
                    f"{len(words)} for the tokenizer: links need text whose words stand between "
                    "single blanks",
                )
        links = self._way(pair, source, target)
        return Alignment(links, links)


def _has_blank_side(pair: EncodedPair) -> bool:
    return not pair.source.strip() or not pair.target.strip()


def align_pairs(
    trained: Trained, pairs: Sequence[tuple[str, str]], by: str = "links"
) -> list[Alignment]:
    """Aligns each pair of texts by a model; raises an error that names the first that it cannot."""
    alignments = []
    for number, links in enumerate(LinkReader(trained, by).align(pairs), start=1):
        if isinstance(links, Unlinked):
            raise UntoldError(f"pair {number}: {links.reason}")
        alignments.append(links)
    return alignments


def link_displayed_words(pair: ReadPair) -> tuple[WordLink, ...]:
    """Links the words of a pair as they are displayed, in the order of the source."""
    source, target = pair.source_words, pair.target_words
    if not source or not target:
        return ()
    surer = np.maximum(
        merge_links(pair.links, target, source), merge_links(pair.origins, target, source)
    )
    links = sorted(_by_links(pair, source, target))
    return tuple(WordLink(i, t, round(float(surer[t, i]), 6)) for i, t in links)


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """Joins the links that two directions found: more than their intersection, less than all.

    Links that both found are kept. Then those of either direction that touch a kept one, also
    diagonally, are added if their source word or their target word has no link yet, round by round
    until none is left. At last those are added whose words both have no link. All links of a round
    are judged before any is added, so that neither their order nor that of the sides matters.
    """
    union, joined = forward | backward, forward & backward
    while True:
        sources, targets = {i for i, _ in joined}, {j for _, j in joined}
        free = [(i, j) for i, j in union - joined if i not in sources or j not in targets]
        new = {link for link in free if _touches(link, joined)}
        if not new:
            return joined | {(i, j) for i, j in free if i not in sources and j not in targets}
        joined |= new


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


def _by_links(pair: ReadPair, source: Sequence[Word], target: Sequence[Word]) -> Links:
    links = merge_links(pair.links, target, source)
    origins = merge_links(pair.origins, target, source)
    forward = {(i, int(links[:, i].argmax())) for i in range(len(source))}
    backward = {(int(origins[t].argmax()), t) for t in range(len(target))}
    return grow_diag_final_and(
        frozenset((i, t) for i, t in forward if links[t, i] > _LEAST),
        frozenset((i, t) for i, t in backward if origins[t, i] > _LEAST),
    )


def _by_flips(pair: ReadPair, source: Sequence[Word], target: Sequence[Word]) -> Links:
    return turning_links(merge_assignments(pair.shares, target, source))


def _by_assignments(pair: ReadPair, source: Sequence[Word], target: Sequence[Word]) -> Links:
    past = merge_assignments(pair.shares, target, source)[..., PAST]
    said, words = np.nonzero(past[1:] - past[:-1] > _LEAST)
    return frozenset(zip(words.tolist(), said.tolist(), strict=True))


WAYS: dict[str, Callable[[ReadPair, Sequence[Word], Sequence[Word]], Links]] = {
    "links": _by_links,
    "flips": _by_flips,
    "assignments": _by_assignments,
}


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
