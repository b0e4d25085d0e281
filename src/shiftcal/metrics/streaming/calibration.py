"""Streaming forms of `shiftcal.metrics.calibration`: exact for equal-width bins, bounded for equal-mass bins."""

from __future__ import annotations

import numpy as np

from shiftcal.metrics.binning import DEFAULT_NUM_BINS, confidence_bins, occupied
from shiftcal.metrics.calibration import (
    ReliabilityCurve,
    calibration_gap,
    classwise_bins,
    classwise_gap,
    curve_from_bins,
    equal_mass_cuts,
    equal_mass_gap,
)
from shiftcal.metrics.checks import CheckedPredictions, FloatArray, check_num_bins
from shiftcal.metrics.streaming.base import Result, StreamingMetric
from shiftcal.metrics.streaming.cells import DEFAULT_NUM_CELLS, ConfidenceCells, misplaced_hits


class _Binned(StreamingMetric[Result]):
    """Totals of the top-1 confidence in equal-width bins: (3, num_bins) numbers."""

    def __init__(self, *, num_bins: int = DEFAULT_NUM_BINS) -> None:
        super().__init__()
        self.num_bins = check_num_bins(num_bins)

    def _settings(self) -> dict[str, int]:
        return {"num_bins": self.num_bins}

    def _batch_totals(self, predictions: CheckedPredictions) -> FloatArray:
        return confidence_bins(predictions, self.num_bins)


class StreamingExpectedCalibrationError(_Binned[float]):
    """`expected_calibration_error` over batches, exact.

    Raises:
        InvalidInputError: `num_bins` below 1.

    Example:
        >>> import numpy as np
        >>> metric = StreamingExpectedCalibrationError()
        >>> for label in (0, 1):
        ...     _ = metric.update(np.array([[0.9, 0.1]]), np.array([label]))
        >>> round(metric.compute(), 6)
        0.4
    """

    def _result(self, totals: FloatArray) -> float:
        return calibration_gap(totals)


class StreamingReliabilityCurve(_Binned[ReliabilityCurve]):
    """`reliability_curve` over batches, exact.

    Raises:
        InvalidInputError: `num_bins` below 1.

    Example:
        >>> import numpy as np
        >>> metric = StreamingReliabilityCurve(num_bins=2)
        >>> metric.update(np.array([[0.75, 0.25]]), np.array([0])).compute().count
        array([0, 1])
    """

    def _result(self, totals: FloatArray) -> ReliabilityCurve:
        return curve_from_bins(totals)


class StreamingClasswiseCalibrationError(_Binned[float]):
    """`classwise_calibration_error` over batches, exact: (C, 3, num_bins) numbers.

    Raises:
        InvalidInputError: `num_bins` below 1.

    Example:
        >>> import numpy as np
        >>> metric = StreamingClasswiseCalibrationError()
        >>> for label in (0, 1):
        ...     _ = metric.update(np.array([[0.9, 0.1]]), np.array([label]))
        >>> round(metric.compute(), 6)
        0.4
    """

    def _batch_totals(self, predictions: CheckedPredictions) -> FloatArray:
        return classwise_bins(predictions, self.num_bins)

    def _result(self, totals: FloatArray) -> float:
        return classwise_gap(totals)


class StreamingAdaptiveCalibrationError(ConfidenceCells[float]):
    r"""`adaptive_calibration_error` over batches, from a fine histogram of the confidence.

    The samples of a cell count with the means of the cell. Only a cell that is cut by the edge of an
    equal-mass bin can misplace anything, so the result differs from the plain function's by at most

    .. math:: \frac{2}{N} \sum_{\mathrm{edges}} \left(\frac{h (n - h)}{n} + n (\bar c - a)\right)

    over the inner edges of equal-mass bins that cut a cell, with n samples, h right answers, mean confidence c
    and lower end a of that cell. `error_bound` gives this number; for N samples spread evenly over the cells
    it is below (num_bins - 1) / num_cells.

    Raises:
        InvalidInputError: `num_bins` or `num_cells` below 1.

    Example:
        >>> import numpy as np
        >>> metric = StreamingAdaptiveCalibrationError(num_bins=2)
        >>> _ = metric.update(np.array([[0.6, 0.4], [0.7, 0.3]]), np.array([0, 1]))
        >>> _ = metric.update(np.array([[0.8, 0.2], [1.0, 0.0]]), np.array([0, 0]))
        >>> round(metric.compute(), 6), metric.error_bound()
        (0.125, 0.0)
    """

    def __init__(self, *, num_bins: int = DEFAULT_NUM_BINS, num_cells: int = DEFAULT_NUM_CELLS) -> None:
        super().__init__(num_cells=num_cells)
        self.num_bins = check_num_bins(num_bins)

    def error_bound(self) -> float:
        """Return the bound of the class docstring for the samples so far."""
        totals = self._sums()
        count, confidence, _ = totals
        rank = np.cumsum(count)
        cuts = equal_mass_cuts(occupied(totals), self.num_bins)[1:-1]
        cell = np.searchsorted(rank, cuts, side="left")
        # A cut between two cells misplaces nothing.
        cell = cell[cuts < rank[cell]]
        spread = np.maximum(confidence - count * self._edges[:-1], 0)
        return float(2 * (misplaced_hits(totals) + spread)[cell].sum() / rank[-1])

    def _settings(self) -> dict[str, int]:
        return {"num_bins": self.num_bins, **super()._settings()}

    def _result(self, totals: FloatArray) -> float:
        return equal_mass_gap(totals, self.num_bins)
