"""Tables and the HTML report, made from predictions on disk alone."""

from shiftcal.runs.reporting.contents import RunContents
from shiftcal.runs.reporting.page import write_report
from shiftcal.runs.reporting.tables import Cell, ComparisonTable, as_html, as_markdown, as_text, comparison_table

__all__ = [
    "Cell",
    "ComparisonTable",
    "RunContents",
    "as_html",
    "as_markdown",
    "as_text",
    "comparison_table",
    "write_report",
]
