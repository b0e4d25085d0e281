"""What the paper looks at beside accuracy: functions of arrays, for the predictions of any run.

Labels and human votes are for evaluation only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn.functional import interpolate

from shiftcal.core.errors import InvalidInputError
from shiftcal.metrics import expected_calibration_error
from shiftcal.target.components import fit_components
from shiftcal.target.domain_classifier import fit_domain_classifier
from shiftcal.target.sampling import sampled_rows

_MOST_ROWS = 1_000


@dataclass(frozen=True)
class Group:
    """Rows whose score lies within two edges."""

    low: float
    high: float
    num_inputs: int
    accuracy: float
    confidence: float
    calibration_error: float


def calibration_by_score(
    probabilities: NDArray[np.float64], labels: NDArray[np.int64], score: ArrayLike, edges: Sequence[float]
) -> list[Group]:
    """Accuracy, mean confidence and ECE within bins of a score, such as how often people choose the true class.

    Args:
        probabilities: (N, C).
        labels: (N,) class numbers.
        score: (N,) of each row.
        edges: ascending; a bin has its lower edge, the last one both. Bins without rows are left out.
    """
    values = np.asarray(score, dtype=np.float64)
    _check_rows(len(probabilities), values)
    right, confidence = probabilities.argmax(axis=1) == labels, probabilities.max(axis=1)
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, -1, len(edges) - 1)
    bins[values == edges[-1]] = len(edges) - 2
    groups = []
    for number, (low, high) in enumerate(itertools.pairwise(edges)):
        rows = bins == number
        if rows.any():
            groups.append(
                Group(
                    low=low,
                    high=high,
                    num_inputs=int(rows.sum()),
                    accuracy=float(right[rows].mean()),
                    confidence=float(confidence[rows].mean()),
                    calibration_error=expected_calibration_error(probabilities[rows], labels[rows]),
                )
            )
    return groups


@dataclass(frozen=True)
class Correlation:
    """Of ranks (Spearman), with a 95 % interval."""

    value: float
    low: float
    high: float


def rank_correlation(
    first: ArrayLike, second: ArrayLike, *, num_resamples: int = 1_000, seed: int = 0
) -> Correlation:
    """Rank correlation of two scores (N,) of the same rows, with a bootstrap interval over rows.

    A density ratio orders inputs; how large its values are is a matter of its bound, so ranks are compared.
    """
    values = [np.asarray(part, dtype=np.float64) for part in (first, second)]
    _check_rows(len(values[0]), values[1])
    generator = np.random.default_rng(seed)
    drawn = generator.integers(len(values[0]), size=(num_resamples, len(values[0])))
    resampled = [_spearman(values[0][rows], values[1][rows]) for rows in drawn]
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Correlation(_spearman(*values), float(low), float(high))


def _spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0  # a constant orders nothing
    return float(spearmanr(first, second).statistic)


@dataclass(frozen=True)
class RatioBin:
    """Rows of like density ratio, and how often each classifier is right there."""

    median_ratio: float
    num_inputs: int
    accuracy: Mapping[str, float]


def accuracy_by_ratio(
    density_ratio: ArrayLike, right: Mapping[str, ArrayLike], num_bins: int = 5
) -> tuple[RatioBin, ...]:
    """Accuracy of several classifiers in bins with equally many rows, from the least to the most source-like.

    Args:
        density_ratio: (N,) of the rows, by one classifier.
        right: for each classifier (N,) whether it is right.
        num_bins: at most as many as there are rows.
    """
    ratio = np.asarray(density_ratio, dtype=np.float64)
    found = {name: np.asarray(values, dtype=np.float64) for name, values in right.items()}
    for values in found.values():
        _check_rows(len(ratio), values)
    # Stable, so that ties are divided the same way on every machine.
    parts = np.array_split(np.argsort(ratio, kind="stable"), min(num_bins, len(ratio)))
    return tuple(
        RatioBin(
            float(np.median(ratio[rows])),
            len(rows),
            {name: float(values[rows].mean()) for name, values in found.items()},
        )
        for rows in parts
    )


def shift_gap(source: Tensor, source_labels: Tensor, target: Tensor, target_labels: Tensor) -> float | None:
    """How far a shift is from a covariate shift, in features: 0 where P(y | features) is the same in both domains.

        mean over target rows of | log R(x) - log R(x, y) |
        R(x) = P_s(x) / P_t(x),   R(x, y) = P_s(x, y) / P_t(x, y)

    after the paper's proxy, which has the ratios themselves: their mean difference would be that of the few rows with
    a large one. Ratios are by logistic regression out of fold, one overall and one for each class.

    Args:
        source: (N, F) features.
        source_labels: (N,) class numbers.
        target: (M, F).
        target_labels: (M,), for evaluation only.

    Returns:
        The gap, or None if no class has enough rows of both domains.
    """
    source, source_labels, target, target_labels = (
        part[sampled_rows(len(part), _MOST_ROWS)]
        for part in (source.double(), source_labels, target.double(), target_labels)
    )
    components = fit_components(source, target)
    overall = fit_domain_classifier(source, target, components)
    gaps = []
    for label in set(target_labels.tolist()):
        own, others = source_labels == label, target_labels == label
        of_class = fit_domain_classifier(source[own], target[others], components)
        if overall is None or of_class is None:
            continue
        prior = torch.log(others.double().mean() / own.double().mean())
        gaps.append((overall.target_log_odds[others] - (of_class.target_log_odds + prior)).abs())
    return float(torch.cat(gaps).mean()) if gaps else None


def grad_cam(
    network: nn.Module,
    inputs: Tensor,
    classes: Tensor,
    *,
    predict: Callable[[Tensor], Tensor] | None = None,
    layer: nn.Module | None = None,
) -> Tensor:
    """Where a convolutional network looks for a class: Grad-CAM (Selvaraju et al., ICCV 2017).

        map = relu( sum_k  mean_cells(d logit_class / d A_k)  A_k ),   A_k the maps of a layer

    Args:
        network: any module with convolutions, such as a timm model, in evaluation mode.
        inputs: (N, C, H, W).
        classes: (N,) the class number to explain for each input.
        predict: gives logits (N, classes) of inputs by this network; None: the network itself does.
        layer: the module whose maps are explained; None: the last one with weights that gives maps.

    Returns:
        (N, H, W) maps in [0, 1], each divided by its maximum; 0 everywhere where nothing speaks for the class.

    Raises:
        InvalidInputError: no layer gives maps (N, K, height, width).
    """
    predict = predict or network
    layer = layer or _last_with_maps(network, predict, inputs)
    maps, gradients = _maps_and_gradients(predict, layer, inputs, classes)
    found = torch.relu((gradients.mean(dim=(2, 3), keepdim=True) * maps).sum(dim=1, keepdim=True))
    found = interpolate(found, size=inputs.shape[2:], mode="bilinear", align_corners=False).squeeze(1)
    largest = found.amax(dim=(1, 2), keepdim=True)
    return torch.where(largest > 0, found / largest, torch.zeros_like(found))


def _last_with_maps(network: nn.Module, predict: Callable[[Tensor], Tensor], inputs: Tensor) -> nn.Module:
    with_maps: list[nn.Module] = []

    def note(module: nn.Module, _: object, output: object) -> None:
        if isinstance(output, Tensor) and output.ndim == 4 and output.shape[2:].numel() > 1:
            with_maps.append(module)

    # Padding and pooling give maps too, of what others have found.
    with_weights = (module for module in network.modules() if any(True for _ in module.parameters()))
    hooks = [module.register_forward_hook(note) for module in with_weights]
    try:
        with torch.no_grad():
            predict(inputs[:1])
    finally:
        for hook in hooks:
            hook.remove()
    if not with_maps:
        raise InvalidInputError(
            f"{type(network).__name__} has no layer that gives maps (N, K, height, width): Grad-CAM needs a "
            "convolutional network and pictures"
        )
    return with_maps[-1]


def _maps_and_gradients(
    predict: Callable[[Tensor], Tensor], layer: nn.Module, inputs: Tensor, classes: Tensor
) -> tuple[Tensor, Tensor]:
    """The maps (N, K, h, w) of a layer and the gradients of the classes' logits in them."""
    kept: list[Tensor] = []

    def keep(_: nn.Module, __: object, output: Tensor) -> Tensor:
        # A leaf of its own, for what comes before the layer may be frozen; what comes behind may work in place.
        kept.append(output.detach().requires_grad_())
        return kept[-1].clone()

    hook = layer.register_forward_hook(keep)
    try:
        with torch.enable_grad():
            chosen = predict(inputs).gather(1, classes.unsqueeze(1)).sum()
        (gradients,) = torch.autograd.grad(chosen, kept[-1])
    finally:
        hook.remove()
    return kept[-1].detach(), gradients


@dataclass(frozen=True)
class Coverage:
    """How a map lies on an object."""

    covered: float
    """Share of the object where the map is at least half its maximum."""
    on_object: float
    """Share of the map's sum that lies on the object."""


def attention_coverage(attention: ArrayLike, is_object: ArrayLike) -> Coverage:
    """Of a map (H, W) of values from 0 and a mask (H, W) of the object; a map or a mask of zeros covers nothing."""
    values, mask = np.asarray(attention, dtype=np.float64), np.asarray(is_object, dtype=bool)
    if values.shape != mask.shape or values.ndim != 2:
        raise InvalidInputError(f"expected a map and a mask of one shape (H, W), got {values.shape} and {mask.shape}")
    if not mask.any() or values.max() <= 0:
        return Coverage(0.0, 0.0)
    return Coverage(float((values[mask] >= values.max() / 2).mean()), float(values[mask].sum() / values.sum()))


def _check_rows(num_rows: int, values: NDArray[np.float64]) -> None:
    if values.shape != (num_rows,):
        raise InvalidInputError(f"expected a score for each of {num_rows} rows, got an array of shape {values.shape}")
