"""Adequacy sheets: people rate translations of anonymous systems, and their ratings are counted."""

from untold.evaluation.adequacy_sheet.rater_agreement import (
    RaterAgreement,
    measure_agreement,
    ordinal_alpha,
)
from untold.evaluation.adequacy_sheet.rater_file import RaterFile, Rating, read_rater_file
from untold.evaluation.adequacy_sheet.sheet_cells import (
    COLUMNS,
    GUARD,
    guard_cell,
    sheet_csv,
    unguard_cell,
)
from untold.evaluation.adequacy_sheet.sheet_drawing import (
    MOST_SYSTEMS,
    Sheet,
    SheetRow,
    SheetTexts,
    draw_sheet,
    read_sheet_texts,
)
from untold.evaluation.adequacy_sheet.sheet_key import KeyRow, SheetKey, key_json, read_key
from untold.evaluation.adequacy_sheet.sheet_results import (
    MeasureDifference,
    RatedPair,
    RatedSystem,
    SheetResults,
    aggregate_ratings,
)

__all__ = [
    "COLUMNS",
    "GUARD",
    "MOST_SYSTEMS",
    "KeyRow",
    "MeasureDifference",
    "RatedPair",
    "RatedSystem",
    "RaterAgreement",
    "RaterFile",
    "Rating",
    "Sheet",
    "SheetKey",
    "SheetResults",
    "SheetRow",
    "SheetTexts",
    "aggregate_ratings",
    "draw_sheet",
    "guard_cell",
    "key_json",
    "measure_agreement",
    "ordinal_alpha",
    "read_key",
    "read_rater_file",
    "read_sheet_texts",
    "sheet_csv",
    "unguard_cell",
]
