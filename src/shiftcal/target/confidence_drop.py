"""Whether a batch is said of with less confidence than the reference, in units of accuracy.

    h(x) = isotonic regression of "right" on the confidence of reference rows      (as CBPE: calibrated_confidence.py)
    z    = ( mean_batch h - mean_reference h ) / ( s sqrt(1/n + 1/N) )

s is the deviation of h on the reference. Confidence is skewed, most rows are sure: the p-value is of the normal
distribution after the first Cornish-Fisher term, with g the skewness of that difference of means,

    p = Phi( z - g (z^2 - 1) / 6 ),      g = skewness (1/n^2 - 1/N^2) / (1/n + 1/N)^1.5

(Hall, "The Bootstrap and Edgeworth Expansion", 1992, section 2.5). The rows of several batches together are tested in
the same way; the reference's own error is counted each time, so that it is not taken for a drop that persists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.isotonic import IsotonicRegression

_FloatArray = NDArray[np.float64]


class ConfidenceReference:
    """Calibrated confidence of reference rows.

    Args:
        confidence: (N,) of the predicted class.
        right: (N,) whether it is the true one.
    """

    def __init__(self, confidence: _FloatArray, right: NDArray[np.bool_]) -> None:
        self._regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(confidence, right)
        own = self.calibrated(confidence)
        self.mean = float(own.mean())
        self._spread = Spread(len(own), float(own.std()), float(_skewness(own)))

    def calibrated(self, confidence: _FloatArray) -> _FloatArray:
        """h (M,): how often the model was right on the reference where it was that sure."""
        return np.asarray(self._regression.predict(confidence), dtype=np.float64)

    def drop_p_value(self, mean: float, num_rows: int) -> float:
        """Of the hypothesis that a mean of h over so many rows is no lower than by chance."""
        return mean_drop_p_value(mean - self.mean, num_rows, self._spread)


class Spread(NamedTuple):
    """Of values of reference rows."""

    num_rows: int
    deviation: float
    skewness: float


def mean_drop_p_value(difference: float, num_rows: int, reference: Spread) -> float:
    """One-sided p-value of a mean of so many rows that differs by this from the mean of the reference."""
    if reference.deviation == 0:
        return 1.0 if difference >= 0 else 0.0
    own, others = 1 / num_rows, 1 / reference.num_rows
    z = difference / (reference.deviation * np.sqrt(own + others))
    skewness = reference.skewness * (own**2 - others**2) / (own + others) ** 1.5
    return float(ndtr(z - skewness * (z**2 - 1) / 6))


def _skewness(values: _FloatArray) -> float:
    deviation = values.std()
    return 0.0 if deviation == 0 else float((((values - values.mean()) / deviation) ** 3).mean())
