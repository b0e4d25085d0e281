"""Changes of coordinates that are learnt from both domains, each with half of the weight, before any estimator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shiftcal.metrics.checks import FloatArray


@dataclass(frozen=True, eq=False)
class Standardization:
    """Each feature less its mean, divided by its standard deviation."""

    mean: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, source: FloatArray, target: FloatArray) -> Standardization:
        """Mean and deviation over both domains."""
        mean = (source.mean(axis=0) + target.mean(axis=0)) / 2
        variance = (((source - mean) ** 2).mean(axis=0) + ((target - mean) ** 2).mean(axis=0)) / 2
        deviation = np.sqrt(variance)
        # What is constant but for rounding carries nothing: leave its scale alone.
        return cls(mean, np.where(deviation > 1e-9 * np.maximum(np.abs(mean), 1e-200), deviation, 1.0))

    def __call__(self, features: FloatArray) -> FloatArray:
        """Features (K, F) in these units."""
        return (features - self.mean) / self.scale


@dataclass(frozen=True, eq=False)
class Projection:
    """Coordinates along the leading principal components of both domains; `None` components keep all features.

    The ratio of projected features is the ratio of their marginal densities: a shift along the directions that are
    left out is not seen.
    """

    components: FloatArray | None

    @classmethod
    def of(cls, source: FloatArray, target: FloatArray, num_components: int | None) -> Projection:
        """The leading `num_components` directions of standardised features; all features if there are no more."""
        num_features = source.shape[1]
        if num_components is None or num_components >= num_features:
            return cls(None)
        second_moment = source.T @ source / len(source) + target.T @ target / len(target)
        _, vectors = np.linalg.eigh(second_moment)
        return cls(vectors[:, ::-1][:, :num_components])

    def __call__(self, features: FloatArray) -> FloatArray:
        """Features (K, F) as (K, num_components)."""
        return features if self.components is None else features @ self.components
