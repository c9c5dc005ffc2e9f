"""The beginning of every file of a stream: enough text to learn a vocabulary from."""

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from untold.config import CorpusConfig
from untold.corpus.corpora import CorpusText, Pair
from untold.corpus.stream.shard_reader import describe_shard, read_shard


class SampledText(CorpusText):
    """Gives the first pairs of every file or dataset, as many as are wanted in all."""

    def __init__(
        self, corpora: Sequence[CorpusConfig], root: Path, directory: Path, most: int
    ) -> None:
        super().__init__(corpora, root, directory)
        self._share = -(-most // max(1, len(self.corpora)))

    def fingerprints(self) -> list[str]:
        """Returns a hash of each shard that is made without reading all of it."""
        described = (describe_shard(shard, self.root) for shard in self.corpora)
        return [hashlib.sha256(json.dumps(each).encode()).hexdigest() for each in described]

    def _read_pairs(self) -> Iterator[Pair]:
        parts = (read_shard(shard, self.root) for shard in self.corpora)
        return itertools.chain.from_iterable(itertools.islice(part, self._share) for part in parts)
