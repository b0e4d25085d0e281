"""How well two samples can be told apart: 0 where not at all, 1 where always.

    separation = 2 AUC - 1,  AUC of a logistic regression of the sample, each row judged by a fit without that row

Rows that a fit has seen would be told apart however alike the samples are; out of fold, like samples give 0.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

_NUM_FOLDS = 5
# scikit-learn's C: strong enough a penalty for a thousand columns and a hundred rows.
_INVERSE_PENALTY = 0.01
_MOST_ROWS = 2_000


def separation(first: Tensor, second: Tensor, first_weights: Tensor | None = None) -> float:
    """Separation of two samples (N, F) and (M, F); 0 if one of them has fewer than two rows.

    Args:
        first: rows that count by `first_weights` (N,), or all alike.
        second: rows that all count alike.
        first_weights: above 0.
    """
    fewest = min(len(first), len(second))
    if fewest < 2:
        return 0.0
    weights = torch.ones(len(first)) if first_weights is None else first_weights
    first, second, weights = (
        rows[evenly_spread(len(rows), _MOST_ROWS)] for rows in (first, second, weights / weights.mean())
    )
    is_second = np.repeat([0, 1], [len(first), len(second)])
    row_weights = np.concatenate([weights.numpy(), np.ones(len(second))])
    regression = make_pipeline(
        StandardScaler(), LogisticRegression(C=_INVERSE_PENALTY, class_weight="balanced", max_iter=1000)
    )
    folds = StratifiedKFold(min(_NUM_FOLDS, fewest), shuffle=True, random_state=0)
    logits = cross_val_predict(
        regression,
        torch.cat([first, second]).numpy(),
        is_second,
        cv=folds,
        method="decision_function",
        params={"logisticregression__sample_weight": row_weights},
    )
    return max(2 * float(roc_auc_score(is_second, logits, sample_weight=row_weights)) - 1, 0.0)


def evenly_spread(num_rows: int, most: int) -> Tensor:
    """At most so many row numbers, evenly spread over all."""
    return torch.linspace(0, num_rows - 1, min(num_rows, most), dtype=torch.float64).round().long()
