"""Multilinear maps: features and predictions as one vector that shows their joint distribution.

Long, Cao, Wang, Jordan, "Conditional Adversarial Domain Adaptation", NeurIPS 2018, section 3.1.
"""

from __future__ import annotations

import math

from torch import Tensor


def multilinear_map(features: Tensor, probabilities: Tensor) -> Tensor:
    """Outer product of each row: (N, F) and (N, C) to (N, F * C)."""
    return (features[:, :, None] * probabilities[:, None, :]).flatten(1)


def randomised_multilinear_map(
    features: Tensor, probabilities: Tensor, feature_matrix: Tensor, class_matrix: Tensor
) -> Tensor:
    """(f R_f) * (g R_g) / sqrt(D): (N, D), whose inner products are those of `multilinear_map` in expectation.

    Args:
        features: (N, F).
        probabilities: (N, C).
        feature_matrix: R_f (F, D), of independent entries with mean 0 and variance 1.
        class_matrix: R_g (C, D), likewise.
    """
    return (features @ feature_matrix) * (probabilities @ class_matrix) / math.sqrt(feature_matrix.shape[1])
