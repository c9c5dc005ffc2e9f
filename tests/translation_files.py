"""Files of translations in every format that a check reads, written from the same pairs."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from untold.checking.formats import read_segments
from untold.checking.segments import Damage, ReadOptions, Segment

Pairs = Sequence[tuple[str, str]]
PAIRS: Pairs = [
    ("A small cat sleeps.", "Eine kleine Katze schläft."),
    ("Two dogs run in the park.", "Zwei Hunde laufen im Park."),
    ("It rains & nobody is < happy.", "Es regnet & niemand ist < froh."),
    ("The last one.", "Das letzte 日本語."),
]


@dataclass(frozen=True)
class FileFormat:
    """How a format is written, and on which line the translation number n (from 0) begins."""

    suffix: str
    write: Callable[[Pairs], str]
    line: Callable[[int], int]


def tsv(pairs: Pairs) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def jsonl(pairs: Pairs) -> str:
    rows = [{"source": source, "target": target} for source, target in pairs]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def po(pairs: Pairs) -> str:
    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    texts = [
        f"\n#: a.c:{number}\nmsgid {json.dumps(source)}\n"
        f"msgstr {json.dumps(target, ensure_ascii=False)}\n"
        for number, (source, target) in enumerate(pairs)
    ]
    return header + "".join(texts)


def tmx(pairs: Pairs) -> str:
    units = [
        f'<tu tuid="{number}">\n<tuv xml:lang="en"><seg>{escape(source)}</seg></tuv>\n'
        f'<tuv xml:lang="de"><seg>{escape(target)}</seg></tuv>\n</tu>\n'
        for number, (source, target) in enumerate(pairs)
    ]
    head = '<?xml version="1.0"?>\n<tmx version="1.4">\n<header srclang="en"/>\n<body>\n'
    return f"{head}{''.join(units)}</body>\n</tmx>\n"


def xliff_1(pairs: Pairs) -> str:
    units = [
        f'<trans-unit id="{number}">\n<source>{escape(source)}</source>\n'
        f"<target>{escape(target)}</target>\n</trans-unit>\n"
        for number, (source, target) in enumerate(pairs)
    ]
    return (
        '<?xml version="1.0"?>\n'
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
        '<file original="a" datatype="x" source-language="en" target-language="de">\n<body>\n'
        f"{''.join(units)}</body>\n</file>\n</xliff>\n"
    )


def xliff_2(pairs: Pairs) -> str:
    units = [
        f'<unit id="{number}">\n<segment>\n<source>{escape(source)}</source>\n'
        f"<target>{escape(target)}</target>\n</segment>\n</unit>\n"
        for number, (source, target) in enumerate(pairs)
    ]
    return (
        '<?xml version="1.0"?>\n<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" '
        f'srcLang="en" trgLang="de">\n<file id="f">\n{"".join(units)}</file>\n</xliff>\n'
    )


FORMATS = {
    "tsv": FileFormat(".tsv", tsv, lambda n: n + 1),
    "jsonl": FileFormat(".jsonl", jsonl, lambda n: n + 1),
    "po": FileFormat(".po", po, lambda n: 4 * n + 7),
    "tmx": FileFormat(".tmx", tmx, lambda n: 4 * n + 7),
    "xliff-1": FileFormat(".xlf", xliff_1, lambda n: 4 * n + 7),
    "xliff-2": FileFormat(".xliff", xliff_2, lambda n: 6 * n + 7),
}
XML = ("tmx", "xliff-1", "xliff-2")


def read(
    path: Path, data: bytes | str, options: ReadOptions | None = None
) -> tuple[list[Segment], list[Damage]]:
    """Writes a file and reads its segments and damages."""
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    found = list(read_segments(path, options or ReadOptions()))
    segments = [each for each in found if isinstance(each, Segment)]
    damages = [each for each in found if isinstance(each, Damage)]
    for damage in damages:
        assert damage.file == str(path)
        assert damage.line >= 1
        assert "\n" not in damage.reason and len(damage.reason) > 10
    return segments, damages


def texts(segments: Sequence[Segment]) -> list[tuple[str, str]]:
    return [(each.source, each.target) for each in segments]
