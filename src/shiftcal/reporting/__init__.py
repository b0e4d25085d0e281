"""Tables and the HTML report, made from predictions on disk alone."""

from shiftcal.reporting.contents import RunContents
from shiftcal.reporting.report import write_report
from shiftcal.reporting.tables import Cell, ComparisonTable, as_html, as_markdown, as_text, comparison_table

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
