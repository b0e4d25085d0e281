"""What a density ratio estimator is: options, and `fit`, which gives an object that predicts.

Every estimator works on features that are standardised over both domains (each domain with half of the weight): a
ratio of densities is the same in any units, so this changes nothing but the conditioning.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np

from shiftcal.core.options import option
from shiftcal.metrics.checks import Array, FloatArray, IntArray
from shiftcal.target.density_ratios.checks import check_domains, check_features, check_seed
from shiftcal.target.density_ratios.diagnostics import Diagnostics, diagnose
from shiftcal.target.density_ratios.folds import fold_numbers
from shiftcal.target.density_ratios.preparation import Projection, Standardization
from shiftcal.target.row_order import content_order

LogRatio: TypeAlias = Callable[[FloatArray], FloatArray]
"""From features (K, F) to log R (K,)."""

_NUM_DIAGNOSTIC_FOLDS = 3
# Kernels against thousands of points are computed for so many rows at a time, to bound the memory.
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, kw_only=True)
class DensityRatioEstimator(ABC):
    """Base of all estimators of R(x) = P_source(x) / P_target(x); it holds options only."""

    bound: float = option(1000.0, "the ratio is clipped to [1/bound, bound]", above=1)
    num_components: int | None = option(
        None, "project on so many principal components first; None: keep all features", at_least=1, at_most=10_000
    )

    def fit(self, source_features: Array, target_features: Array, *, seed: int = 0) -> FittedDensityRatio:
        """Learn the ratio from features (N, F) of the source and (M, F) of the target, NumPy or torch.

        Raises:
            InvalidInputError: not finite numbers of shape (rows, features), fewer than 10 rows, or different
                numbers of features.
        """
        source, target = check_domains(source_features, target_features)
        return FittedDensityRatio(self, self._fitted(source, target, check_seed(seed)), source, target, seed)

    def held_out_log_ratio(
        self, source: FloatArray, target: FloatArray, source_fold: IntArray, target_fold: IntArray, seed: int
    ) -> tuple[FloatArray, FloatArray]:
        """log R of every row of both domains, not clipped, each by a fit that did not see the row: (N,) and (M,).

        Args:
            source: (N, F) features.
            target: (M, F) features.
            source_fold, target_fold: (N,) and (M,) fold numbers from 0; rows of a fold are held out together.
            seed: of the fits.
        """
        source_values, target_values = np.empty(len(source)), np.empty(len(target))
        for fold in range(source_fold.max() + 1):
            held_source, held_target = source_fold == fold, target_fold == fold
            fitted = self._fitted(source[~held_source], target[~held_target], seed)
            source_values[held_source] = fitted.unclipped(source[held_source])
            target_values[held_target] = fitted.unclipped(target[held_target])
        return source_values, target_values

    @abstractmethod
    def fit_log_ratio(self, source: FloatArray, target: FloatArray, generator: np.random.Generator) -> LogRatio:
        """Learn log R from standardised features (N, F) and (M, F); the result is a picklable function."""

    def standardization(self, source: FloatArray, target: FloatArray) -> Standardization:
        """The units that features are brought to first."""
        return Standardization.of(source, target)

    def _fitted(self, source: FloatArray, target: FloatArray, seed: int) -> BoundedLogRatio:
        # Kernels, folds and batches are drawn by row number.
        source, target = in_content_order(source), in_content_order(target)
        standardization = self.standardization(source, target)
        source, target = standardization(source), standardization(target)
        projection = Projection.of(source, target, self.num_components)
        log_ratio = self.fit_log_ratio(projection(source), projection(target), np.random.default_rng((seed, 0)))
        return BoundedLogRatio(standardization, projection, log_ratio, math.log(self.bound))


def in_content_order(rows: FloatArray) -> FloatArray:
    """Rows (N, F) in an order that does not depend on the one in which they came."""
    return rows[content_order(rows)]


@dataclass(frozen=True)
class BoundedLogRatio:
    """log R of raw features, clipped to [-limit, limit]."""

    standardization: Standardization
    projection: Projection
    log_ratio: LogRatio
    limit: float

    def __call__(self, features: FloatArray) -> FloatArray:
        """From features (K, F) to log R (K,)."""
        return np.clip(self.unclipped(features), -self.limit, self.limit)

    def unclipped(self, features: FloatArray) -> FloatArray:
        """The same before it is clipped."""
        parts = [
            self.log_ratio(self.projection(self.standardization(features[start : start + _ROWS_AT_ONCE])))
            for start in range(0, len(features), _ROWS_AT_ONCE)
        ]
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class FittedDensityRatio:
    """A density ratio that was learnt; it keeps the features that it was learnt from for its diagnostics."""

    estimator: DensityRatioEstimator
    log_ratio: BoundedLogRatio
    source: FloatArray = field(repr=False)
    target: FloatArray = field(repr=False)
    seed: int

    def predict(self, features: Array) -> FloatArray:
        """R of features (K, F): (K,) positive numbers within [1/bound, bound].

        Raises:
            InvalidInputError: not finite numbers of shape (K, F).
        """
        checked = check_features(features, "features", num_features=self.source.shape[1])
        return np.exp(self.log_ratio(checked))

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """How far the ratio can be trusted, from held-out predictions; made on first use, by three more fits."""
        generator = np.random.default_rng((self.seed, 1))
        source, target = in_content_order(self.source), in_content_order(self.target)
        source_fold = fold_numbers(len(source), _NUM_DIAGNOSTIC_FOLDS, generator)
        target_fold = fold_numbers(len(target), _NUM_DIAGNOSTIC_FOLDS, generator)
        values = self.estimator.held_out_log_ratio(source, target, source_fold, target_fold, self.seed)
        return diagnose(*values, bound=self.estimator.bound, seed=self.seed)
