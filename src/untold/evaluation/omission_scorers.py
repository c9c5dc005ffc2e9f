"""Ways to find omitted source words behind one interface, with what they cost: ours and rivals.

Each gives every source word of a pair a score, the higher the more likely it was omitted, and every
pair a score. Only orders count. A word stands between blanks. Ways of one pass share it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Float

from untold.account.evidence import (
    lexicon_evidence,
    segment_evidence,
    share_evidence,
    source_evidence,
)
from untold.account.pair_account import NO_ACCOUNT, AccountReader, PairAccount
from untold.alignment.aligner import Aligner, split_pairs
from untold.corpus.word_spans import Span, word_spans
from untold.errors import UntoldError
from untold.evaluation.separation_report import check_words
from untold.storage.calibration import Calibration
from untold.translator import Translation, Translator

__all__ = [
    "AccountScorer",
    "AlignerScorer",
    "AttentionScorer",
    "ContrastiveScorer",
    "EvidenceScorer",
    "OmissionScorer",
    "PairScores",
    "ReadOnce",
    "SequenceScorer",
    "omission_scorers",
]

TextPairs: TypeAlias = Sequence[tuple[str, str]]
Read = TypeVar("Read")


class ReadOnce(Generic[Read]):
    """Keeps what the last list of pairs was read as, for all scorers that ask for the same list."""

    def __init__(self, read: Callable[[TextPairs], list[Read]]) -> None:
        self._read = read
        self._pairs: TextPairs = ()
        self._found: list[Read] = []

    def __call__(self, pairs: TextPairs) -> list[Read]:
        """Reads the pairs, unless it was the last thing that it did."""
        if tuple(pairs) != self._pairs:
            self._found, self._pairs = self._read(pairs), tuple(pairs)
        return self._found


@dataclass(frozen=True)
class PairScores:
    """The scores of one pair; a way that judges whole pairs alone has no scores of words."""

    words: Float[np.ndarray, " i"] | None
    segment: float


class OmissionScorer(ABC):
    """A way to find omissions."""

    name: str
    passes: str  # of the model over a pair

    @abstractmethod
    def score(self, pairs: TextPairs) -> list[PairScores]:
        """Scores the source words of each pair, and the pair."""


class AccountScorer(OmissionScorer):
    """Scores by the calibrated account: all evidence of one pass, weighed by its regression."""

    name, passes = "account", "1"

    def __init__(self, accounts: ReadOnce[PairAccount], calibration: Calibration) -> None:
        self.accounts, self.calibration = accounts, calibration

    def score(self, pairs: TextPairs) -> list[PairScores]:
        """Scores by log-odds."""
        return [self._score(each) for each in self.accounts(pairs)]

    def _score(self, account: PairAccount) -> PairScores:
        known = self.calibration
        evidence = source_evidence(account, word_spans(account.source))
        words = known.omitted.log_odds(evidence, known.omitted.prior)
        row = segment_evidence(account, words)[None]
        return PairScores(words, float(known.has_omission.log_odds(row, known.damaged)[0]))


class EvidenceScorer(OmissionScorer):
    """Scores by one kind of evidence alone: FUTURE at the end, or the lexicon."""

    passes = "1"

    def __init__(self, accounts: ReadOnce[PairAccount], *, by_lexicon: bool) -> None:
        self.accounts, self.by_lexicon = accounts, by_lexicon
        self.name = "lexicon" if by_lexicon else "future"

    def score(self, pairs: TextPairs) -> list[PairScores]:
        """Scores a pair by its most suspicious word."""
        return [_by_highest(self._words(each)) for each in self.accounts(pairs)]

    def _words(self, account: PairAccount) -> Float[np.ndarray, " i"]:
        words = word_spans(account.source)
        if self.by_lexicon:
            return lexicon_evidence(account, words)
        return share_evidence(account, words)[:, 0]


class AttentionScorer(OmissionScorer):
    """Scores by cross-attention: words that no target word looked at."""

    passes = "1"

    def __init__(self, scored: ReadOnce[Translation], *, by_maximum: bool) -> None:
        self.scored = scored
        self.name = "attention maximum" if by_maximum else "attention coverage"
        self.merge: Callable[..., np.ndarray] = np.max if by_maximum else np.sum

    def score(self, pairs: TextPairs) -> list[PairScores]:
        """Scores minus the maximum, or minus the sum, over the steps; at best of its pieces."""
        return [_by_highest(self._words(each)) for each in self.scored(pairs)]

    def _words(self, scored: Translation) -> Float[np.ndarray, " i"]:
        assert scored.attention is not None
        seen = self.merge(scored.attention, axis=0)
        return -_merge(seen, word_spans(scored.source_tokens), np.max)


class SequenceScorer(OmissionScorer):
    """Scores whole pairs: by the mean log-probability of the target, or by that of its end."""

    passes = "1"

    def __init__(self, accounts: ReadOnce[PairAccount], *, by_end: bool) -> None:
        self.accounts, self.by_end = accounts, by_end
        self.name = "p(EOS)" if by_end else "log-probability"

    def score(self, pairs: TextPairs) -> list[PairScores]:
        """Scores minus the log-probability."""
        found = [each.log_probabilities for each in self.accounts(pairs)]
        return [PairScores(None, -float(p[-1] if self.by_end else p.mean())) for p in found]


class AlignerScorer(OmissionScorer):
    """Scores by a word aligner: words without a link."""

    name, passes = "aligner", "0"

    def __init__(self, aligner: Aligner) -> None:
        if aligner.config.source_words != "blank":
            raise UntoldError(
                f"the aligner counts words as {aligner.config.source_words!r}, and alignments of "
                'omissions as "blank": train one with untold align --source-words blank'
            )
        self.aligner = aligner

    def score(self, pairs: TextPairs) -> list[PairScores]:
        """Scores 1 for no link, and a pair by the share of such words."""
        texts = [source for source, _ in pairs], [target for _, target in pairs]
        words = split_pairs(self.aligner.config, *texts)
        found = []
        for links, (source, _) in zip(self.aligner.align(words), words, strict=True):
            linked = {i for i, _ in links.sure}
            missing = np.array([float(i not in linked) for i in range(len(source))])
            found.append(PairScores(missing, float(missing.mean()) if len(missing) else 0.0))
        return found


class ContrastiveScorer(OmissionScorer):
    """Scores by contrastive conditioning (Vamvas and Sennrich, 2022): a pass for every word.

    A word was probably omitted if the target is likelier as a translation of the source without it.
    """

    name, passes = "contrastive", "1 a word"

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    def score(self, pairs: TextPairs) -> list[PairScores]:
        """Scores the gain in log-probability when a word is taken out of the source."""
        asked: list[tuple[str, str]] = []
        for source, target in pairs:
            words = source.split()
            rests = [" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))]
            asked += [(source, target), *((rest, target) for rest in rests)]
        found = iter(self.translator.score(asked))
        scored = []
        for source, _ in pairs:
            whole = next(found).log_probability
            gains = [next(found).log_probability - whole for _ in source.split()]
            scored.append(_by_highest(np.array(gains)))
        return scored


def omission_scorers(translator: Translator, aligner: Aligner | None) -> list[OmissionScorer]:
    """Makes every way that the model allows; the first is the model's own best."""
    trained = next((each for each in translator.models if each.model.past_future), None)
    if trained is None:
        raise UntoldError(NO_ACCOUNT)
    past_future = trained.model.past_future
    assert past_future is not None
    reader = AccountReader(trained, translator.decode.batch_tokens)
    accounts = ReadOnce(partial(_read_accounts, reader))
    scored = ReadOnce(partial(translator.score, attention=True))
    found: list[OmissionScorer] = []
    if trained.calibration is not None:
        found.append(AccountScorer(accounts, trained.calibration))
    found.append(EvidenceScorer(accounts, by_lexicon=False))
    if past_future.heads.lexicon is not None:
        found.append(EvidenceScorer(accounts, by_lexicon=True))
    found += [AttentionScorer(scored, by_maximum=each) for each in (False, True)]
    found += [SequenceScorer(accounts, by_end=each) for each in (False, True)]
    if aligner is not None:
        found.append(AlignerScorer(aligner))
    return [*found, ContrastiveScorer(translator)]


def _read_accounts(reader: AccountReader, pairs: TextPairs) -> list[PairAccount]:
    """Reads pairs whose source words are those that the scores are for."""
    found = reader.read(pairs)
    for (source, _), account in zip(pairs, found, strict=True):
        check_words(source.split(), word_spans(account.source))
    return found


def _by_highest(words: Float[np.ndarray, " i"]) -> PairScores:
    return PairScores(words, float(words.max()) if len(words) else 0.0)


def _merge(
    values: Float[np.ndarray, " n"], words: Sequence[Span], how: Callable[[np.ndarray], float]
) -> Float[np.ndarray, " i"]:
    return np.array([how(values[word.start : word.stop]) for word in words])
