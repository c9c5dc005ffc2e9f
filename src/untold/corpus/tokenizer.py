"""Text to ids and back: sentencepiece models, one for both languages or one for each.

Text is taken as it is (no normalisation but the optional lower-casing of the corpus), so that
decode(encode(text)) == text for all text whose characters the vocabulary knows. sentencepiece keeps
three characters for itself: U+2581 comes back as a space; tab and NUL are never in a vocabulary, so
they are unknown unless it has bytes to fall back to.
"""

import hashlib
import io
import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import sentencepiece

from untold.config import TokenizerConfig
from untold.corpus.bpe_dropout import drop_merges
from untold.corpus.vocabulary import BOS, EOS, PAD, UNK
from untold.errors import UntoldError

__all__ = ["Tokenizer", "Tokenizers", "train_tokenizers"]

# Beyond this many sentences a vocabulary no longer changes, only training time and memory do.
_SENTENCES_ENOUGH = 2_000_000


class Tokenizer:
    """One vocabulary. `model` is the serialised sentencepiece model, all there is to save."""

    def __init__(self, model: bytes) -> None:
        self.model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise UntoldError(f"not a sentencepiece model: {error}") from None
        p = self._processor
        if (p.pad_id(), p.unk_id(), p.bos_id(), p.eos_id()) != (PAD, UNK, BOS, EOS):
            raise UntoldError(
                f"the sentencepiece model has other control ids than pad {PAD}, unk {UNK}, "
                f"bos {BOS}, eos {EOS}: train one with untold"
            )

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything about the vocabulary does."""
        return hashlib.sha256(self.model).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without BOS and EOS; no text can yield a control token but UNK."""
        return self._processor.encode(_encodable(texts), num_threads=1)

    def encode_sampled(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """As encode, with BPE-dropout; the same seed gives the same ids, in any process."""
        dice = random.Random(seed)
        return [
            self._ids(drop_merges(text, self._merges, dropout, dice)) for text in _encodable(texts)
        ]

    @cached_property
    def _merges(self) -> dict[str, float]:
        """The score of each piece that merges can make: neither control tokens nor bytes."""
        p = self._processor
        ids = (i for i in range(len(self)) if not (p.is_control(i) or p.is_unknown(i)))
        return {p.id_to_piece(i): p.get_score(i) for i in ids if not p.is_byte(i)}

    def _ids(self, pieces: Iterable[str]) -> list[int]:
        """As sentencepiece has it: unknown pieces next to each other are one, or else bytes."""
        ids: list[int] = []
        for piece in pieces:
            if piece in self._merges:
                ids.append(self._processor.piece_to_id(piece))
            elif self._has_bytes:
                ids += [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in piece.encode()]
            elif ids[-1:] != [UNK]:
                ids.append(UNK)
        return ids

    @cached_property
    def _has_bytes(self) -> bool:
        return any(self._processor.is_byte(i) for i in range(len(self)))

    def decode(self, ids: Sequence[int]) -> str:
        """Text without control tokens, always on one line: a byte piece may not break it."""
        return self._processor.decode(list(ids)).replace("\n", " ").replace("\r", " ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subwords as sentencepiece writes them, a leading ▁ for a space."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """ids(pieces(ids)) == ids; what is no piece of the vocabulary is unknown."""
        return [self._processor.piece_to_id(piece) for piece in pieces]


@dataclass(frozen=True)
class Tokenizers:
    """The vocabularies of both languages; they may be the same one."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Both languages share one vocabulary."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """Changes when either vocabulary does."""
        return hashlib.sha256(
            f"{self.source.fingerprint} {self.target.fingerprint}".encode()
        ).hexdigest()

    def counterparts(self) -> list[int]:
        """Of each source id the target id of the same piece; PAD where there is none.

        Control tokens have none: they are no text.
        """
        ids = {piece: i for i, piece in enumerate(self.target.pieces(range(len(self.target))))}
        found = [ids.get(piece, PAD) for piece in self.source.pieces(range(len(self.source)))]
        return [PAD if i in (PAD, UNK, BOS, EOS) else same for i, same in enumerate(found)]

    def save(self, directory: Path) -> None:
        """Write joint.model, or source.model and target.model."""
        for name, tokenizer in self._files().items():
            (directory / name).write_bytes(tokenizer.model)

    @classmethod
    def load(cls, directory: Path) -> "Tokenizers":
        """Read what `save` wrote."""
        joint = directory / "joint.model"
        if joint.exists():
            tokenizer = Tokenizer(joint.read_bytes())
            return cls(tokenizer, tokenizer)
        try:
            source = Tokenizer((directory / "source.model").read_bytes())
            target = Tokenizer((directory / "target.model").read_bytes())
        except FileNotFoundError as error:
            raise UntoldError(f"{error.filename}: no tokenizer here") from None
        return cls(source, target)

    def _files(self) -> dict[str, Tokenizer]:
        if self.joint:
            return {"joint.model": self.source}
        return {"source.model": self.source, "target.model": self.target}


def train_tokenizers(
    config: TokenizerConfig, sources: Iterable[str], targets: Iterable[str]
) -> Tokenizers:
    """Learn one vocabulary of both languages' text, or one of each."""
    if config.joint:
        tokenizer = _train(config, _both(sources, targets))
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(_train(config, sources), _train(config, targets))


def _both(sources: Iterable[str], targets: Iterable[str]) -> Iterable[str]:
    yield from sources
    yield from targets


def _train(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    model, texts = io.BytesIO(), iter(texts)
    first = next((text for text in texts if text.strip()), None)
    if first is None:
        raise UntoldError("no text to learn a vocabulary from: the training data are all blank")
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=itertools.chain([first], texts),
            model_writer=model,
            model_type=config.kind,
            vocab_size=config.size,
            hard_vocab_limit=False,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            input_sentence_size=_SENTENCES_ENOUGH,
            shuffle_input_sentence=False,
            max_sentence_length=1 << 20,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            unk_surface="⁇",
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise UntoldError(f"tokenizer.size = {config.size}: sentencepiece says: {error}") from None
    return Tokenizer(model.getvalue())


def _encodable(texts: Sequence[str]) -> list[str]:
    for number, text in enumerate(texts, start=1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UntoldError(
                f"text {number} holds a lone surrogate (U+{ord(text[error.start]):04X}) at "
                f"character {error.start + 1}: it is not valid Unicode, remove it"
            ) from None
    return list(texts)
