"""Thresholds of pseudo-labels that follow how well each class is learned.

FlexMatch: Zhang et al., NeurIPS 2021, section 3. FreeMatch: Wang et al., ICLR 2023, section 4.
"""

from __future__ import annotations

import torch
from torch import Tensor

NO_LABEL = -1


def curriculum_thresholds(row_labels: Tensor, num_classes: int, threshold: float) -> Tensor:
    """FlexMatch, section 3: thresholds (C,) that are lower for classes with fewer sure rows.

    With sigma_c the rows that are surely of class c and sigma_none those that are not sure yet:

        beta_c = sigma_c / max( max_c sigma_c, sigma_none ),   threshold_c = threshold beta_c / (2 - beta_c)

    Args:
        row_labels: (T,) for each unlabelled row its last label that was sure, or `NO_LABEL`.
        num_classes: C.
        threshold: of the class that is learned best.
    """
    counts = torch.bincount(row_labels - NO_LABEL, minlength=num_classes + 1)
    learned = counts[1:] / counts.max()
    return threshold * learned / (2 - learned)


def self_adaptive_thresholds(confidence: Tensor, class_means: Tensor) -> Tensor:
    """FreeMatch, section 4.1: the mean confidence (a scalar), scaled per class by its mean probability (C,)."""
    return confidence * class_means / class_means.max()


def fairness_loss(strong_logits: Tensor, kept: Tensor, class_means: Tensor, label_shares: Tensor) -> Tensor:
    """FreeMatch, section 4.2: sum_c a_c log b_c, over the classes that are predicted among the kept rows.

    a is the mean probability of each class over its share of the labels, of the past; b is the same of the strong
    views (N, C) that are kept (N,); both are normalised to sum to one. Zero where no row is kept.

    Args:
        strong_logits: (N, C).
        kept: (N,)
        class_means: (C,) moving mean of the probabilities of weak views.
        label_shares: (C,) moving share of each class among their labels, more than 0.
    """
    if not kept.any():
        return strong_logits.new_zeros(())
    probabilities = torch.softmax(strong_logits[kept], dim=-1)
    shares = torch.bincount(probabilities.argmax(dim=-1), minlength=len(class_means)) / len(probabilities)
    present = shares > 0
    past = class_means / label_shares
    now = probabilities.mean(dim=0)[present] / shares[present]
    return ((past / past.sum())[present] * torch.log(now / now.sum())).sum()
