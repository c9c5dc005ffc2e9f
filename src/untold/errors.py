"""Defines the exception for every mistake that a user can mend, and words that may be echoed.

The last stop of every exception: one line for a person, with a cure, and an exit code.

Mistakes in the input and limits of the machine end with exit code 2, as an UntoldError does.
Anything else is a mistake in untold: its traceback goes to a file, and the exit code is 70.
"""

import errno
import os
import re
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

# What a terminal obeys instead of showing it (C0, DEL, C1), what ends lines or turns the direction
# of writing in the middle of a text, and what has no UTF-8 or may not stand in XML.
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_LONGEST_LINE = 1000  # characters; only mistakes echo more


class UntoldError(Exception):
    """Tells a user in one line which value is wrong, what the limit is and how to cure it.

    The command line prints the message and exits with code 2.
    """


class InUseError(UntoldError):
    """Another process works in a directory."""


def escape_controls(text: str, keep: str = "") -> str:
    r"""Returns text that only shows: ESC becomes the four characters \x1b, and so on.

    Characters of `keep` stay as they are.
    """
    return CONTROLS.sub(lambda found: _escape(found[0], keep), text)


def shorten(value: object, most: int = 60) -> str:
    """Returns a value as text that fits into a line of an error: harmless and not too long."""
    text = str(value)
    return escape_controls(text if len(text) <= most else f"{text[: most - 1]}…")


def one_line(text: str, most: int = _LONGEST_LINE) -> str:
    """Returns harmless text of one line; one too long lacks its middle, for a cure ends it."""
    line = escape_controls(text.strip())
    if len(line) <= most:
        return line
    start = most * 2 // 3
    return f"{line[:start]} … {line[start + 3 - most :]}"


def _escape(sign: str, keep: str) -> str:
    return sign if sign in keep else repr(sign)[1:-1]


MISTAKE = 2  # of the input or the machine; also the code of a wrong option
INTERNAL = 70  # of untold; EX_SOFTWARE of sysexits.h

_CURES = {
    errno.ENOSPC: "free some space, or write to another disk, and run the command again",
    errno.EFBIG: "write to a disk without such a limit (ulimit -f)",
    errno.EDQUOT: "free some space, or write to another disk, and run the command again",
    errno.EACCES: "choose a place that you may use, or change its permissions",
    errno.EPERM: "choose a place that you may use, or change its permissions",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOENT: "check the path, and create its directory first",
    errno.ENOTDIR: "check the path: a part of it is a file",
    errno.EISDIR: "name a file, not a directory",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "close other files, or raise the limit (ulimit -n)",
    errno.ENFILE: "close other programs, or raise the limit of open files",
    errno.EIO: "look at the disk and its cables: the device does not answer",
    errno.EBADF: "connect standard input and output to something that is open",
}


@dataclass(frozen=True)
class Failure:
    """Tells a person what went wrong, and the shell which code to return."""

    line: str
    code: int
    details: str = ""  # printed below the line: a traceback that no file could hold


def explain_failure(error: BaseException, directory: Path | None = None) -> Failure:
    """Finds the line and the exit code of an exception that no command has handled.

    The traceback of an unexpected one is written to `directory`, by default the temporary one.
    """
    if isinstance(error, UntoldError):
        return Failure(str(error), MISTAKE)
    if isinstance(error, OSError):
        return Failure(_explain_os_error(error), MISTAKE)
    if isinstance(error, UnicodeError):
        return Failure(
            f"{error}: a text or the name of a file does not fit its encoding: convert it to "
            "UTF-8, and use a locale with UTF-8 (LC_ALL=C.UTF-8)",
            MISTAKE,
        )
    if isinstance(error, RecursionError):
        return Failure("the input is nested too deeply: write it with fewer levels", MISTAKE)
    if isinstance(error, MemoryError) or _is_out_of_memory(error):
        return Failure(
            "not enough memory: lower train.batch_tokens, decode.batch_tokens, decode.beam or the "
            f"sizes of [model], or use a larger machine ({_first_line(error) or 'no details'})",
            MISTAKE,
        )
    if type(error).__name__ == "SafetensorError":
        return Failure(f"a damaged model file: {_first_line(error)}: get it again", MISTAKE)
    return _explain_unexpected(error, directory or Path(tempfile.gettempdir()))


def reason_and_cure(error: OSError) -> str:
    """Says what the system refused, and what helps; the caller names the file."""
    cure = _CURES.get(error.errno or 0, "mend that and run the command again")
    return f"{error.strerror or error}: {cure}"


def refuse_endless_device(path: Path) -> None:
    """Refuses to read a device that never ends: any but a terminal and the empty one."""
    try:
        if not path.is_char_device() or path.samefile(os.devnull):
            return
        with open(path, "rb", buffering=0) as file:
            if file.isatty():
                return
    except OSError:
        return  # whoever opens it will say so
    raise UntoldError(f"{path}: a device that never ends: name a file")


def _explain_os_error(error: OSError) -> str:
    place = error.filename if error.filename is not None else "reading or writing"
    if isinstance(place, bytes):
        place = os.fsdecode(place)
    return f"{place}: {reason_and_cure(error)}"


def _is_out_of_memory(error: BaseException) -> bool:
    """Recognises torch's errors, which are RuntimeErrors."""
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "out of memory" in text
    )


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]


def _explain_unexpected(error: BaseException, directory: Path) -> Failure:
    report = "".join(traceback.format_exception(error))
    what = f"unexpected {type(error).__name__}: {_first_line(error)}"
    path = directory / f"untold-traceback-{os.getpid()}.txt"
    try:
        path.write_text(report, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return Failure(f"{what}; this is a mistake in untold; its traceback:", INTERNAL, report)
    return Failure(f"{what}; this is a mistake in untold: the traceback is in {path}", INTERNAL)
