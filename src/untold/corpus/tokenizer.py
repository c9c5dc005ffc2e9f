"""Tokenizers turn text into ids and back: one for both languages, or one for each.

`Tokenizer` is what the rest of untold relies on; `SentencePieceTokenizer` satisfies it, and any
other tokenizer that does can take its place. A sentencepiece model takes text as it is, so that
decode(encode(text)) == text for all text whose characters the vocabulary knows. sentencepiece keeps
four characters for itself: U+2581 comes back as a space; tab, NUL and U+2585 are never in a
vocabulary, so they are unknown unless it has bytes to fall back to.

The special ids of a vocabulary: padding, unknown, beginning and end. Text never becomes one.

Learns a vocabulary with sentencepiece in a child process.

sentencepiece ends its process when an internal check fails or memory runs out, and no signal is
handled before it has finished. In a child process the first is an error of one line, and Ctrl-C
stops it at once. Run as a program, this module is the child: it reads texts from standard input,
each after its length, and writes the model to standard output.

sentencepiece also has limits that it keeps in silence or by dying: `cut_long_text` keeps every text
below them.

BPE-dropout (Provilkov et al., 2020) skips random merges, so that segmentations of a word vary.

sentencepiece offers it too, but seeds its random numbers differently in every process: a resumed
run would not repeat an uninterrupted one. Here a segmentation depends only on the text and the
random generator.
"""

import hashlib
import io
import itertools
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

import sentencepiece

from untold.config import TokenizerConfig
from untold.errors import UntoldError
from untold.registry import Registry


@dataclass(frozen=True)
class SpecialIds:
    """Lists the ids of one vocabulary that stand for no text."""

    pad: int
    unk: int
    bos: int
    eos: int
    never_generated: tuple[int, ...] = ()  # further ids that no translation holds: language codes

    @cached_property
    def forbidden(self) -> tuple[int, ...]:
        """Lists the ids that a search never generates; it generates EOS to end a translation."""
        return (self.pad, self.unk, self.bos, *self.never_generated)

    @property
    def control(self) -> frozenset[int]:
        """Holds the ids that given text may not contain."""
        return frozenset((self.pad, self.bos, self.eos, *self.never_generated))


SENTENCEPIECE_IDS = SpecialIds(pad=0, unk=1, bos=2, eos=3)  # of every vocabulary that untold trains


# sentencepiece dies at a word of 65,536 characters; of kind "word" it makes entries that it cannot
# load from 8,000 bytes on; of kind "unigram" it takes hours for long lines that repeat themselves.
LONGEST_WORD = 1_000  # characters; lines are cut to the same length
_WORD = re.compile("[^ ▁]+")
_RESERVED = "▅"  # sentencepiece skips lines with this character, its sign for rare ones

_MUCH_WORK = 100_000_000  # pairs of bytes, about ten seconds

_LENGTH = struct.Struct("<I")
_COMPLAINT = 3  # exit code of the child: standard output holds what sentencepiece says
_WATCH_SECONDS = 0.5
_TOO_SMALL = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


def has_long_word(text: str) -> bool:
    """Tells if a word of the text has more characters than a vocabulary is learnt from."""
    return len(text) > LONGEST_WORD and any(
        len(word[0]) > LONGEST_WORD for word in _WORD.finditer(text)
    )


def cut_long_text(text: str) -> Iterable[str]:
    """Returns a text in lines that sentencepiece can take; one of normal length stays as it is.

    A line of more than LONGEST_WORD characters is cut at spaces, which changes no vocabulary. Words
    of more characters are cut, too. A part that comes again in the same line counts once.
    """
    text = text.replace(_RESERVED, " ")
    if len(text) <= LONGEST_WORD:
        return [text]
    text = _WORD.sub(lambda word: " ".join(_stretches(word[0])), text)
    return dict.fromkeys(_cut_at_spaces(text.replace("▁", " ")))


def _stretches(word: str) -> Iterator[str]:
    return (word[k : k + LONGEST_WORD] for k in range(0, len(word), LONGEST_WORD))


