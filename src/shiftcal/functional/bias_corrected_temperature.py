"""Temperature scaling with a bias for each class (BCTS), which estimates of class frequencies ask for.

    p(x) = softmax(s z(x) + b)

A temperature alone leaves some classes too likely and others not likely enough in the mean; what frequencies of a
target are found from such probabilities is wrong by the same (Alexandari, Kundaje, Shrikumar, ICML 2020).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from shiftcal.functional.linear_scaling import centred, class_variances, minimize_loss, smoothed_loss
from shiftcal.functional.temperature import fit_temperature

# A bias counts as if so many rows had said that it is 0: classes of a few rows have nearly none.
_ROWS_AGAINST_BIAS = 10.0


def bias_corrected(logits: Tensor, labels: Tensor, others: Tensor) -> Tensor:
    """Probabilities (M, C) of other rows.

    Args:
        logits: (N, C) of rows with labels.
        labels: (N,) class numbers.
        others: (M, C) logits.
    """
    known, penalty = centred(logits), _ROWS_AGAINST_BIAS / len(labels)
    start = known.new_zeros(1 + known.shape[1])
    start[0] = -math.log(fit_temperature(known, labels))

    def scaled(values: Tensor, parameters: Tensor) -> Tensor:
        return values * parameters[0].exp() + parameters[1:]

    def loss(parameters: Tensor) -> Tensor:
        return smoothed_loss(scaled(known, parameters), labels) + penalty / 2 * parameters[1:].square().sum()

    cooled = scaled(known, start)
    spread = class_variances(cooled)
    curvature = torch.cat(
        [(spread * cooled.square()).sum(dim=-1).mean(dim=0, keepdim=True), spread.mean(dim=0) + penalty]
    )
    found = minimize_loss(loss, start, curvature, num_products=known.numel())
    return torch.softmax(scaled(others.double(), found), dim=-1)
