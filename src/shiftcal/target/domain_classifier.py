"""A classifier of the domain: how far, and where, two samples can be told apart.

    log p_target(x) / p_source(x) = a + b . z(x)

by logistic regression on principal components z, domains of equal weight, with the penalty of the smallest
out-of-fold loss. Rows that a fit has seen would be told apart however alike the samples are: the log odds of each row
here come from a fit without it. Like samples so give an AUC of 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from torch import Tensor

from shiftcal.target.components import Components
from shiftcal.target.out_of_fold import out_of_fold_log_odds
from shiftcal.target.row_order import stratified_folds
from shiftcal.target.sampling import sampled_rows

_NUM_FOLDS = 5
# scikit-learn's C.
_INVERSE_PENALTIES = (0.001, 0.01, 0.1, 1.0)
_MOST_ROWS = 4_000
# Of log odds: no sample of this size can justify more.
_LARGEST_LOG_ODDS = 6.0


@dataclass(frozen=True)
class DomainClassifier:
    """A fitted classifier, and what it says of the rows that it was fitted to."""

    slope: Tensor
    """(F,) of the features themselves."""
    intercept: Tensor
    source_log_odds: Tensor
    """(N,) of source rows, each by a fit without it."""
    target_log_odds: Tensor
    """(M,)"""

    @property
    def auc(self) -> float:
        """How well the domains can be told apart, from 0.5 to 1."""
        scores = torch.cat([self.source_log_odds, self.target_log_odds]).numpy()
        is_target = np.repeat([0, 1], [len(self.source_log_odds), len(self.target_log_odds)])
        return max(float(roc_auc_score(is_target, scores)), 0.5)


def fit_domain_classifier(source: Tensor, target: Tensor, components: Components) -> DomainClassifier | None:
    """Learn to tell rows (N, F) from rows (M, F); None where either has fewer than two rows for each fold."""
    if min(len(source), len(target)) < 2 * _NUM_FOLDS:
        return None
    parts = [components.of(rows) for rows in (source, target)]
    chosen = [sampled_rows(len(part), _MOST_ROWS) for part in parts]
    rows = torch.cat([part[own] for part, own in zip(parts, chosen, strict=True)]).numpy()
    is_target = np.repeat([0, 1], [len(own) for own in chosen])
    folds = stratified_folds(rows, is_target, _NUM_FOLDS, seed=0)
    out_of_fold = [
        out_of_fold_log_odds(_regression(inverse), rows, is_target, folds) for inverse in _INVERSE_PENALTIES
    ]
    best = int(np.argmin([_balanced_loss(is_target, log_odds) for log_odds in out_of_fold]))
    final = _regression(_INVERSE_PENALTIES[best]).fit(rows, is_target)
    slope, intercept = torch.from_numpy(final.coef_[0]), torch.tensor(float(final.intercept_[0]), dtype=torch.float64)
    log_odds = [part @ slope + intercept for part in parts]
    for values, own, found in zip(log_odds, chosen, np.split(out_of_fold[best], [len(chosen[0])]), strict=True):
        values[own] = torch.from_numpy(found)
    return DomainClassifier(
        components.matrix @ slope,
        intercept - components.offset @ slope,
        *(values.clamp(-_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS) for values in log_odds),
    )


def _regression(inverse_penalty: float) -> LogisticRegression:
    return LogisticRegression(C=inverse_penalty, class_weight="balanced", max_iter=1000)


def _balanced_loss(is_target: NDArray[np.int64], log_odds: NDArray[np.float64]) -> float:
    probability = 1 / (1 + np.exp(-log_odds))
    weights = np.where(is_target, 1 / is_target.sum(), 1 / (1 - is_target).sum())
    return float(log_loss(is_target, probability, sample_weight=weights))
