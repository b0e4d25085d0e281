"""Streaming forms of `shiftcal.metrics.selective`, from a fine histogram of the top-1 confidence."""

from __future__ import annotations

import numpy as np

from shiftcal.metrics.checks import FloatArray
from shiftcal.metrics.selective import (
    RiskCoverageCurve,
    auroc_from_groups,
    harmonic_difference,
    risk_coverage_from_groups,
)
from shiftcal.metrics.streaming.cells import ConfidenceCells, misplaced_hits


class StreamingRiskCoverageCurve(ConfidenceCells[RiskCoverageCurve]):
    r"""`risk_coverage_curve` over batches, with one point per occupied cell of the confidence.

    The points are points of the exact curve, only fewer. The area takes the samples of a cell as equal and
    differs from the plain function's by at most

    .. math:: \frac{1}{N} \sum_{\mathrm{cells}} \frac{h (n - h)}{n} \sum_{m = M + 1}^{M + n} \frac{1}{m}

    with n samples and h right answers in the cell and M samples in the cells above. `error_bound` gives this
    number; for N samples spread evenly over the cells it is below (1 + log N) / (4 num_cells).

    Raises:
        InvalidInputError: `num_cells` below 1.

    Example:
        >>> import numpy as np
        >>> metric = StreamingRiskCoverageCurve().update(np.array([[0.9, 0.1]]), np.array([0]))
        >>> metric.update(np.array([[0.6, 0.4]]), np.array([1])).compute()
        RiskCoverageCurve(coverage=array([0.5, 1. ]), risk=array([0. , 0.5]), area=0.25)
    """

    def error_bound(self) -> float:
        """Return the bound of the class docstring for the samples so far."""
        totals = self._sums()[:, ::-1]
        answered = np.cumsum(totals[0])
        weight = harmonic_difference(answered - totals[0], answered)
        return float((misplaced_hits(totals) * weight).sum() / answered[-1])

    def _result(self, totals: FloatArray) -> RiskCoverageCurve:
        return risk_coverage_from_groups(totals)


class StreamingErrorDetectionAuroc(ConfidenceCells[float]):
    r"""`error_detection_auroc` over batches; pairs within a cell of the confidence count half.

    So the result differs from the plain function's by at most half the share of such pairs,

    .. math:: \frac{1}{2 |R| |W|} \sum_{\mathrm{cells}} h (n - h)

    with n samples and h right answers in the cell. `error_bound` gives this number; for N samples spread
    evenly over the cells, with one accuracy in all of them, it is 1 / (2 num_cells). Both are NaN if all
    answers are right, or all wrong.

    Raises:
        InvalidInputError: `num_cells` below 1.

    Example:
        >>> import numpy as np
        >>> metric = StreamingErrorDetectionAuroc().update(np.array([[0.9, 0.1]]), np.array([0]))
        >>> metric.update(np.array([[0.6, 0.4]]), np.array([1])).compute()
        1.0
    """

    def error_bound(self) -> float:
        """Return the bound of the class docstring for the samples so far."""
        count, _, hits = self._sums()
        pairs = hits.sum() * (count - hits).sum()
        return float((hits * (count - hits)).sum() / (2 * pairs)) if pairs else float("nan")

    def _result(self, totals: FloatArray) -> float:
        return auroc_from_groups(totals)
