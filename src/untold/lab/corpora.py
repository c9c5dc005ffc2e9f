"""Corpora of experiments, generated or from a folder, and how large an experiment is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from untold.corpus.text import read_lines, read_test_set
from untold.errors import UntoldError
from untold.lab.grammars.sampling import write_sample
from untold.lab.results import fingerprint, hash_texts

_SEED = 7  # of the grammars' samples


@dataclass(frozen=True)
class TestFiles:
    """Names a test set by its files; alignments are in Pharaoh format."""

    name: str
    source: str
    reference: str
    alignments: str | None = None
    further: tuple[str, ...] = ()  # more references of the same sentences


@dataclass(frozen=True)
class KnownCorpus:
    """Says where the files of a corpus lie in its folder, and where a user gets them."""

    name: str
    languages: tuple[str, str]
    train: tuple[str, str]
    valid: tuple[str, str]
    tests: tuple[TestFiles, ...]
    origin: str  # for the error message of a missing corpus
    grammar: str | None = None  # it is generated
    bleu_tokenize: str = "13a"
    vocabulary: int = 6000
    is_summary: bool = False
    metric: str = "bleu"
    ignores_case: bool = False  # scores do
    data: Mapping[str, object] = field(default_factory=dict)  # further settings of that section
    tokenizer: Mapping[str, object] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """Returns all files that an experiment reads, but for alignments."""
        tests = [
            path for test in self.tests for path in (test.source, test.reference, *test.further)
        ]
        return [*self.train, *self.valid, *tests]


@dataclass(frozen=True)
class FoundCorpus:
    """A corpus that is there."""

    known: KnownCorpus
    root: Path
    sentences: int | None = None  # of each test set; None: all
    train: tuple[str, str] = ("", "")  # another training text in its place
    linked: tuple[TestFiles, ...] = ()  # further test sets with links, for the item separation

    @property
    def name(self) -> str:
        return self.known.name

    def training_paths(self) -> tuple[Path, Path]:
        """Returns the two sides of the training text."""
        source, target = (_existing(self.root, path) for path in self.known.train)
        own = tuple(Path(path) for path in self.train if path)
        return own if len(own) == 2 else (source, target)

    def training_fingerprint(self) -> str:
        """Names the lines of the training and the validation text, wherever they lie."""
        valid = (_existing(self.root, path) for path in self.known.valid)
        return fingerprint([_hash_lines(path) for path in (*self.training_paths(), *valid)])

    def settings(self) -> dict[str, object]:
        """Returns the section `data` of a configuration."""
        known, (source, target) = self.known, self.training_paths()
        return {
            "source_language": known.languages[0],
            "target_language": known.languages[1],
            "root": str(self.root.resolve()),
            "bleu_tokenize": known.bleu_tokenize,
            **known.data,
            "train": {"source": str(source.resolve()), "target": str(target.resolve())},
            "valid": {
                side: str(_existing(self.root, path).resolve())
                for side, path in zip(("source", "target"), known.valid, strict=True)
            },
        }

    def read(self, test: TestFiles) -> tuple[list[str], list[str]]:
        """Reads the sentences of a test set, the first ones if a number of them is set."""
        source, reference = (_existing(self.root, path) for path in (test.source, test.reference))
        sources, references = read_test_set(source, reference, _ignore)
        return sources[: self.sentences], references[: self.sentences]

    def read_further(self, test: TestFiles) -> list[list[str]]:
        """Reads the other references of a test set, if it has more than one."""
        paths = (_existing(self.root, path) for path in test.further)
        return [list(read_lines(path))[: self.sentences] for path in paths]

    def development(self) -> TestFiles:
        return TestFiles("dev", *self.known.valid)

    def alignments(self, test: TestFiles) -> Path | None:
        """Returns the file of true links, if there is one."""
        return None if test.alignments is None else self.root / test.alignments


def _grammar(name: str, languages: tuple[str, str]) -> KnownCorpus:
    source, target = languages
    sides = {
        split: (f"{split}.{source}", f"{split}.{target}") for split in ("train", "dev", "test")
    }
    test = TestFiles("test", *sides["test"], "test.align")
    return KnownCorpus(
        f"grammar-{name}",
        languages,
        sides["train"],
        sides["dev"],
        (test,),
        "it is generated",
        grammar=name,
        vocabulary=2000,
    )


def _three_splits(
    name: str, sides: tuple[str, str], origin: str, vocabulary: int, is_summary: bool = False
) -> KnownCorpus:
    """Describes a corpus of files such as train.zh.gz; those of summaries end in src and tgt."""
    ends = ("src", "tgt") if is_summary else sides
    train, valid, test = (
        (f"{split}.{ends[0]}.gz", f"{split}.{ends[1]}.gz") for split in ("train", "valid", "test")
    )
    tests = (TestFiles("test", *test),)
    return KnownCorpus(
        name, sides, train, valid, tests, origin, vocabulary=vocabulary, is_summary=is_summary
    )


_TATOEBA = "tatoeba.org has the sentences and their links; split them so that none crosses"
_RECIPE = "docs/reproduce.md has the steps"


_M30K = "{}.lc.norm.tok.{}.gz"


def _captions(split: str) -> tuple[str, str]:
    return _M30K.format(split, "en"), _M30K.format(split, "de")


_ALL = [
    _grammar("en-de", ("en", "de")),
    _grammar("zh-en", ("zh", "en")),
    KnownCorpus(
        "multi30k",
        ("en", "de"),
        _captions("train"),
        _captions("val"),
        tuple(
            TestFiles(name, *_captions(split))
            for name, split in (
                ("test2016", "test_2016_flickr"),
                ("test2017", "test_2017_flickr"),
                ("coco", "test_2017_mscoco"),
            )
        ),
        "github.com/multi30k/dataset has the files of data/task1/tok",
        bleu_tokenize="none",
    ),
    _three_splits("tatoeba-zh-en", ("zh", "en"), _TATOEBA, 8000),
    _three_splits("tatoeba-ro-en", ("ro", "en"), _TATOEBA, 6000),
    _three_splits(
        "debian-summaries",
        ("en", "en"),
        "Debian's package descriptions: the long text is the source, the synopsis the target",
        8000,
        is_summary=True,
    ),
    KnownCorpus(
        "nist-zh-en",
        ("zh", "en"),
        ("train.zh", "train.en"),
        ("mt03.zh", "mt03.en0"),
        tuple(
            TestFiles(
                name,
                f"{name}.zh",
                f"{name}.en0",
                None,
                tuple(f"{name}.en{number}" for number in (1, 2, 3)),
            )
            for name in ("mt04", "mt05", "mt06")
        ),
        f"the Linguistic Data Consortium; {_RECIPE}",
        bleu_tokenize="none",
        vocabulary=32_000,
        metric="multi-bleu",
        ignores_case=True,
        data={"lowercase": True, "max_words": 50},
    ),
    KnownCorpus(
        "wmt14-en-de",
        ("en", "de"),
        ("train.en", "train.de"),
        ("newstest2013.en", "newstest2013.de"),
        (TestFiles("newstest2014", "newstest2014.en", "newstest2014.de"),),
        f"statmt.org/wmt14; {_RECIPE}",
        vocabulary=32_000,
    ),
    KnownCorpus(
        "wmt16-en-ro",
        ("en", "ro"),
        ("train.en", "train.ro"),
        ("newsdev2016.en", "newsdev2016.ro"),
        (TestFiles("newstest2016", "newstest2016.en", "newstest2016.ro"),),
        f"statmt.org/wmt16; {_RECIPE}",
        vocabulary=32_000,
    ),
    KnownCorpus(
        "lcsts",
        ("zh", "zh"),
        ("train.text", "train.headline"),
        ("valid.text", "valid.headline"),
        (TestFiles("test", "test.text", "test.headline"),),
        f"Harbin Institute of Technology, Shenzhen; {_RECIPE}",
        bleu_tokenize="char",
        vocabulary=4000,
        is_summary=True,
        tokenizer={"kind": "char"},
    ),
]
CORPORA: dict[str, KnownCorpus] = {corpus.name: corpus for corpus in _ALL}


def find_corpus(
    name: str, root: Path | None, out: Path, *, pairs: int, sentences: int | None
) -> FoundCorpus:
    """Finds a corpus in its folder, or generates it under `out`."""
    known = CORPORA.get(name)
    if known is None:
        raise UntoldError(f"--data {name}: there is none of this name; known: {', '.join(CORPORA)}")
    if known.grammar is not None:
        if root is not None:
            raise UntoldError(f"--root {root} has no effect: {name} is generated: leave out --root")
        root = out / "data" / name
        write_sample(known.grammar, pairs, _SEED, root)
    elif root is None:
        raise UntoldError(f"--data {name} needs --root FOLDER with {', '.join(known.paths)}")
    missing = [path for path in known.paths if not _existing(root, path).exists()]
    if missing:
        raise UntoldError(
            f"--root {root}: {missing[0]} is missing there ({known.origin}); the folder must hold "
            f"{', '.join(known.paths)}"
        )
    return FoundCorpus(known, root, sentences)


def _hash_lines(path: Path) -> str:
    found = path.stat()
    return _hash_lines_of_version(path, found.st_mtime_ns, found.st_size)


@cache
def _hash_lines_of_version(path: Path, _changed: int, _size: int) -> str:
    """Reads a file once, as long as it does not change; a compressed one has the same hash."""
    return hash_texts(read_lines(path))


def _ignore(_notice: str) -> None:
    """Says nothing: a test set is read many times."""


def _existing(root: Path, path: str) -> Path:
    """Returns the file, compressed or not: the one that is there."""
    plain = path.removesuffix(".gz")
    forms = (root / path, root / plain, root / f"{plain}.gz")
    return next((form for form in forms if form.exists()), forms[0])


Settings = Mapping[str, object]  # by dotted name, as in --set


@dataclass(frozen=True)
class Phase:
    """Says how long a model trains, and how fast it learns."""

    updates: int
    learning_rate: float
    warmup: int

    def settings(self) -> Settings:
        """Returns a schedule that ends with the last update."""
        return {
            "train.steps": self.updates,
            "train.learning_rate": self.learning_rate,
            "train.schedule": "linear",
            "train.warmup": self.warmup,
            "train.validate_every": self.updates,
            "train.save_every": max(1, self.updates // 4),
            "train.keep": 1,
        }


@dataclass(frozen=True)
class Scale:
    """Holds the sizes that all systems of an experiment share."""

    name: str
    meaning: str
    base: Phase  # the plain model that others start from
    further: Phase  # what comes on top of it
    recurrent: Phase  # an RNMT, which learns more slowly
    sequence: Phase  # training on whole translations
    settings: Settings  # of all systems
    transformer: Settings = field(default_factory=dict)  # of those that are no RNMT
    pairs: int = 0  # of the embedded grammar
    vocabulary: int | None = None  # of all corpora; unset, the corpus says
    seeds: int = 1  # of the systems that the paper's claims rest on
    other_seeds: int = 1
    sentences: int | None = None  # of each test set; unset, all
    penalty_weights: int = 5  # of each coverage penalty, tried on the development set
    further_settings: Settings = field(default_factory=dict)


_PAPER = {
    "train.batch_tokens": 25_000,
    "train.label_smoothing": 0.1,
    "decode.beam": 4,
    "decode.length_penalty": 0.6,
}

SCALES = {
    "smoke": Scale(
        "smoke",
        "a few minutes on one core, on the embedded grammar: everything runs, figures mean little",
        base=Phase(250, 5e-3, 50),
        further=Phase(25, 2e-3, 5),
        recurrent=Phase(40, 5e-3, 10),
        sequence=Phase(1, 3e-4, 0),
        settings={
            "model.preset": "tiny",
            "model.dropout": 0.1,
            "train.batch_tokens": 1024,
            "train.best_by": "loss",
            "decode.beam": 4,
        },
        transformer={"model.encoder_layers": 2, "model.decoder_layers": 2},
        pairs=4000,
        vocabulary=1000,
        sentences=40,
        penalty_weights=2,
    ),
    "small": Scale(
        "small",
        "hours on one core: a tiny Transformer, as long as it takes to learn from 30,000 pairs",
        base=Phase(3000, 5e-3, 400),
        further=Phase(300, 2e-3, 50),
        recurrent=Phase(3000, 4e-3, 300),
        sequence=Phase(100, 3e-4, 0),
        settings={
            "model.preset": "tiny",
            "model.dropout": 0.3,
            "train.batch_tokens": 4096,
            "decode.beam": 5,
            "decode.length_penalty": 1.0,
        },
        pairs=40_000,
        seeds=3,
        other_seeds=2,
    ),
    "paper": Scale(
        "paper",
        "the paper's own settings: base models, 100,000 updates of 25,000 tokens, several GPUs",
        base=Phase(100_000, 7e-4, 4000),
        further=Phase(100_000, 7e-4, 4000),
        recurrent=Phase(100_000, 5e-4, 4000),
        sequence=Phase(10_000, 1e-5, 0),
        settings={"model.preset": "base", "model.dropout": 0.1, **_PAPER},
        further_settings={"model.separator.d_capsule": 256},
        pairs=100_000,
    ),
}
