"""The tokenizers of a Hugging Face model behind the protocol of every tokenizer.

One Hugging Face tokenizer serves both sides. Its pieces are written in sentencepiece's notation,
whatever their own: a space is ▁, and bytes that are no whole character are <0xHH> each.
"""

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from untold.corpus.tokenizer import SpecialIds, Tokenizers, check_unicode
from untold.corpus.words import byte_piece, piece_text
from untold.errors import UntoldError, shorten
from untold.huggingface.optional import import_transformers, quiet, system_errors

FOLDER, USE = "huggingface_tokenizer", "untold.json"
_PROBE = "The 2nd naïve probe : 日本 🙂 </s> x"
_SHOWN = 6  # language codes in a message


@dataclass(frozen=True)
class TokenizerUse:
    """Says how a model uses its tokenizer; the tokenizer alone does not know."""

    sizes: tuple[int, int]  # rows of the embeddings, source first
    start: int  # the id that a decoder reads first
    source_language: str = ""
    target_language: str = ""
    source_prefix: str = ""


@dataclass(frozen=True)
class Framing:
    """Holds the ids that a model reads around `x EOS`, and before `y EOS`."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    beginning: tuple[int, ...]  # the last one is BOS to the rest of untold


class HuggingFaceTokenizer:
    """One side of a Hugging Face tokenizer: a `Tokenizer` for source or target text."""

    def __init__(self, tokenizers: "_Shared", *, is_target: bool) -> None:
        self._shared, self._is_target = tokenizers, is_target

    def __len__(self) -> int:
        return self._shared.use.sizes[self._is_target]

    @cached_property
    def special_ids(self) -> SpecialIds:
        """Names the ids that stand for no text: also language codes, and rows without a piece."""
        vocabulary, tokenizer = self._vocabulary, self._shared.tokenizer
        eos, unk = (vocabulary[str(token)] for token in (tokenizer.eos_token, tokenizer.unk_token))
        pad = vocabulary.get(str(tokenizer.pad_token), unk)
        bos = self._shared.framing.beginning[-1] if self._is_target else pad
        control = {vocabulary[token] for token in self._shared.control_tokens & vocabulary.keys()}
        unused = set(range(len(self))).difference(vocabulary.values())
        others = (control | unused).difference((pad, unk, bos, eos))
        return SpecialIds(pad, unk, bos, eos, tuple(sorted(others)))

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the vocabulary, the kind of tokenizer, its framing or its cuts do."""
        described = {
            "kind": type(self._shared.tokenizer).__name__,
            "side": self._is_target,
            "use": asdict(self._shared.use),
            "framing": asdict(self._shared.framing),
            "vocabulary": sorted(self._vocabulary.items()),
            "probe": self.encode([_PROBE]),
        }
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text. No text can yield a control token but UNK."""
        texts = list(check_unicode(texts))
        if not texts:
            return []
        rows = self._shared.encode(texts, is_target=self._is_target)
        control, unk, size = self.special_ids.control, self.special_ids.unk, len(self)
        return [[unk if i in control or i >= size else i for i in row] for row in rows]

    def encode_sampled(
        self,
        texts: Sequence[str],  # noqa: ARG002
        dropout: float,
        seed: int,  # noqa: ARG002
    ) -> list[list[int]]:
        """Refuses BPE-dropout, which the tokenizers of Hugging Face models do not share."""
        raise UntoldError(
            f"tokenizer.dropout = {dropout:g} is for tokenizers that untold trains: set it to 0"
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids on one line, without control tokens."""
        control = self.special_ids.control
        words = [i for i in map(int, ids) if i not in control]
        if self._is_target or not self._shared.is_separate:
            text = self._shared.decode(words)
        else:  # Marian decodes with the vocabulary of the target alone
            text = piece_text(self.pieces(words))
        return text.replace("\n", " ").replace("\r", " ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the subwords in sentencepiece's notation, a leading ▁ for a space."""
        pieces = self._pieces
        return [pieces[i] if 0 <= i < len(pieces) else "<unk>" for i in map(int, ids)]

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """Inverts `pieces`; a piece that is not in the vocabulary becomes UNK."""
        return [self._ids.get(piece, self.special_ids.unk) for piece in pieces]

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Marks the ids that begin a word: their piece begins with a space."""
        return [piece.startswith("▁") for piece in self.pieces(ids)]

    def save(self, directory: Path, name: str) -> None:  # noqa: ARG002
        """Writes the tokenizer of both sides, always under the same name."""
        self._shared.save(directory)

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        return self._shared.vocabulary(is_target=self._is_target)

    @cached_property
    def _pieces(self) -> list[str]:
        pieces = ["<unk>"] * len(self)
        write = _write_bytes if self._shared.is_byte_level else str
        special = self._shared.control_tokens
        for token, number in self._vocabulary.items():
            if number < len(pieces):
                pieces[number] = token if token in special else write(token)
        return pieces

    @cached_property
    def _ids(self) -> dict[str, int]:
        control = self.special_ids.control
        return {piece: i for i, piece in enumerate(self._pieces) if i not in control}


@dataclass(frozen=True)
class HuggingFaceTokenizers(Tokenizers):
    """Both sides of one Hugging Face tokenizer."""

    framing: Framing
    wrapped: Any  # the tokenizer of transformers

    @classmethod
    def of(cls, tokenizer: Any, use: TokenizerUse, where: str) -> "HuggingFaceTokenizers":
        """Takes over a tokenizer; `where` names it in messages."""
        shared = _Shared(tokenizer, use, where)
        source, target = (HuggingFaceTokenizer(shared, is_target=side) for side in (False, True))
        return cls(source, target, shared.framing, tokenizer)

    @classmethod
    def load(cls, directory: Path) -> "HuggingFaceTokenizers":
        """Reads what `save` wrote."""
        folder = directory / FOLDER
        try:
            values = json.loads((folder / USE).read_text(encoding="utf-8"))
            use = TokenizerUse(**values | {"sizes": tuple(values["sizes"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UntoldError(f"{folder / USE}: cannot be used: {shorten(error)}") from None
        return cls.of(read_tokenizer(folder), use, str(folder))

    def save(self, directory: Path) -> None:
        """Writes one folder for both sides."""
        self.source.save(directory, "")


def read_tokenizer(folder: Path | str) -> Any:
    """Reads the tokenizer of a Hugging Face folder; no code of the folder ever runs."""
    transformers = import_transformers()
    try:
        with quiet():
            return transformers.AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise UntoldError(
            f"{folder}: transformers cannot read its tokenizer: {shorten(error, 200)}"
        ) from None


class _Shared:
    """The Hugging Face tokenizer of both sides, and what its model makes of it."""

    def __init__(self, tokenizer: Any, use: TokenizerUse, where: str) -> None:
        self.tokenizer, self.use, self.where = tokenizer, use, where
        self._lock = threading.Lock()  # target text switches some tokenizers to another mode
        self._codes = _language_codes(tokenizer)
        self._choose_languages()
        self.framing = self._find_framing()
        self._refuse_cut_tokens()

    @property
    def is_separate(self) -> bool:
        """Tells if source and target have vocabularies of their own, as some Marian models do."""
        return bool(getattr(self.tokenizer, "separate_vocabs", False))

    @cached_property
    def is_byte_level(self) -> bool:
        """Tells if pieces are bytes that were given visible characters, as BART's are."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        return backend is not None and "ByteLevel" in type(backend.decoder).__name__

    @cached_property
    def control_tokens(self) -> frozenset[str]:
        """Holds all pieces that stand for no text: special ones and the codes of languages."""
        special = map(str, self.tokenizer.all_special_tokens)
        further = getattr(self.tokenizer, "lang_token_to_id", {})  # which nobody has to ask for
        return frozenset((*special, *self._codes.values(), *further))

    def vocabulary(self, *, is_target: bool) -> dict[str, int]:
        """Maps the tokens of one side to their ids."""
        tokenizer = self.tokenizer
        if self.is_separate:
            return dict(tokenizer.target_encoder if is_target else tokenizer.encoder)
        # M2M100 has language codes that its vocabulary does not list.
        return {**tokenizer.get_vocab(), **getattr(tokenizer, "lang_token_to_id", {})}

    def encode(
        self, texts: Sequence[str], *, is_target: bool, with_frame: bool = False
    ) -> list[list[int]]:
        """Returns ids as the tokenizer gives them."""
        named = {"text_target" if is_target else "text": list(texts)}
        frame = {"add_special_tokens": with_frame, "split_special_tokens": not with_frame}
        with self._lock:
            return self.tokenizer(**named, **frame, verbose=False)["input_ids"]

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids of the target, or of a vocabulary that both sides share."""
        with self._lock:
            return self.tokenizer.decode(ids, skip_special_tokens=True)

    def save(self, directory: Path) -> None:
        """Writes the tokenizer's own files and how it is used."""
        folder = directory / FOLDER
        with quiet(), system_errors(folder):
            self.tokenizer.save_pretrained(str(folder))
        text = json.dumps(asdict(self.use), indent=1) + "\n"
        (folder / USE).write_text(text, encoding="utf-8")

    def _choose_languages(self) -> None:
        """Sets the languages that were asked for; refuses unknown and missing ones."""
        asked = {"src": self.use.source_language, "tgt": self.use.target_language}
        is_multilingual = hasattr(self.tokenizer, "tgt_lang")
        known = ", ".join(sorted(self._codes)[:_SHOWN])
        for side, code in asked.items():
            setting = f"model.{'source' if side == 'src' else 'target'}_language"
            if code and code not in self._codes:
                cure = f"choose from {known}, ..." if known else "leave it out: it knows none"
                raise UntoldError(f"{self.where}: {setting} = {shorten(code)}: {cure}")
            if is_multilingual and not code:
                raise UntoldError(
                    f"{self.where}: translates between {len(self._codes)} languages: choose with "
                    f"--set {setting}=CODE from {known}, ..."
                )
            if is_multilingual:
                setattr(self.tokenizer, f"{side}_lang", code)

    def _refuse_cut_tokens(self) -> None:
        """Refuses words that were added to a tokenizer which does not find them without frames."""
        added = sorted(set(map(str, self.tokenizer.get_added_vocab())) - self.control_tokens)
        known = self.vocabulary(is_target=False)
        rows = self.encode(added, is_target=False) if added else []
        for token, row in zip(added, rows, strict=True):
            if known.get(token) not in row:
                raise UntoldError(
                    f"{self.where}: its tokenizer was given the token {shorten(token)}, which a "
                    f"{type(self.tokenizer).__name__} cuts into pieces here: leave it out"
                )

    def _find_framing(self) -> Framing:
        """Finds what the tokenizer puts around a text by encoding one with and without it."""
        before, after = self._around(is_target=False)
        target_before, target_after = self._around(is_target=True)
        # mBART moves the last label, a language, to the front; all others begin with one id.
        beginning = target_after[-1:] or (self.use.start, *target_before)
        code = self.use.target_language
        if code and not hasattr(self.tokenizer, "tgt_lang"):  # Marian reads it with the source
            before = (self.tokenizer.convert_tokens_to_ids(self._codes[code]), *before)
        if self.use.source_prefix:
            (ids,) = self.encode([self.use.source_prefix.strip()], is_target=False)
            before = (*before, *ids)
        return Framing(before, after, beginning)

    def _around(self, *, is_target: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the ids before a text, and those after the EOS that follows it."""
        (bare,) = self.encode(["x"], is_target=is_target)
        (framed,) = self.encode(["x"], is_target=is_target, with_frame=True)
        eos = self.vocabulary(is_target=is_target)[str(self.tokenizer.eos_token)]
        sought = [*bare, eos]
        for first in range(len(framed) - len(sought) + 1):
            if framed[first : first + len(sought)] == sought:
                return tuple(framed[:first]), tuple(framed[first + len(sought) :])
        raise UntoldError(
            f"{self.where}: its tokenizer does not end a text with {self.tokenizer.eos_token}: "
            "untold cannot use it"
        )


def _language_codes(tokenizer: Any) -> dict[str, str]:
    """Maps the codes that a user may write to the tokens that stand for them."""
    if codes := getattr(tokenizer, "lang_code_to_token", None):  # M2M100
        return dict(codes)
    if codes := getattr(tokenizer, "supported_language_codes", None):  # Marian: >>de<<
        return {code.strip("<>"): code for code in codes}
    if not hasattr(tokenizer, "tgt_lang"):
        return {}
    if codes := getattr(tokenizer, "lang_code_to_id", None):  # mBART
        return {code: code for code in codes}
    special = map(
        str, getattr(tokenizer, "extra_special_tokens", None) or tokenizer.all_special_tokens
    )
    return {token: token for token in special if "_" in token}  # NLLB


def _write_bytes(token: str) -> str:
    """Writes a token whose characters stand for bytes."""
    raw = bytes(_BYTES[character] for character in token if character in _BYTES)
    return byte_piece(raw)


def _byte_characters() -> dict[str, int]:
    """Maps the visible characters of byte-level tokenizers to bytes.

    Bytes that are printable in Latin-1 stand for themselves, the others follow from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(0x100 + number): byte for number, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


_BYTES = _byte_characters()
