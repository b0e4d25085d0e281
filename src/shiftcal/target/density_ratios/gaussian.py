"""Two Gaussians: log R(x) = log N(x; m_s, S_s) - log N(x; m_t, S_t).

Means and covariances of each domain, the covariances shrunk towards a multiple of the identity by as much as Ledoit
and Wolf's formula says (J. of Multivariate Analysis 88, 2004). It is the two-stage ratio of RBA (Liu and Ziebart,
Robust Classification Under Sample Selection Bias, NeurIPS 2014), whose densities are given beforehand.

Good for: few features, or features that are roughly Gaussian; sees changes of variance, not of mean alone. In high
dimension small errors of the densities add up, and ratios are far too extreme: project (`num_components`) or bound.
Costs: O((N + M) F^2 + F^3) once; a tenth of a second for 2,000 x 256.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from sklearn.covariance import ledoit_wolf

from shiftcal.functional.gaussian_ratio import QuadraticForm, gaussian_log_density
from shiftcal.metrics.checks import FloatArray
from shiftcal.target.density_ratios.base import DensityRatioEstimator, LogRatio


@dataclass(frozen=True, kw_only=True)
class Gaussian(DensityRatioEstimator):
    """Ratio of two Gaussians with shrunk covariances; good for few features, and for RBA."""

    def fit_log_ratio(self, source: FloatArray, target: FloatArray, generator: np.random.Generator) -> LogRatio:  # noqa: ARG002 - nothing is random here
        """Means and covariances of both domains."""
        return partial(_log_ratio, _log_density(source) - _log_density(target))


def _log_density(rows: FloatArray) -> QuadraticForm:
    covariance, _ = ledoit_wolf(rows)
    return gaussian_log_density(torch.from_numpy(rows.mean(axis=0)), torch.from_numpy(covariance))


def _log_ratio(form: QuadraticForm, rows: FloatArray) -> FloatArray:
    return np.asarray(form(torch.from_numpy(rows)).numpy())
