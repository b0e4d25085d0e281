"""Matrix scaling (Guo et al., ICML 2017) with off-diagonal and intercept regularisation, ODIR.

Kull et al., "Beyond temperature scaling: Obtaining well-calibrated multiclass probabilities with Dirichlet
calibration", NeurIPS 2019, arXiv 1910.12656:

    probabilities = softmax(W z + b)
    loss = negative log-likelihood + penalty (mean of W_ij^2 over i != j  +  mean of b_j^2)

The diagonal is free, so a large penalty leaves one scale for each class and nothing else. The search starts at
W = I / T of temperature scaling and b = 0. The penalty is chosen by cross-validation from
powers of ten, the same for W and b (the authors have a grid of two), from the strongest until the loss rises.
Labels are smoothed and logits centred as in `vector`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData, Calibrator, State
from shiftcal.core.errors import InvalidInputError
from shiftcal.core.options import option
from shiftcal.data.randomness import seeded_generator
from shiftcal.functional.linear_scaling import centred, class_variances, minimize_loss, smoothed_loss
from shiftcal.functional.temperature import fit_temperature
from shiftcal.methods.base import Outputs
from shiftcal.target.row_order import content_order

# Each search starts where that of the stronger penalty has ended.
_PENALTIES = (1e4, 1e3, 1e2, 1e1, 1.0, 1e-1)
_NUM_FOLDS = 3
# A million numbers, of which the search keeps some thirty copies.
_MOST_CLASSES = 1_000


@dataclass(frozen=True, kw_only=True)
class Matrix(Calibrator):
    """A full matrix and a bias on the logits, regularised towards a diagonal (ODIR)."""

    penalty: float | None = option(
        None, "weight of the off-diagonal and bias penalties; None: by cross-validation", at_least=0
    )

    def fit(self, data: CalibrationData) -> State:
        """Fit matrix and bias; the target is not looked at.

        Raises:
            InvalidInputError: more classes than a matrix can be learned for.
        """
        if data.num_classes > _MOST_CLASSES:
            raise InvalidInputError(
                f"matrix scaling learns {data.num_classes**2:,} numbers for {data.num_classes:,} classes, which no "
                f"memory and no number of rows suffice for; expected at most {_MOST_CLASSES:,} classes: choose the "
                "calibrator 'vector', which learns two numbers a class, or 'temperature'"
            )
        logits, labels = centred(data.held_out.logits), data.held_out_labels
        penalty = _choose_penalty(logits, labels, data.seed) if self.penalty is None else self.penalty
        matrix, bias = _split(_fit(logits, labels, penalty, _start(logits, labels)), data.num_classes)
        chosen = torch.tensor(penalty, dtype=torch.float64)
        return {"matrix": matrix.clone(), "bias": bias.clone(), "penalty": chosen}

    def calibrate(self, outputs: Outputs, state: State) -> Tensor:
        """W z + b."""
        scaled = centred(outputs.logits) @ state["matrix"].T + state["bias"]
        return scaled.to(outputs.logits.dtype)


def _choose_penalty(logits: Tensor, labels: Tensor, seed: int) -> float:
    """The penalty with the lowest loss on folds that were left out; the strongest if there are too few rows."""
    num_rows = len(labels)
    if num_rows < 2 * _NUM_FOLDS:
        return _PENALTIES[0]
    folds = torch.empty(num_rows, dtype=torch.int64)
    drawn = torch.randperm(num_rows, generator=seeded_generator(seed, num_rows)) % _NUM_FOLDS
    folds[torch.from_numpy(content_order(logits, labels))] = drawn
    parts = [(logits[folds != fold], labels[folds != fold]) for fold in range(_NUM_FOLDS)]
    found = [_start(*part) for part in parts]
    best, lowest = _PENALTIES[0], torch.inf
    for penalty in _PENALTIES:
        found = [_fit(*part, penalty, start) for part, start in zip(parts, found, strict=True)]
        scaled = [_split(parameters, logits.shape[1]) for parameters in found]
        outside = [logits[folds == fold] @ matrix.T + bias for fold, (matrix, bias) in enumerate(scaled)]
        loss = sum(float(smoothed_loss(each, labels[folds == fold])) for fold, each in enumerate(outside))
        if loss >= lowest:
            break
        best, lowest = penalty, loss
    return best


def _start(logits: Tensor, labels: Tensor) -> Tensor:
    num_classes = logits.shape[1]
    identity = torch.eye(num_classes, dtype=torch.float64) / fit_temperature(logits, labels)
    return torch.cat([identity.flatten(), torch.zeros(num_classes, dtype=torch.float64)])


def _fit(logits: Tensor, labels: Tensor, penalty: float, start: Tensor) -> Tensor:
    num_classes = logits.shape[1]
    num_off_diagonal = num_classes * (num_classes - 1)

    def loss(parameters: Tensor) -> Tensor:
        matrix, bias = _split(parameters, num_classes)
        off_diagonal = (matrix.square().sum() - matrix.diagonal().square().sum()) / num_off_diagonal
        return smoothed_loss(logits @ matrix.T + bias, labels) + penalty * (off_diagonal + bias.square().mean())

    matrix, bias = _split(start, num_classes)
    spread = class_variances(logits @ matrix.T + bias)
    curvature = spread.T @ logits.square() / len(labels) + 2 * penalty / num_off_diagonal
    curvature.diagonal().sub_(2 * penalty / num_off_diagonal)
    return minimize_loss(
        loss,
        start,
        torch.cat([curvature.flatten(), spread.mean(dim=0) + 2 * penalty / num_classes]),
        num_products=logits.numel() * num_classes,
    )


def _split(parameters: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    return parameters[:-num_classes].view(num_classes, num_classes), parameters[-num_classes:]
