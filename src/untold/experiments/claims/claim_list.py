"""Lists the claims of the paper, and some of this project, each with its test and its judge."""

from collections.abc import Sequence
from dataclasses import dataclass

from untold.experiments.claims.verdicts import (
    Judge,
    costs_at_most,
    gains,
    grows_with_length,
    is_best_in_the_middle,
    keeps,
    knows_words,
    rises,
    separates,
)

__all__ = ["CLAIMS", "INCONSISTENCIES", "Claim"]


@dataclass(frozen=True)
class Claim:
    """One claim, with the item that tests it."""

    statement: str
    paper: str  # its figures there
    item: str
    test: str  # what must be so for it to hold
    judges: Sequence[Judge] = ()  # all must agree
    untestable: str = ""  # why it cannot be tested here


_ROUGE = "rougeL F1"
_BY_PAST, _GNMT = "ours, penalty by past", "control, penalty by attention"
CLAIMS = [
    Claim(
        "Routing alone improves a Transformer.",
        "Chinese-English 44.06 to 44.91 BLEU.",
        "table1",
        "GDR against the Transformer continued for as many updates.",
        [gains("table1", "gdr", "control")],
    ),
    Claim(
        "Each of the two losses adds to it.",
        "44.91 to 45.58 with BoW, to 45.43 with BCA.",
        "table1",
        "GDR with one loss against GDR without.",
        [gains("table1", "bow", "gdr"), gains("table1", "bca", "gdr")],
    ),
    Claim(
        "Routing with both losses improves a Transformer.",
        "45.65, 1.59 above the Transformer.",
        "table1",
        "Both losses against the continued Transformer.",
        [gains("table1", "both", "control")],
    ),
    Claim(
        "Both losses together are better than one.",
        "45.65 with both, 45.58 with BoW alone.",
        "table1",
        "Both losses against BoW alone.",
        [gains("table1", "both", "bow")],
    ),
    Claim(
        "Redundant capsules help translation.",
        "45.30 without them, 45.65 with them.",
        "table1",
        "Both losses with and without redundant capsules.",
        [gains("table1", "both", "no-redundant")],
    ),
    Claim(
        "The gain is not one of more parameters.",
        "The paper compares with plain models of its own sizes alone.",
        "table1",
        "Both losses against a Transformer that was widened to as many parameters.",
        [gains("table1", "both", "wide")],
    ),
    Claim(
        "It improves RNMT, more than PFRNN and AOL do.",
        "RNMT 36.61, PFRNN 37.85, AOL 38.16, the paper's 38.45.",
        "table1",
        "RNMT with both losses against RNMT continued, PFRNN and AOL.",
        [gains("table1", "rnmt-both", "rnmt-control", "pfrnn", "aol")],
    ),
    Claim(
        "It improves other language pairs.",
        "English-German 27.14 to 28.10, English-Romanian 32.10 to 32.96.",
        "table2",
        "Both losses against the continued Transformer on each corpus.",
        [gains("table2", "both", "control")],
    ),
    Claim(
        "Translations cover more of the source.",
        "CDR .73 to .79.",
        "table3",
        "CDR (macro) is higher on every seed.",
        [rises("table3", "macro", [("control", "both")])],
    ),
    Claim(
        "People see fewer omissions and repetitions.",
        "Ratings of 200 sentences by two people.",
        "table3",
        "A sheet for raters is made, but nobody rated it.",
        untestable="it needs people; `untold sheet` makes and counts the sheets",
    ),
    Claim(
        "Source words turn from future to past when they are translated.",
        "Heat-maps of single sentences.",
        "separation",
        "The paper's form: AUC and words that turn in time are above the position rule's.",
        [separates("both")],
    ),
    Claim(
        "The gain grows with the length of the source, and long translations are longer.",
        "Curves over six buckets of length.",
        "figure5",
        "Of the buckets with 50 sentences or more, the longest gains BLEU, and more than the "
        "shortest, and its translations grow.",
        [grows_with_length("control", "both")],
    ),
    Claim(
        "Routing separates better than attention or a classifier under the same losses.",
        "Bars of BLEU: Transformer, ATTN, CLF, GDR.",
        "figure6",
        "GDR against ATTN and against CLF.",
        [gains("figure6", "both", "attn", "clf")],
    ),
    Claim(
        "Medium capsules and three rounds are best.",
        "Curves over width, capsules and rounds.",
        "figure7",
        "The best value of each sweep is none of its ends.",
        [is_best_in_the_middle(name) for name in ("width", "capsules", "rounds")],
    ),
    Claim(
        "Past and future capsules predict past and future words.",
        "r_OL .72 for the past and .70 for the future.",
        "overlap",
        "r_OL is .1 above that of the most frequent words on both sides.",
        [knows_words("both", 0.1)],
    ),
    Claim(
        "Summaries improve, and need redundant capsules.",
        "ROUGE-L 35.69 to 39.10, without redundant capsules 37.66.",
        "summarization",
        "ROUGE-L rises on every seed against the continued model and without redundant capsules.",
        [rises("summarization", _ROUGE, [("control", "both"), ("no-redundant", "both")], 2)],
    ),
    Claim(
        "It costs a third of the speed of training and little of decoding.",
        "Training .67 of the Transformer with both losses, decoding .94; RNMT .62 and .90.",
        "speed",
        "Shares of the plain speed are at least those of the paper.",
        [costs_at_most({"both": (0.67, 0.94), "rnmt-both": (0.62, 0.90)})],
    ),
    Claim(
        "This project's default separates past and future at no cost in BLEU.",
        "Not in the paper.",
        "ours",
        "AUC and words that turn in time are above the position rule's, and BLEU is not lost.",
        [separates("ours", item="ours"), keeps("ours", "ours", "control")],
    ),
    Claim(
        "Sources of several sentences gain from it.",
        "Not in the paper, which says so of long sentences.",
        "concat",
        "Both losses against the continued Transformer, both trained on joined sentences: BLEU, "
        "averaged over one to four of them.",
        [gains("concat", "both", "control")],
    ),
    Claim(
        "Trained on references that lack a part, it translates better.",
        "Not in the paper, which trains on whole references.",
        "omission",
        "Both losses against the continued Transformer: BLEU on whole references.",
        [gains("omission", "both", "control")],
    ),
    Claim(
        "Joined sentences gain from this project's default.",
        "Not in the paper.",
        "concat",
        "The default against the continued Transformer, which has fewer parameters, both by plain "
        "search; the claim about parameters, further below, takes one of the same size.",
        [gains("concat", "ours", "control")],
    ),
    Claim(
        "Joined sentences gain from a penalty by past, more than from one by attention.",
        "Not in the paper.",
        "concat",
        "This project's default with a penalty by past against the continued Transformer, which "
        "has fewer parameters, both without a penalty and with GNMT's.",
        [gains("concat", _BY_PAST, "control", _GNMT)],
    ),
    Claim(
        "So do models that were trained on references that lack a part.",
        "Not in the paper.",
        "omission",
        "The same comparison; BLEU on whole references.",
        [gains("omission", _BY_PAST, "control", _GNMT)],
    ),
    Claim(
        "The gain of joined sentences from the default is not one of more parameters.",
        "Not in the paper.",
        "concat",
        "The default against a Transformer that was widened to as many parameters and trained on "
        "joined sentences, both by plain search.",
        [gains("concat", "ours", "wide-ours")],
    ),
]

INCONSISTENCIES = [
    "The column of parameters in Table 1 fits no single set of shapes. Tables here count their "
    "own, and a test compares the count with the formula.",
    "The bags of the text overlap in the current word, while its figures need the word that is "
    "being made to be future alone. `train.bow_window` has both forms.",
    "r_OL takes the best 5(T-t) words at step t, which are none at the last step. Here it is "
    "5(T-t+1), as many as the bag has words.",
    "The agreement loss has a trivial minimum, where capsules and projection vanish. "
    "`model.separator.bca_direction` has the other direction as well.",
    "The released code compares the future states with the past capsules, gives weight to padded "
    "source words, and damps routing by a tanh and a factor that the text does not have. "
    "With them no category can reach the shares of the heat-maps.",
    "The development set that is called newstest2015 for English-Romanian is newsdev2016.",
    "The text says sum over the words of a bag, and the released code takes their mean. "
    "`train.bow_reduction` chooses.",
]
