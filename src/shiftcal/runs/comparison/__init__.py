"""Methods x tasks x seeds on equal terms: the same data, backbone, budget and seeds for every method."""

from __future__ import annotations

from shiftcal.runs.comparison.contenders import Contender, parse_contenders
from shiftcal.runs.comparison.plan import ComparisonPlan
from shiftcal.runs.comparison.scheduler import run_comparison
from shiftcal.runs.comparison.tables import find_cells, write_tables

__all__ = ["ComparisonPlan", "Contender", "find_cells", "parse_contenders", "run_comparison", "write_tables"]
