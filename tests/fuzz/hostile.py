"""Values, texts and bytes that a careless or hostile user may give."""

import gzip
import json
import random

__all__ = ["hostile_bytes", "hostile_json", "hostile_path", "hostile_set_value", "hostile_text"]

_NUMBERS = (
    *("0", "-0", "1", "-1", "2", "3", "7", "0.5", "1.5", "-0.5", "0.999", "1e-9", "1e-300", "1e-5"),
    *("inf", "-inf", "nan", "1e308", "-1e308", "1e400", "1000", "99999", "100000", "4294967296"),
    *("2147483647", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("18446744073709551616", "-9223372036854775809", "9" * 400, "9" * 5000, "0x10", "1_000"),
)
_WORDS = (
    *("", " ", "x", "true", "false", "none", "null", "bleu", "gdr", "clf", "attn", "paper", "tiny"),
    *(
        "rnmt",
        "pfrnn",
        "transformer",
        "mlp",
        "dot",
        "cpu",
        "cuda",
        "bpe",
        "char",
        "word",
        "unigram",
    ),
    *(
        "loss",
        "zh",
        "13a",
        "sample",
        "past",
        "mrt",
        "reinforce",
        "actor_critic",
        "linear",
        "ä",
        "字",
    ),
)
_NESTED = (
    "[]",
    "{}",
    "[1, 2]",
    '["a"]',
    "{a = 1}",
    "[" * 3000,
    "[" * 2000 + "]" * 2000,
    "1979-05-27",
)
_TEXTS = (
    "",
    " ",
    "\t",
    "a",
    "the dog sleeps .",
    "the dog sleeps . " * 40,
    "x" * 3000,
    " " * 3000,
    "字" * 500,
    "👩‍👩‍👧‍👦 é ẹ́̀",
    "\x1b[31mred\x1b[0m \x07 \x00 \x85 \u2028 \u202e",
    "<s> </s> <pad> <unk> ▁ ▁▁",
    "\ufeffbom",
    "\U0010ffff \ue000",
    "a\rb\x0bc\x0cd",
    "%s {} {0} \\ \" ' $HOME `id` ; | &",
    "1-1 0-0 2p3",
    "9999999999999999999999-0",
)
_PLAIN = ("a dog sees a cat .", "the cat sees the dog .", "a cat sleeps .", "the dog sleeps .")


def hostile_set_value(dice: random.Random) -> str:
    """A value as it may stand behind `--set key=`, in TOML or not."""
    kind = dice.random()
    if kind < 0.55:
        return dice.choice(_NUMBERS)
    if kind < 0.8:
        word = dice.choice(_WORDS)
        return f'"{word}"' if dice.random() < 0.5 else word
    if kind < 0.95:
        return dice.choice(_NESTED)
    return dice.choice(_TEXTS).replace("\0", "")


def hostile_json(dice: random.Random) -> object:
    """A JSON value of any type."""
    kind = dice.random()
    if kind < 0.4:
        numbers = (0, 1, -1, 2, 0.5, 1e308, 2**31, 2**63, 2**64, -(2**63) - 1, 10**300, 10**9)
        return dice.choice(numbers)
    if kind < 0.5:
        return dice.choice((float("inf"), float("-inf"), float("nan")))
    if kind < 0.75:
        return dice.choice((*_WORDS, *_TEXTS))
    return dice.choice((None, True, False, [], {}, [[]], {"a": 1}, [1, 2, 3], [None], {"": {}}))


def hostile_text(dice: random.Random) -> str:
    """A sentence, or something in its place."""
    return dice.choice(_TEXTS if dice.random() < 0.6 else _PLAIN)


def hostile_bytes(dice: random.Random) -> bytes:
    """The contents of a file: mostly text with something odd in it."""
    kind = dice.random()
    if kind < 0.08:
        return b""
    if kind < 0.16:
        return dice.randbytes(dice.choice((1, 10, 1000)))
    if kind < 0.22:
        packed = gzip.compress(b"a dog\n" * 20)
        return packed[: dice.randrange(len(packed))]
    if kind < 0.3:
        depth = dice.choice((10, 3000))
        return dice.choice((b'{"a":', b"[", b"x = [", b"[[a]]\n")) * depth
    if kind < 0.36:
        return json.dumps(hostile_json(dice)).encode() + b"\n"
    end = dice.choice(("\n", "\r\n", "\r", "\n\n"))
    text = end.join(hostile_text(dice) for _ in range(dice.randrange(12)))
    data = text.encode() + (b"\n" if dice.random() < 0.7 else b"")
    if dice.random() < 0.2:
        place = dice.randrange(len(data) + 1)
        data = data[:place] + dice.choice((b"\xff", b"\xed\xa0\x80", b"\xc3", b"\0")) + data[place:]
    return data


def hostile_path(dice: random.Random) -> str:
    """The name of a file or directory, most of which nobody can read or write."""
    return dice.choice(
        (
            *("", ".", "..", "missing", "missing/deeper/file", "corpus.src", "run", "run/best"),
            *("/dev/full", "/dev/null", "/proc/nothing", "a" * 300, "new file", "new\nline", "ä字"),
            *(
                "\x1b[31mred",
                "out.svg",
                "out.html",
                "out.json",
                "out.png",
                "out.xyz",
                "-",
                "--",
                "~",
            ),
            *("corpus.src/below", "empty", "x" * 5000, "%s", "new"),
        )
    )
