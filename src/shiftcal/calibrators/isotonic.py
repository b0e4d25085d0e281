"""Isotonic regression (Zadrozny & Elkan, "Transforming classifier scores into accurate multiclass probability
estimates", KDD 2002), one class against the rest and normalised.

    f_k = arg min over non-decreasing functions of  sum_i (f(p_ik) - 1[y_i = k])^2,    q_k = f_k(p_k) / sum_j f_j(p_j)

f_k is linear between its knots and constant beyond them, as scikit-learn has it; where all f_k are zero, q is
uniform. The functions are often exactly zero. As the labels of `temperature` are, q is smoothed by s = 1 / (N + 1):
(1 - s) q + s / C is what is returned, as log-probabilities; none is below s / C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Calibrator, State
from shiftcal.methods.base import Outputs


@dataclass(frozen=True, kw_only=True)
class Isotonic(Calibrator):
    """A non-decreasing function of the probability for each class, fitted on held-out source data."""

    def fit(self, data: CalibrationData) -> State:
        """Fit one function a class; the target is not looked at."""
        probabilities = torch.softmax(data.held_out.logits.double(), dim=-1).numpy()
        labels = data.held_out_labels.numpy()
        functions = [_fitted(probabilities[:, k], labels == k) for k in range(data.num_classes)]
        return {
            "knots": torch.from_numpy(np.concatenate([knots for knots, _ in functions])),
            "values": torch.from_numpy(np.concatenate([values for _, values in functions])),
            "num_knots": torch.tensor([len(knots) for knots, _ in functions]),
            "smoothing": torch.tensor(1 / (len(labels) + 1), dtype=torch.float64),
        }

    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """Logarithms of the probabilities."""
        probabilities = torch.softmax(outputs.logits.double(), dim=-1)
        ends = state["num_knots"].cumsum(0)[:-1].tolist()
        functions = zip(state["knots"].tensor_split(ends), state["values"].tensor_split(ends), strict=True)
        mapped = torch.stack(
            [
                torch.from_numpy(np.interp(column.numpy(), knots.numpy(), values.numpy()))
                for column, (knots, values) in zip(probabilities.T, functions, strict=True)
            ],
            dim=1,
        )
        total = mapped.sum(dim=-1, keepdim=True)
        uniform = torch.full_like(mapped, 1 / mapped.shape[1])
        normalised = torch.where(total > 0, mapped / total.clamp_min(torch.finfo(total.dtype).tiny), uniform)
        return torch.lerp(normalised, uniform, state["smoothing"]).log().to(outputs.logits.dtype)


def _fitted(probabilities: NDArray[np.float64], is_class: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Knots and values of f for one class."""
    if not is_class.any():
        # Nothing is learned of a class that no row has, and of thousands of classes that is most of them.
        return probabilities[:1], np.zeros(1)
    function = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(probabilities, is_class)
    return function.X_thresholds_, function.y_thresholds_
