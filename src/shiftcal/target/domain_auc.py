"""How well two samples can be told apart: 0.5 where not at all, 1 where always.

The area under the ROC curve of a logistic regression of the domain, each row judged by a fit without that row. Rows
that a fit has seen would be told apart however alike the samples are; out of fold, like samples give 0.5.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from shiftcal.target.evidence import log_probabilities
from shiftcal.target.out_of_fold import out_of_fold_log_odds
from shiftcal.target.row_order import stratified_folds
from shiftcal.target.sampling import sampled_rows

_NUM_FOLDS = 5
# scikit-learn's C: strong enough a penalty for a thousand columns and a hundred rows.
_INVERSE_PENALTY = 0.01
_MOST_ROWS = 2_000


def domain_auc(first: Tensor, second: Tensor, first_weights: Tensor | None = None) -> float:
    """AUC of telling two samples (N, F) and (M, F) apart, at least 0.5; 0.5 if one has fewer than two rows.

    Args:
        first: rows that count by `first_weights` (N,), or all alike.
        second: rows that all count alike.
        first_weights: above 0.
    """
    fewest = min(len(first), len(second))
    if fewest < 2:
        return 0.5
    weights = torch.ones(len(first)) if first_weights is None else first_weights
    first, second, weights = (
        rows[sampled_rows(len(rows), _MOST_ROWS)] for rows in (first, second, weights / weights.mean())
    )
    is_second = np.repeat([0, 1], [len(first), len(second)])
    row_weights = np.concatenate([weights.numpy(), np.ones(len(second))])
    regression = make_pipeline(
        StandardScaler(), LogisticRegression(C=_INVERSE_PENALTY, class_weight="balanced", max_iter=1000)
    )
    rows = torch.cat([first, second]).numpy()
    folds = stratified_folds(rows, is_second, min(_NUM_FOLDS, fewest), seed=0)
    logits = out_of_fold_log_odds(regression, rows, is_second, folds, logisticregression__sample_weight=row_weights)
    return max(float(roc_auc_score(is_second, logits, sample_weight=row_weights)), 0.5)


def domain_auc_of_outputs(held_out: Tensor, target: Tensor, *, fewest: int, largest_weight: float) -> float | None:
    """How well logits of held-out source rows (N, C) can be told from those of target rows (M, C).

    Each predicted class counts on the source as often as on the target: a target on which other classes are frequent
    is no harder for that. Two domains can be told apart by what does not matter to the classifier (a camera, say);
    its outputs show what does.

    Args:
        held_out, target: logits.
        fewest: held-out rows of classes that are predicted on the target, below which there is no answer (None).
        largest_weight: of a held-out row: a class that is hardly ever predicted on the source says little.
    """
    predicted = [logits.argmax(dim=-1) for logits in (held_out, target)]
    frequency, wanted = (labels.bincount(minlength=held_out.shape[-1]) / len(labels) for labels in predicted)
    weights = (wanted / frequency).clamp_max(largest_weight)[predicted[0]]
    counts = weights > 0
    if counts.sum() < fewest:
        return None
    return domain_auc(log_probabilities(held_out[counts]), log_probabilities(target), weights[counts])
