"""Estimators of the density ratio R(x) = P_source(x) / P_target(x) on features: one file each, listed here alone.

>>> import numpy as np
>>> generator = np.random.default_rng(0)
>>> source, target = generator.normal(size=(500, 2)), generator.normal(size=(400, 2)) + [1, 0]
>>> ratio = density_ratio_estimator("logistic").fit(source, target, seed=0)
>>> (ratio.predict(np.array([[-2.0, 0.0], [3.0, 0.0]])) > 1).tolist()
[True, False]
>>> ratio.diagnostics.verdict
'overlapping: the domains differ and share their support, so the ratios can be used'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftcal.core import options as option_rules
from shiftcal.core.errors import UnknownNameError
from shiftcal.target.density_ratios.base import DensityRatioEstimator, FittedDensityRatio
from shiftcal.target.density_ratios.diagnostics import Diagnostics, LogRatioSummary
from shiftcal.target.density_ratios.gaussian import Gaussian
from shiftcal.target.density_ratios.kernel_density import KernelDensity
from shiftcal.target.density_ratios.kernel_mean_matching import KernelMeanMatching
from shiftcal.target.density_ratios.kliep import KLIEP
from shiftcal.target.density_ratios.logistic import Logistic
from shiftcal.target.density_ratios.network import Network
from shiftcal.target.density_ratios.rulsif import RuLSIF
from shiftcal.target.density_ratios.ulsif import ULSIF

__all__ = [
    "DENSITY_RATIOS",
    "DensityRatioEstimator",
    "Diagnostics",
    "FittedDensityRatio",
    "LogRatioSummary",
    "density_ratio_class",
    "density_ratio_estimator",
]

DENSITY_RATIOS: dict[str, type[DensityRatioEstimator]] = {
    "gaussian": Gaussian,
    "kernel-density": KernelDensity,
    "kernel-mean-matching": KernelMeanMatching,
    "kliep": KLIEP,
    "logistic": Logistic,
    "network": Network,
    "rulsif": RuLSIF,
    "ulsif": ULSIF,
}


def density_ratio_estimator(name: str, options: Mapping[str, Any] | None = None) -> DensityRatioEstimator:
    """The estimator of that name with these options, each of them checked; `fit` it to two sets of features.

    Raises:
        UnknownNameError: an estimator or an option that does not exist; with the closest that does.
        InvalidInputError: an option of the wrong type or out of range.
    """
    return option_rules.build(density_ratio_class(name), options, owner=f"density ratio {name!r}")


def density_ratio_class(name: str) -> type[DensityRatioEstimator]:
    """The estimator of that name.

    Raises:
        UnknownNameError: there is none; with the closest that there is.
    """
    if name not in DENSITY_RATIOS:
        raise UnknownNameError("density ratio", name, DENSITY_RATIOS)
    return DENSITY_RATIOS[name]
