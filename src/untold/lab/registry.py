"""All items of the paper's evidence, by name."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from untold.config import SeparatorConfig
from untold.errors import UntoldError
from untold.lab.analysis import CoverageItem, OursItem, OverlapItem, SeparationItem, SpeedItem
from untold.lab.figures import BarItem, HeatmapItem, LengthItem, Sweep, SweepItem
from untold.lab.items import EvidenceItem
from untold.lab.long_and_noisy import ConcatItem, OmissionItem
from untold.lab.scores import ScoreItem, SummaryItem, find_systems
from untold.lab.systems import SYSTEMS, System, variant


def _sweep(setting: str, label: str, values: Sequence[object]) -> Sweep:
    each = [_with_value(_values(setting, value), f"{label} = {value}") for value in values]
    return Sweep(label, [str(value) for value in values], each)


def _with_value(settings: Mapping[str, object], title: str) -> System:
    """Returns both losses with other settings; where they are the defaults it is trained once."""
    if all(SeparatorConfig.model_fields[key].default == settings[key] for key in settings):
        return replace(SYSTEMS["both"], title=title)
    return variant("both", f"both-{title.replace(' = ', '')}", title, **settings)


def _pairs(*names: str) -> list[tuple[System, System]]:
    """Reads "before after"."""
    return [(SYSTEMS[before], SYSTEMS[after]) for before, after in map(str.split, names)]


def _values(setting: str, value: object) -> dict[str, object]:
    if setting == "capsules":
        return {"past": value, "future": value, "redundant": value}
    return {setting: value}


_ITEMS: list[EvidenceItem] = [
    ScoreItem(
        "table1",
        "Main results: Transformer and RNMT with past and future",
        "The paper (Table 1, Zh-En): GDR +.85, with both losses +1.59, without redundant capsules "
        "+1.24 BLEU over the Transformer; RNMT 36.61, PFRNN 37.85, AOL 38.16, ours 38.45.",
        [
            find_systems("control", "wide", "bags", "gdr", "bow", "bca", "both", "no-redundant"),
            find_systems(
                "rnmt-control", "rnmt-coverage", "pfrnn", "aol", "aol-judged", "rnmt-both"
            ),
        ],
        _pairs(
            *("gdr bow", "gdr bca", "bow both", "no-redundant both", "wide both"),
            *("pfrnn rnmt-both", "aol rnmt-both"),
        ),
    ),
    ScoreItem(
        "table2",
        "Other language pairs",
        "The paper (Table 2): En-De 27.14 to 28.10, En-Ro 32.10 to 32.96; GNMT with RL is a row.",
        [find_systems("control", "both"), find_systems("rnmt-control", "gnmt-rl")],
    ),
    CoverageItem(
        "table3",
        "Adequacy: coverage of source words",
        "The paper (Table 3): CDR rises from .73 to .79, and raters see fewer omissions.",
        find_systems("control", "both"),
    ),
    HeatmapItem(
        "figure4",
        "What is past and future before each word",
        "The paper (Figure 4): source words turn from FUTURE to PAST when they are translated.",
        find_systems("both", "ours"),
        1,
    ),
    LengthItem(
        "figure5",
        "Translations by the length of their source",
        "The paper (Figure 5): the gain grows with the length, and outputs are longer.",
        find_systems("control", "both"),
    ),
    BarItem(
        "figure6",
        "Attention, classifier and routing under the same losses",
        "The paper (Figure 6): ATTN and CLF gain less than GDR.",
        find_systems("control", "attn", "clf", "both"),
    ),
    SweepItem(
        "figure7",
        "Width of a capsule, capsules of a category, and rounds of routing",
        "The paper (Figure 7): medium sizes suffice, and three rounds are best.",
        SYSTEMS["control"],
        [
            _sweep("d_capsule", "width", (16, 64, 128)),
            _sweep("capsules", "capsules", (1, 2, 4)),
            _sweep("num_iterations", "rounds", (1, 3, 5)),
        ],
    ),
    HeatmapItem(
        "figure8",
        "More sentences: reordering, and several words that become one",
        "The paper (Figure 8): the same behaviour on further sentences.",
        find_systems("both", "ours"),
        4,
    ),
    OverlapItem(
        "overlap",
        "Which words past and future predict",
        "The paper: r_OL is .72 for past and .70 for future words.",
        find_systems("both", "ours"),
    ),
    SummaryItem(
        "summarization",
        "Summaries, with and without redundant capsules",
        "The paper (LCSTS): ROUGE-L 35.69 to 39.10, without redundant capsules 37.66.",
        find_systems("control", "both", "no-redundant", "rnmt-control", "copynet", "mrt", "ac-abs"),
    ),
    SpeedItem(
        "speed",
        "Speed of training and translating beside the plain model",
        "The paper: training .77 (GDR), .70, .75, .67 (both), decoding .94; RNMT .62 and .90, "
        "PFRNN .54 and .74.",
        [
            find_systems("control", "gdr", "bow", "bca", "both", "ours"),
            find_systems("rnmt-control", "pfrnn", "rnmt-both"),
        ],
    ),
    SeparationItem(
        "separation",
        "Past and future against word links",
        "Not in the paper: how often past and future are right, beside the position rule.",
        find_systems("both", "clf", "ours"),
    ),
    OursItem(
        "ours",
        "This project's default beside the paper's form",
        "Not in the paper: the default is to separate better at no cost in BLEU.",
        find_systems("control", "both", "ours"),
    ),
    ConcatItem(
        "concat",
        "Sources of one to four sentences",
        "Beyond the paper: longer sources leave more room for omissions.",
        find_systems("control", "wide-ours", "gdr", "both", "ours"),
    ),
    OmissionItem(
        "omission",
        "Trained on references that lack a part",
        "Beyond the paper: a model that learns to omit shows whether past and future help.",
        find_systems("control", "gdr", "both", "ours"),
    ),
]
ITEMS: dict[str, EvidenceItem] = {item.name: item for item in _ITEMS}


def find_item(name: str) -> EvidenceItem:
    """Looks an item up; an unknown one lists those there are."""
    found = ITEMS.get(name)
    if found is None:
        raise UntoldError(f"{name}: there is no such item; known: {', '.join(ITEMS)}")
    return found