def _cut_at_spaces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > LONGEST_WORD:
        end = text.rindex(" ", start, start + LONGEST_WORD + 1)
        yield text[start:end]
        start = end + 1  # sentencepiece puts a space before every line, instead of this one
    yield text[start:]


def learn_vocabulary(texts: Iterable[str], options: Mapping[str, Any]) -> bytes:
    """Returns a sentencepiece model; `options` are those of sentencepiece's trainer.

    An exception that `texts` raises, or a signal, ends the child and is raised here as it is.
    """
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            process_group=0,  # a Ctrl-C reaches this process alone, which ends the child
        )
        with _ended(child):
            answer = _ask(
                child, itertools.islice(_sentences(texts), options["input_sentence_size"])
            )
        log.seek(0)
        if child.returncode != 0:
            raise _failure(child.returncode, answer, log.read(), options)
        return answer


@contextmanager
def _ended(child: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Kills the child if anything goes wrong, before its pipes are closed: a full one waits."""
    try:
        yield
    except BaseException:
        child.kill()
        raise
    finally:
        for pipe in (child.stdin, child.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        child.wait()


def _ask(child: "subprocess.Popen[bytes]", sentences: Iterable[bytes]) -> bytes:
    """Sends the sentences to the child, and returns what it answers before it ends."""
    if child.stdin is None or child.stdout is None:
        raise ValueError("the child has no pipes")
    with suppress(BrokenPipeError):  # the child is dead, and its exit code says why
        for sentence in sentences:
            child.stdin.write(_LENGTH.pack(len(sentence)) + sentence)
        child.stdin.close()
    return child.stdout.read()


def _sentences(texts: Iterable[str]) -> Iterator[bytes]:
    """Yields what sentencepiece counts as sentences: it skips empty ones."""
    for text in texts:
        yield from (stretch.encode() for stretch in cut_long_text(text) if stretch)


def _failure(code: int, answer: bytes, log: bytes, options: Mapping[str, Any]) -> UntoldError:
    """Says in one line why the child failed."""
    said, size = answer.decode(errors="replace"), options["vocab_size"]
    if code == _COMPLAINT and (needed := _TOO_SMALL.search(said)):
        return UntoldError(
            f"tokenizer.size = {size}: the characters of the training text and the control tokens "
            f"alone are {needed[1]} entries: raise tokenizer.size to at least {needed[1]}, or "
            "lower tokenizer.character_coverage"
        )
    if code == _COMPLAINT:
        return UntoldError(
            f"sentencepiece cannot learn a vocabulary of tokenizer.size = {size}: {said.strip()}"
        )
    if code == -signal.SIGKILL or b"MemoryError" in log:
        return UntoldError(
            "learning the vocabulary ran out of memory: use a larger machine, or learn from fewer "
            'sentences; tokenizer.kind = "bpe" needs less than "unigram"'
        )
    lines = [line for line in log.decode(errors="replace").split("\n") if "Check failed" in line]
    why = lines[0].strip() if lines else f"exit code {code}"
    return UntoldError(
        f"sentencepiece broke down while it learnt the vocabulary ({why}): choose another "
        "tokenizer.kind, or leave unusual lines out of the training text"
    )


def _read_sentences(pipe: IO[bytes]) -> Iterator[bytes]:
    while head := pipe.read(_LENGTH.size):
        yield pipe.read(_LENGTH.unpack(head)[0])


def _part_repeats(sentences: Iterable[bytes]) -> list[bytes]:
    """Shuffles the lines if long blocks of them come again, such as a second copy of a corpus.

    With such blocks unigram would take hours: its time grows with the square of their length.
    """
    lines, seen = list(sentences), set[int]()
    work = block = 0
    for pair in itertools.pairwise(lines):
        block = block + len(pair[1]) if hash(pair) in seen else 0
        work += block * len(pair[1])
        seen.add(hash(pair))
    if work > _MUCH_WORK:
        random.Random(0).shuffle(lines)
    return lines


def _die_with(parent: int) -> None:
    """Ends this process when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _run_child() -> int:
    import sentencepiece

    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    options, model = json.loads(sys.argv[1]), io.BytesIO()
    sentences = _read_sentences(sys.stdin.buffer)
    if options["model_type"] == "unigram":
        sentences = iter(_part_repeats(sentences))
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences, model_writer=model, **options
        )
    except (RuntimeError, ValueError) as error:
        sys.stdout.buffer.write(str(error).encode(errors="replace"))
        return _COMPLAINT
    sys.stdout.buffer.write(model.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(_run_child())


_bpe_dropout_WORD = re.compile("▁[^▁]*")


def drop_merges(
    text: str, scores: Mapping[str, float], dropout: float, rng: random.Random
) -> Iterator[str]:
    """Yields the pieces of a text, with ▁ for a space; dropout 0 gives sentencepiece's own pieces.

    `scores` maps each piece that a merge may make to its score; the highest score merges first. No
    merge crosses a multiple of LONGEST_WORD characters in a word: the time for a word grows with
    the square of its length, and so the time for a text grows with its length alone.
    """
    if text:
        for word in _bpe_dropout_WORD.findall("▁" + text.replace(" ", "▁")):
            for start in range(0, len(word), LONGEST_WORD):
                yield from _merge(list(word[start : start + LONGEST_WORD]), scores, dropout, rng)


def _merge(
    pieces: list[str], scores: Mapping[str, float], dropout: float, rng: random.Random
) -> list[str]:
    """Merges the best pair until none is left; each round skips each pair with p = dropout."""
    while True:
        best_score, position = -float("inf"), -1
        for k in range(len(pieces) - 1):
            score = scores.get(pieces[k] + pieces[k + 1])
            if score is not None and score > best_score and rng.random() >= dropout:
                best_score, position = score, k
        if position < 0:
            return pieces
        pieces[position : position + 2] = [pieces[position] + pieces[position + 1]]


# Beyond this many sentences of all kinds of a corpus's text a vocabulary hardly changes, only
# training time and memory do.
_SENTENCES_ENOUGH = 2_000_000
_BYTES, _CONTROLS = 256, 4  # entries that a vocabulary has besides those that it learns
_SUFFIX = ".model"

# Tokenizers that untold does not train: subclasses of `Tokenizers`. A model directory that holds
# the folder NAME_tokenizer is read with the one of that name.
TOKENIZERS: Registry[Any] = Registry(
    "tokenizer",
    "untold.tokenizers",
    {"huggingface": "untold.huggingface.tokenizer:HuggingFaceTokenizers"},
)


@runtime_checkable
class Tokenizer(Protocol):
    """One vocabulary. Ids passed in or out never include BOS and EOS of a whole sentence."""

    def __len__(self) -> int: ...

    @property
    def special_ids(self) -> SpecialIds:
        """Names the ids that stand for no text."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes when anything about the vocabulary or the segmentation does."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text. No text can yield a control token but UNK."""
        ...

    def encode_sampled(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Encodes with BPE-dropout; the same seed gives the same ids in any process."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids on one line, without control tokens."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the subwords, a leading ▁ where a space stands before one."""
        ...

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """Inverts `pieces`; a piece that is not in the vocabulary becomes UNK."""
        ...

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Marks the ids that begin a word."""
        ...

    def save(self, directory: Path, name: str) -> None:
        """Writes its files, whose names begin with `name`, into a directory."""
        ...


class SentencePieceTokenizer:
    """A sentencepiece vocabulary; `model` is the serialised model, all there is to save."""

    special_ids = SENTENCEPIECE_IDS

    def __init__(self, model: bytes) -> None:
        self.model = model
        if not model:
            raise UntoldError("not a sentencepiece model: it is empty: get it again")
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            self._processor.id_to_piece(list(range(len(self))))  # every piece must be UTF-8,
            self._processor.decode([self.special_ids.unk])  # and what stands for an unknown one
        except (RuntimeError, ValueError, IndexError) as error:
            raise UntoldError(f"not a sentencepiece model: {error}: get it again") from None
        p, ids = self._processor, self.special_ids
        if SpecialIds(p.pad_id(), p.unk_id(), p.bos_id(), p.eos_id()) != ids:
            raise UntoldError(
                f"the sentencepiece model has other control ids than pad {ids.pad}, unk {ids.unk}, "
                f"bos {ids.bos}, eos {ids.eos}: train one with untold"
            )

    @classmethod
    def load(cls, directory: Path, name: str) -> "SentencePieceTokenizer":
        """Reads what `save` wrote under the same name."""
        path = directory / f"{name}{_SUFFIX}"
        try:
            return cls(path.read_bytes())
        except UntoldError as error:
            raise UntoldError(f"{path}: {error}") from None

    def save(self, directory: Path, name: str) -> None:
        """Writes the model as NAME.model."""
        (directory / f"{name}{_SUFFIX}").write_bytes(self.model)

    def __len__(self) -> int:
        return self._processor.get_piece_size()

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything about the vocabulary does."""
        return hashlib.sha256(self.model).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text. No text can yield a control token but UNK."""
        return self._processor.encode(check_unicode(texts), num_threads=1)

    def encode_sampled(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Encodes with BPE-dropout; the same seed gives the same ids in any process."""
        dice = random.Random(seed)
        return [
            self._ids(drop_merges(text, self._merges, dropout, dice))
            for text in check_unicode(texts)
        ]

    @cached_property
    def _merges(self) -> dict[str, float]:
        """Maps each piece that merges can make to its score; control tokens and bytes are none."""
        p = self._processor
        ids = (i for i in range(len(self)) if not (p.is_control(i) or p.is_unknown(i)))
        return {p.id_to_piece(i): p.get_score(i) for i in ids if not p.is_byte(i)}

    def _ids(self, pieces: Iterable[str]) -> list[int]:
        """Looks pieces up as sentencepiece does: unknown neighbours become bytes or one UNK."""
        ids: list[int] = []
        for piece in pieces:
            if piece in self._merges:
                ids.append(self._processor.piece_to_id(piece))
            elif self._has_bytes:
                ids += [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in piece.encode()]
            elif ids[-1:] != [self.special_ids.unk]:
                ids.append(self.special_ids.unk)
        return ids

    @cached_property
    def _has_bytes(self) -> bool:
        return any(self._processor.is_byte(i) for i in range(len(self)))

    def decode(self, ids: Sequence[int]) -> str:
        """Returns text without control tokens, always on one line: a byte piece cannot break it."""
        return self._processor.decode(list(ids)).replace("\n", " ").replace("\r", " ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the subwords as sentencepiece writes them, a leading ▁ for a space."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """Inverts `pieces`; a piece that is not in the vocabulary becomes UNK."""
        return [self._processor.piece_to_id(piece) for piece in pieces]

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Marks the ids that begin a word: their piece begins with a space."""
        return [piece.startswith("▁") for piece in self.pieces(ids)]


@dataclass(frozen=True)
class Tokenizers:
    """Holds the tokenizers of both languages; they may be the same object."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Says that both languages share one vocabulary."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """Changes when either vocabulary does."""
        return hashlib.sha256(
            f"{self.source.fingerprint} {self.target.fingerprint}".encode()
        ).hexdigest()

    @property
    def special_ids(self) -> tuple[SpecialIds, SpecialIds]:
        """Names the special ids of the source's and of the target's vocabulary."""
        return self.source.special_ids, self.target.special_ids

    @property
    def sizes(self) -> tuple[int, int]:
        """Counts the entries of the source's and of the target's vocabulary."""
        return len(self.source), len(self.target)

    def counterparts(self) -> list[int]:
        """Maps each source id to the target id of the same piece.

        A piece that the target lacks, and every special id, is mapped to the target's PAD.
        """
        pad = self.target.special_ids.pad
        ids = {piece: i for i, piece in enumerate(self.target.pieces(range(len(self.target))))}
        found = [ids.get(piece, pad) for piece in self.source.pieces(range(len(self.source)))]
        own = self.source.special_ids
        special = own.control | {own.unk}
        return [pad if i in special else same for i, same in enumerate(found)]

    def save(self, directory: Path) -> None:
        """Writes one tokenizer under the name joint, or two under source and target."""
        if self.joint:
            self.source.save(directory, "joint")
        else:
            self.source.save(directory, "source")
            self.target.save(directory, "target")

    @classmethod
    def load(cls, directory: Path) -> "Tokenizers":
        """Reads what `save` wrote, or what a tokenizer of another kind wrote to its folder."""
        for kind in TOKENIZERS.names:
            if (directory / f"{kind}_tokenizer").is_dir():
                return TOKENIZERS[kind].load(directory)
        load = SentencePieceTokenizer.load
        if (directory / f"joint{_SUFFIX}").exists():
            tokenizer = load(directory, "joint")
            return cls(tokenizer, tokenizer)
        try:
            return cls(load(directory, "source"), load(directory, "target"))
        except FileNotFoundError as error:
            raise UntoldError(f"{error.filename}: no tokenizer here") from None


def lines_to_learn_from(config: TokenizerConfig) -> int:
    """Counts the lines of each language that `train_tokenizers` looks at; it ignores all others."""
    return _SENTENCES_ENOUGH // 2 if config.joint else _SENTENCES_ENOUGH


def train_tokenizers(
    config: TokenizerConfig, sources: Iterable[str], targets: Iterable[str]
) -> Tokenizers:
    """Learns one vocabulary from both languages' text, or one from each."""
    most = lines_to_learn_from(config)
    sides = [itertools.islice(texts, most) for texts in (sources, targets)]
    if config.joint:
        tokenizer = _train(config, itertools.chain(*sides))
        return Tokenizers(tokenizer, tokenizer)
    return Tokenizers(_train(config, sides[0]), _train(config, sides[1]))


def _train(config: TokenizerConfig, texts: Iterable[str]) -> SentencePieceTokenizer:
    if config.byte_fallback and config.size <= _BYTES + _CONTROLS:
        raise UntoldError(
            f"tokenizer.size = {config.size}: with tokenizer.byte_fallback, {_BYTES} bytes and "
            f"{_CONTROLS} control tokens take their places first: raise tokenizer.size above "
            f"{_BYTES + _CONTROLS}"
        )
    texts = (_valid(text, number) for number, text in enumerate(texts, start=1))
    first = next((text for text in texts if text.strip()), None)
    if first is None:
        raise UntoldError("no text to learn a vocabulary from: the training data are all blank")
    options = {
        "model_type": config.kind,
        "vocab_size": config.size,
        "hard_vocab_limit": False,
        "character_coverage": config.character_coverage,
        "byte_fallback": config.byte_fallback,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "input_sentence_size": _SENTENCES_ENOUGH,
        "shuffle_input_sentence": False,
        "max_sentence_length": 1 << 20,
        "pad_id": SENTENCEPIECE_IDS.pad,
        "unk_id": SENTENCEPIECE_IDS.unk,
        "bos_id": SENTENCEPIECE_IDS.bos,
        "eos_id": SENTENCEPIECE_IDS.eos,
        "unk_surface": "⁇",
        "num_threads": 1,
        "minloglevel": 2,
    }
    return SentencePieceTokenizer(learn_vocabulary(itertools.chain([first], texts), options))


def check_unicode(texts: Sequence[str]) -> list[str]:
    """Returns the texts; refuses one that is not valid Unicode, which no tokenizer can encode."""
    return [_valid(text, number) for number, text in enumerate(texts, start=1)]


def _valid(text: str, number: int) -> str:
    """Returns the text; no encoder takes one that is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UntoldError(
            f"text {number} holds a lone surrogate (U+{ord(text[error.start]):04X}) at character "
            f"{error.start + 1}: it is not valid Unicode, remove it"
        ) from None
    return text
