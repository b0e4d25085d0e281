"""CSV tables that a spreadsheet opens as text and numbers, never as formulas."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftcal.core.files import written_whole

if TYPE_CHECKING:
    import pandas as pd

# What spreadsheets take for the beginning of a formula, or skip before one; also in the width of East Asian type.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

# Kinds of columns: truth values, numbers, times.
_NO_TEXT = "biufcmM"


def write_csv(path: Path, names: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a table; text that a spreadsheet would carry out is preceded by an apostrophe, numbers stay numbers.

    Raises:
        OutputError: it can't be written there.
    """
    with written_whole(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(map(_safe, names))
        writer.writerows(map(_safe, row) for row in rows)


def with_safe_text(table: pd.DataFrame) -> pd.DataFrame:
    """A table as pandas has it with the same done to its text and to the names of its columns."""
    safe = table.copy(deep=False)
    for number, dtype in enumerate(table.dtypes):
        if dtype.kind not in _NO_TEXT:
            safe.isetitem(number, table.iloc[:, number].map(_safe))
    return safe.set_axis([_safe(name) for name in table.columns], axis=1)


def _safe(cell: Any) -> Any:
    if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) and not _is_number(cell):
        return f"'{cell}"
    return cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and text == text.strip()
