"""Logistic regression of the domain: log R(x) = a + b . x (Bickel et al., Discriminative Learning for Differing
Training and Test Distributions, ICML 2007).

Minimises  mean_source log(1 + exp(-g)) / 2 + mean_target log(1 + exp(g)) / 2 + penalty |b|^2 / (2 n)  with
g = a + b . x and n the number of all rows, on standardised features. Each domain has half of the weight whatever its
number of rows, so R = exp(g) without a correction. The penalty is the one with the smallest held-out loss
(cross-validation), unless it is given.

Good for: learned features of any number; the ratio stays mild, and is exact for Gaussians that differ in their mean.
Does not see a change of variance alone.
Costs: `num_folds` times some ten fits of O((N + M) F) an iteration; half a second for 2,000 x 256.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import log_expit
from sklearn import config_context
from sklearn.linear_model import LogisticRegression

from shiftcal.core.options import option
from shiftcal.metrics.checks import BoolArray, FloatArray, IntArray
from shiftcal.target.density_ratios.base import DensityRatioEstimator, LogRatio
from shiftcal.target.density_ratios.folds import fold_numbers
from shiftcal.target.density_ratios.preparation import Standardization

# Candidates for the penalty, as multiples of the number of rows.
PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.01, 0.001, 0.0001)


@dataclass(frozen=True, kw_only=True)
class Logistic(DensityRatioEstimator):
    """Penalised logistic regression of the domain; good for learned features of any number."""

    penalty: float | None = option(
        None, "of |b|^2 (scikit-learn's 1 / C); None chooses it by cross-validation", above=0
    )
    num_folds: int = option(5, "folds of the cross-validation", at_least=2, at_most=10)
    pooled_units: bool = option(
        False, "standardise by all rows alike, so that the larger domain decides what the penalty weighs"
    )

    def fit_log_ratio(self, source: FloatArray, target: FloatArray, generator: np.random.Generator) -> LogRatio:
        """Coefficients with the best penalty."""
        rows = np.concatenate([source, target])
        is_source = np.arange(len(rows)) < len(source)
        penalty = self.penalty
        if penalty is None:
            folds = [fold_numbers(len(part), self.num_folds, generator) for part in (source, target)]
            penalty = best_penalty(rows, is_source, np.concatenate(folds)) * len(rows)
        slope, intercept = _fit_path(rows, is_source, [penalty])[0]
        return partial(_linear, slope, intercept)

    def standardization(self, source: FloatArray, target: FloatArray) -> Standardization:
        """The units that the penalty is in."""
        if not self.pooled_units:
            return super().standardization(source, target)
        rows = np.concatenate([source, target])
        return Standardization.of(rows, rows)


def best_penalty(rows: FloatArray, is_source: BoolArray, fold: IntArray) -> float:
    """The one of PENALTIES with the smallest held-out domain loss."""
    logits = np.empty((len(PENALTIES), len(rows)))
    for number in range(fold.max() + 1):
        held = fold == number
        num_kept = np.count_nonzero(~held)
        path = _fit_path(rows[~held], is_source[~held], [penalty * num_kept for penalty in PENALTIES])
        logits[:, held] = [_linear(slope, intercept, rows[held]) for slope, intercept in path]
    losses = -log_expit(np.where(is_source, logits, -logits))
    balanced = losses[:, is_source].mean(axis=1) + losses[:, ~is_source].mean(axis=1)
    return float(PENALTIES[int(np.argmin(balanced))])


def _fit_path(rows: FloatArray, is_source: BoolArray, penalties: list[float]) -> list[tuple[FloatArray, float]]:
    """Slope and intercept for each penalty; each fit starts from the one before."""
    model = LogisticRegression(class_weight="balanced", warm_start=True, max_iter=2000)
    path = []
    with config_context(skip_parameter_validation=True):  # a fifth of the time of a fit to some hundred rows
        for penalty in penalties:
            # C multiplies a sum of losses whose balanced weights add up to the number of rows.
            model.set_params(C=1 / penalty).fit(rows, is_source)
            path.append((model.coef_[0].copy(), float(model.intercept_[0])))
    return path


def _linear(slope: FloatArray, intercept: float, rows: FloatArray) -> FloatArray:
    return rows @ slope + intercept
