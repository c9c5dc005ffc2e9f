"""Learns the vocabularies of a corpus with sentencepiece, in a child process.

sentencepiece ends its process when an internal check fails or memory runs out, and no signal is
handled before it has finished. In a child process the first is an error of one line, and Ctrl-C
stops it at once. Run as a program, this module is the child: it reads texts from standard input,
each after its length, and writes the model to standard output.

sentencepiece also has limits that it keeps in silence or by dying: `cut_long_text` keeps every text
below them.
"""

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
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

from untold.config.data import TokenizerConfig
from untold.corpus.tokenizer import (
    LONGEST_WORD,
    SENTENCEPIECE_IDS,
    SentencePieceTokenizer,
    Tokenizers,
    check_unicode,
)
from untold.errors import UntoldError

# Beyond this many sentences of all kinds of a corpus's text a vocabulary hardly changes, only
# training time and memory do.
_SENTENCES_ENOUGH = 2_000_000
_BYTES, _CONTROLS = 256, 4  # entries that a vocabulary has besides those that it learns
_WORD = re.compile("[^ ▁]+")
_RESERVED = "▅"  # sentencepiece skips lines with this character, its sign for rare ones

_MUCH_WORK = 100_000_000  # pairs of bytes, about ten seconds

_LENGTH = struct.Struct("<I")
_COMPLAINT = 3  # exit code of the child: standard output holds what sentencepiece says
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
    texts = check_unicode(texts)
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


def learn_vocabulary(texts: Iterable[str], options: Mapping[str, Any]) -> bytes:
    """Returns a sentencepiece model; `options` are those of sentencepiece's trainer."""
    command = [sys.executable, "-P", "-m", __name__, json.dumps(options)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as log:
        for sentence in itertools.islice(_sentences(texts), options["input_sentence_size"]):
            given.write(_LENGTH.pack(len(sentence)) + sentence)
        given.seek(0)
        # In a group of its own, so that a Ctrl-C reaches this process alone, which kills the child.
        child = subprocess.run(
            command,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            process_group=0,
            check=False,
        )
        log.seek(0)
        if child.returncode != 0:
            raise _failure(child.returncode, child.stdout, log.read(), options)
    return child.stdout


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
        time.sleep(0.5)
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
