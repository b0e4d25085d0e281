"""Which part of a target has shifted: of a stream, often only some rows are new.

    p_target = (1 - s) p_source + s p_new

The share 1 - s of rows that are as on the source is the largest that the data allow: mixture proportion estimation
(best bin estimation: Garg, Wu, Smola, Balakrishnan, Lipton, NeurIPS 2021, algorithm 1). With z(x) how source-like a
domain classifier finds x,

    1 - s = q_target(c) / q_source(c),   q(c) = share of rows with z >= c

at the c where that ratio and its confidence bound are smallest. Then, with R = p_source / p_target,

    P(new | x in the target) = 1 - (1 - s) R(x),      P(new | x) = (1 - (1 - s) R(x)) / (1 + R(x))

the second for an x that may be of either domain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shiftcal.target.domain_classifier import DomainClassifier

# delta and gamma of the paper, as in its experiments.
_ERROR_RATE = 0.1
_SLACK = 0.01
# A row that is surely as on the source still counts this much, so that weights never add up to 0.
_LEAST_WEIGHT = 1e-3


@dataclass(frozen=True)
class ShiftedPart:
    """The share of a target that has shifted, and which rows these are."""

    share: float
    """s"""
    weights: Tensor
    """(M,) P(new | x) of the target's rows."""


def find_shifted_part(domains: DomainClassifier) -> ShiftedPart:
    """From what a domain classifier says of rows of both domains."""
    unshifted = unshifted_share(-domains.source_log_odds, -domains.target_log_odds)
    return ShiftedPart(1 - unshifted, shifted_probability(domains.target_log_odds, 1 - unshifted))


def unshifted_share(source_scores: Tensor, target_scores: Tensor) -> float:
    """1 - s, from how source-like rows (N,) of the source and (M,) of the target are."""
    thresholds = np.sort(target_scores.numpy())[::-1]
    num_source, num_target = len(source_scores), len(thresholds)
    of_target = np.arange(1, num_target + 1) / num_target
    of_source = 1 - np.searchsorted(np.sort(source_scores.numpy()), thresholds, side="left") / num_source
    seen = of_source > 0
    if not seen.any():
        return 0.0
    of_target, of_source = of_target[seen], of_source[seen]
    deviation = sum(np.sqrt(np.log(4 / _ERROR_RATE) / (2 * rows)) for rows in (num_source, num_target))
    best = np.argmin((of_target + (1 + _SLACK) * deviation) / of_source)
    return float(min(of_target[best] / of_source[best], 1.0))


def shifted_probability(log_odds: Tensor, share: float) -> Tensor:
    """P(new | x in the target) (K,), from log p_target / p_source."""
    return (1 - (1 - share) * torch.exp(-log_odds)).clamp(_LEAST_WEIGHT, 1.0)


def shifted_probability_anywhere(ratio: Tensor, share: float | Tensor) -> Tensor:
    """P(new | x) (K,) of a row that is as likely of the source as of the target: 1 / (1 + R) if all has shifted."""
    return ((1 - (1 - share) * ratio) / (1 + ratio)).clamp_min(0.0)
