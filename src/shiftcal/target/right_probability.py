"""How often a classifier is right, by its calibrated confidence and by what its inputs add to that.

    r(x) = h(x) + s g(x)

h is calibrated confidence, as CBPE has it (`shiftcal.target.confidence_drop`). g is a gradient boosting of what h
leaves unexplained, fitted to inputs and h of labelled reference rows; each of these is predicted by trees that did
not see it. s says how far that holds: the slope of what is unexplained on the predictions, less its standard error,

    slope = sum g (right - h) / sum g^2,     s = slope - error of the slope, between 0 and 1

Where inputs say nothing beyond confidence, s is 0, and the mean of r over a batch is CBPE's estimate. Where a model
is right less often on some inputs than it says, batches that have more of them are expected to be so too. As CBPE
this takes for granted that inputs mean what they meant on the reference.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold

from shiftcal.target.diagnosis import Diagnosis

_FloatArray = NDArray[np.float64]

_FOLDS = 3
FEWEST_ROWS = 500
"""Of the reference; fewer have no calibration to be relied on alone, and could confirm nothing of inputs."""


class RightProbability:
    """Learned from reference rows.

    Args:
        calibrated: (N,) confidence of the predicted class, calibrated.
        right: (N,) whether that is the true one.
        inputs: (N, D) numbers, or None where confidence is all there is.
    """

    def __init__(self, calibrated: _FloatArray, right: NDArray[np.bool_], inputs: _FloatArray | None) -> None:
        self._trees: list[HistGradientBoostingRegressor] = []
        self._num_rows = len(right)
        self.share = 0.0
        """s: how far that which inputs add is confirmed."""
        if inputs is not None and inputs.shape[1] and len(right) >= FEWEST_ROWS:
            self._learn(np.column_stack([calibrated, inputs]), right - calibrated)

    def of(self, calibrated: _FloatArray, inputs: _FloatArray | None) -> _FloatArray:
        """r (M,)."""
        if self.share == 0 or inputs is None:
            return calibrated
        described = np.column_stack([calibrated, inputs])
        added = np.mean([trees.predict(described) for trees in self._trees], axis=0)
        return np.asarray((calibrated + self.share * added).clip(0, 1))

    def brought_to(self, found: Diagnosis, calibrated: _FloatArray, inputs: _FloatArray | None) -> Diagnosis:
        """An estimate of a batch, brought to the mean of r over its rows.

        It stands as far as the classes form clusters, which speak for themselves, where other class frequencies
        explain the shift, under which confidence means something else, and where the reference is small.
        """
        assert found.prior_shift is not None
        if found.prior_shift.explains or self._num_rows < FEWEST_ROWS:
            return found
        by_reference = float(self.of(calibrated, inputs).mean())
        if found.new_classes is not None:  # whose rows are wrong, however sure the classifier is of them
            by_reference = min(by_reference, 1 - found.new_classes.seen_share)
        reliability = found.cluster_reliability
        return found.moved_to(reliability * found.accuracy + (1 - reliability) * by_reference)

    def _learn(self, described: _FloatArray, unexplained: _FloatArray) -> None:
        found = np.zeros(len(unexplained))
        for training, others in KFold(_FOLDS, shuffle=True, random_state=0).split(described):
            trees = HistGradientBoostingRegressor(max_leaf_nodes=15, early_stopping=True, random_state=0)
            trees.fit(described[training], unexplained[training])
            found[others] = trees.predict(described[others])
            self._trees.append(trees)
        power = float((found**2).sum())
        if power == 0:
            return
        slope = float((found * unexplained).sum()) / power
        error = math.sqrt(float((found**2 * (unexplained - slope * found) ** 2).sum())) / power
        self.share = min(max(slope - error, 0.0), 1.0)
