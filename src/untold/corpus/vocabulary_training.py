"""Learns a vocabulary with sentencepiece in a child process.

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
from contextlib import contextmanager, suppress
from typing import IO, Any

from untold.errors import UntoldError

__all__ = ["LONGEST_WORD", "cut_long_text", "has_long_word", "learn_vocabulary"]

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
