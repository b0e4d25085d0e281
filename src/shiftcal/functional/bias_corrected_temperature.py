"""Temperature scaling with a bias for each class (BCTS), which estimates of class frequencies ask for.

    p(x) = softmax(s z(x) + b)

A temperature alone leaves some classes too likely and others not likely enough in the mean; what frequencies of a
target are found from such probabilities is wrong by the same (Alexandari, Kundaje, Shrikumar, ICML 2020).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor

# A bias counts as if so many rows had said that it is 0: classes of a few rows have nearly none.
_ROWS_AGAINST_BIAS = 10.0
_LOG_LIMIT = 7.0


def bias_corrected(logits: Tensor, labels: Tensor, others: Tensor) -> Tensor:
    """Probabilities (M, C) of other rows.

    Args:
        logits: (N, C) of rows with labels.
        labels: (N,) class numbers.
        others: (M, C) logits.
    """
    known, numbers = logits.double().numpy(), labels.numpy()
    each, num_classes = np.arange(len(numbers)), known.shape[1]

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scale, bias = np.exp(values[0]), values[1:]
        log_probabilities = log_softmax(scale * known + bias, axis=1)
        surplus = np.exp(log_probabilities)
        surplus[each, numbers] -= 1
        found = -log_probabilities[each, numbers].sum() + _ROWS_AGAINST_BIAS / 2 * (bias**2).sum()
        slope = np.append(scale * (surplus * known).sum(), surplus.sum(axis=0) + _ROWS_AGAINST_BIAS * bias)
        return found / len(numbers), slope / len(numbers)

    bounds = [(-_LOG_LIMIT, _LOG_LIMIT), *[(None, None)] * num_classes]
    found = minimize(loss, np.zeros(num_classes + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    return torch.softmax(float(np.exp(found[0])) * others.double() + torch.from_numpy(found[1:]), dim=-1)
