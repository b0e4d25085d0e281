"""Log odds out of fold: of each row by a fit that has not seen it.

As `cross_val_predict` of scikit-learn gives them, without what that does around each fit, which takes longer than a
regression of some hundred rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import ClassifierMixin


def out_of_fold_log_odds(
    model: ClassifierMixin,
    rows: NDArray[np.float64],
    labels: NDArray[np.int64],
    folds: NDArray[np.int64],
    **by_row: NDArray[np.float64],
) -> NDArray[np.float64]:
    """What a model of two classes says of rows (N, F).

    Args:
        model: is left fitted to all but the last fold.
        rows, labels: to learn from.
        folds: (N,) from 0; rows of one number are held out together.
        by_row: further arguments of `fit` with an entry for each row.
    """
    found = np.empty(len(rows))
    # The parameters are ours; and a program that routes metadata, as any does that imports skada, would stop weights.
    with config_context(skip_parameter_validation=True, enable_metadata_routing=False):
        for number in range(folds.max() + 1):
            held = folds == number
            kept = {name: values[~held] for name, values in by_row.items()}
            found[held] = model.fit(rows[~held], labels[~held], **kept).decision_function(rows[held])
    return found
