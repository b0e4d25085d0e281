"""Can a density ratio be trusted? Figures from held-out predictions, and a verdict in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from shiftcal.metrics import expected_calibration_error
from shiftcal.metrics.checks import FloatArray

SEPARABLE_ACCURACY = 0.95
EXTREME_RATIO = 100.0
# Two normal distributions that are told apart in 90 % of cases have so many extreme ratios.
SEPARABLE_ACCURACY_WITH_EXTREMES = 0.75
SEPARABLE_EXTREME_SHARE = 0.3
MISCALIBRATED = 0.1
FEW_EFFECTIVE_ROWS = 0.05


class LogRatioSummary(NamedTuple):
    """Range and quantiles of log R."""

    minimum: float
    quantile_05: float
    lower_quartile: float
    median: float
    upper_quartile: float
    quantile_95: float
    maximum: float


@dataclass(frozen=True)
class Diagnostics:
    """Figures on a density ratio; all of them from predictions for rows that the fit did not see."""

    num_source: int
    num_target: int
    effective_sample_share: float
    """Kish's effective sample size (sum w)^2 / sum w^2 of the weights w = 1/R on the source, as a share of N."""
    source_log_ratio: LogRatioSummary
    target_log_ratio: LogRatioSummary
    share_at_bound: float
    """Share of rows whose ratio was clipped, each domain with half of the weight."""
    share_extreme: float
    """Share of rows whose ratio was above 100 or below 1/100 before it was clipped; likewise."""
    domain_accuracy: float
    """How often R > 1 on the source and R < 1 on the target, each with half of the weight; R = 1 counts half."""
    domain_calibration_error: float
    """ECE of tau_source = R / (1 + R) as the probability of "source", on as many rows of either domain."""
    verdict: str
    """One sentence in words."""


def diagnose(source_log_ratio: FloatArray, target_log_ratio: FloatArray, *, bound: float, seed: int) -> Diagnostics:
    """Diagnostics from held-out log R, not yet clipped, of the source (N,) and of the target (M,)."""
    limit = math.log(bound)
    at_bound, extreme = (
        float(np.mean([np.mean(np.abs(values) >= size) for values in (source_log_ratio, target_log_ratio)]))
        for size in (limit, math.log(EXTREME_RATIO))
    )
    source_log_ratio, target_log_ratio = (
        np.clip(values, -limit, limit) for values in (source_log_ratio, target_log_ratio)
    )
    accuracy = (_share_above(source_log_ratio) + 1 - _share_above(target_log_ratio)) / 2
    calibration_error = _calibration_error(source_log_ratio, target_log_ratio, np.random.default_rng((seed, 2)))
    sample_share = effective_sample_share(-source_log_ratio)
    # Of guesses at random, each domain's share has the variance 1 / (4 n).
    chance_deviation = math.sqrt(1 / len(source_log_ratio) + 1 / len(target_log_ratio)) / 4
    return Diagnostics(
        num_source=len(source_log_ratio),
        num_target=len(target_log_ratio),
        effective_sample_share=sample_share,
        source_log_ratio=_summary(source_log_ratio),
        target_log_ratio=_summary(target_log_ratio),
        share_at_bound=at_bound,
        share_extreme=extreme,
        domain_accuracy=accuracy,
        domain_calibration_error=calibration_error,
        verdict=_verdict(accuracy, 0.5 + 2 * chance_deviation, calibration_error, sample_share, extreme),
    )


def effective_sample_share(log_weights: FloatArray) -> float:
    """Kish's (sum w)^2 / (N sum w^2): 1 for equal weights, 1/N if one row has all of the weight."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))


def _summary(values: FloatArray) -> LogRatioSummary:
    return LogRatioSummary(*np.quantile(values, (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)).tolist())


def _share_above(values: FloatArray) -> float:
    return float(np.mean(values > 0) + np.mean(values == 0) / 2)


def _calibration_error(source: FloatArray, target: FloatArray, generator: np.random.Generator) -> float:
    # R / (1 + R) is the probability of "source" among as many rows of either domain.
    size = min(len(source), len(target))
    rows = np.concatenate([generator.permutation(values)[:size] for values in (source, target)])
    probability = expit(rows)
    labels = np.repeat(np.array([1, 0]), size)
    return expected_calibration_error(np.stack([1 - probability, probability], axis=1), labels)


def _verdict(
    accuracy: float, chance_limit: float, calibration_error: float, sample_share: float, extreme: float
) -> str:
    extremes = accuracy >= SEPARABLE_ACCURACY_WITH_EXTREMES and extreme >= SEPARABLE_EXTREME_SHARE
    if accuracy >= SEPARABLE_ACCURACY or extremes:
        return (
            f"nearly separable: source and target are told apart in {accuracy:.0%} of cases and {extreme:.0%} of the "
            "ratios are extreme, so they are not reliable"
        )
    seen = (
        "no shift visible to this estimator: source and target are not told apart better than by chance"
        if accuracy <= chance_limit
        else "overlapping: the domains differ and share their support"
    )
    if calibration_error > MISCALIBRATED:
        return (
            f"{seen}, but the ratios are too extreme or too mild (domain calibration error {calibration_error:.2f}): "
            "take a smaller bound or an estimator with fewer degrees of freedom"
        )
    if sample_share < FEW_EFFECTIVE_ROWS:
        return (
            f"{seen}, but the weights 1/R of a few source rows outweigh all others (effective sample "
            f"{sample_share:.1%}): take a smaller bound before weighting with them"
        )
    return f"{seen}, so the ratios {'are near 1' if accuracy <= chance_limit else 'can be used'}"
