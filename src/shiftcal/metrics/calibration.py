"""Calibration errors and the reliability curve: does confidence match how often the model is right?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shiftcal.metrics.binning import (
    DEFAULT_NUM_BINS,
    GroupTotals,
    assign_bins,
    bin_edges,
    confidence_bins,
    confidence_ties,
    occupied,
)
from shiftcal.metrics.checks import (
    Array,
    CheckedPredictions,
    FloatArray,
    IntArray,
    check_num_bins,
    check_predictions,
    row_blocks,
)


class ReliabilityCurve(NamedTuple):
    """What a reliability diagram draws: edges (B + 1,), and per bin (B,) the means and the number of samples.

    `confidence` and `accuracy` are NaN in bins without samples.
    """

    bin_edges: FloatArray
    confidence: FloatArray
    accuracy: FloatArray
    count: IntArray  # type: ignore[assignment]  # hides tuple.count, which a curve does not need


def expected_calibration_error(probabilities: Array, labels: Array, num_bins: int = DEFAULT_NUM_BINS) -> float:
    r"""Return the mean gap between top-1 confidence and accuracy over equal-width bins.

    .. math:: \sum_b \frac{n_b}{N} |\mathrm{acc}(b) - \mathrm{conf}(b)|

    The bins are ((b - 1)/B, b/B] as in the reference: a confidence on an edge belongs to the bin below it, 0 to
    the first bin, 1 to the last. The float64 value decides: 0.2 in float32 is 0.200000003, above the edge 3/15.

    Shapes: probabilities (N, C), labels (N,). Reference: Guo et al., On Calibration of Modern Neural
    Networks, ICML 2017.

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions`; or `num_bins` below 1.

    Example:
        >>> import numpy as np
        >>> round(expected_calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1])), 6)
        0.4
    """
    return calibration_gap(confidence_bins(check_predictions(probabilities, labels), num_bins))


def adaptive_calibration_error(probabilities: Array, labels: Array, num_bins: int = DEFAULT_NUM_BINS) -> float:
    r"""Return the mean gap between top-1 confidence and accuracy over equal-mass bins.

    .. math:: \sum_b \frac{n_b}{N} |\mathrm{acc}(b) - \mathrm{conf}(b)|

    The samples, sorted by confidence, are cut into B runs whose sizes differ by at most one (the first N mod B
    are longer, like `numpy.array_split`). Samples of equal confidence each count with the mean accuracy of
    their group, so that neither their order nor a cut through the group matters.

    Shapes: probabilities (N, C), labels (N,). References: Nguyen & O'Connor, Posterior calibration and
    exploratory analysis for natural language processing models, EMNLP 2015; Nixon et al., Measuring
    Calibration in Deep Learning, CVPR workshops 2019.

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions`; or `num_bins` below 1.

    Example:
        >>> import numpy as np
        >>> probabilities = np.array([[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [1.0, 0.0]])
        >>> round(adaptive_calibration_error(probabilities, np.array([0, 1, 0, 0]), num_bins=2), 6)
        0.125
    """
    predictions = check_predictions(probabilities, labels)
    return equal_mass_gap(confidence_ties(predictions), check_num_bins(num_bins))


def classwise_calibration_error(probabilities: Array, labels: Array, num_bins: int = DEFAULT_NUM_BINS) -> float:
    r"""Return the mean over classes of the one-vs-rest expected calibration error.

    .. math:: \frac{1}{C} \sum_k \sum_b \frac{n_{bk}}{N} |\mathrm{freq}_k(b) - \mathrm{conf}_k(b)|

    Here conf_k is the mean probability of class k in the bin and freq_k how often k is the label there. Bins as
    in `expected_calibration_error`. Also known as the static calibration error.

    Shapes: probabilities (N, C), labels (N,). References: Kull et al., Beyond temperature scaling, NeurIPS
    2019; Nixon et al., Measuring Calibration in Deep Learning, CVPR workshops 2019.

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions`; or `num_bins` below 1.

    Example:
        >>> import numpy as np
        >>> round(classwise_calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1])), 6)
        0.4
    """
    return classwise_gap(classwise_bins(check_predictions(probabilities, labels), num_bins))


def reliability_curve(probabilities: Array, labels: Array, num_bins: int = DEFAULT_NUM_BINS) -> ReliabilityCurve:
    r"""Return mean confidence, accuracy and number of samples of each equal-width bin of top-1 confidence.

    .. math:: \mathrm{conf}(b) = \frac{1}{n_b} \sum_{i \in b} \max_k p_{ik}, \quad
              \mathrm{acc}(b) = \frac{1}{n_b} \sum_{i \in b} 1[\arg\max_k p_{ik} = y_i]

    Bins as in `expected_calibration_error`; the means of an empty bin are NaN.

    Shapes: probabilities (N, C), labels (N,), result (B + 1,), (B,), (B,), (B,). Reference: Niculescu-Mizil &
    Caruana, Predicting good probabilities with supervised learning, ICML 2005.

    Raises:
        InvalidInputError: see `shiftcal.metrics.checks.check_predictions`; or `num_bins` below 1.

    Example:
        >>> import numpy as np
        >>> curve = reliability_curve(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1]), num_bins=2)
        >>> curve.bin_edges, curve.confidence, curve.accuracy, curve.count
        (array([0. , 0.5, 1. ]), array([ nan, 0.75]), array([nan, 0.5]), array([0, 2]))
    """
    return curve_from_bins(confidence_bins(check_predictions(probabilities, labels), num_bins))


def classwise_bins(predictions: CheckedPredictions, num_bins: int = DEFAULT_NUM_BINS) -> FloatArray:
    """Return the totals of each class's probability in equal-width bins (C, 3, B); a hit is that label."""
    edges, num_classes = bin_edges(num_bins), predictions.num_classes
    size, first_cells = num_classes * num_bins, num_bins * np.arange(num_classes)
    totals = np.zeros((3, size))
    # Blocks of some rows for each bin, so that adding up the table of bins takes less time than filling it.
    for rows in row_blocks(predictions.num_samples, num_classes, fewest=4 * num_bins):
        block, labels = predictions.probabilities[rows].astype(np.float64), predictions.labels[rows]
        cells = assign_bins(block, edges) + first_cells
        hits = np.take_along_axis(cells, labels[:, None], axis=1)[:, 0]
        totals[0] += np.bincount(cells.ravel(), minlength=size)
        totals[1] += np.bincount(cells.ravel(), block.ravel(), minlength=size)
        totals[2] += np.bincount(hits, minlength=size)
    return np.ascontiguousarray(totals.reshape(3, num_classes, num_bins).transpose(1, 0, 2))


def calibration_gap(totals: FloatArray) -> float:
    """Return the expected calibration error from the totals of bins (3, B)."""
    count, confidence, right = totals
    return float(np.abs(right - confidence).sum() / count.sum())


def classwise_gap(totals: FloatArray) -> float:
    """Return the class-wise calibration error from `classwise_bins`."""
    return float(np.mean([calibration_gap(class_totals) for class_totals in totals]))


def curve_from_bins(totals: FloatArray) -> ReliabilityCurve:
    """Return the reliability curve from the totals of bins (3, B)."""
    count, confidence, right = totals
    # NaN, and no warning, where a bin is empty.
    divisor = np.where(count > 0, count, np.nan)
    return ReliabilityCurve(bin_edges(len(count)), confidence / divisor, right / divisor, count.astype(np.int64))


def equal_mass_gap(totals: FloatArray, num_bins: int = DEFAULT_NUM_BINS) -> float:
    """Return the adaptive calibration error from totals of groups in ascending order (3, num_groups)."""
    groups = occupied(totals)
    cuts = equal_mass_cuts(groups, num_bins)
    # Linear interpolation of the cumulative gap = each sample of a group counts with the group's means.
    position = np.concatenate([[0.0], np.cumsum(groups.samples)])
    cumulative_gap = np.concatenate([[0.0], np.cumsum(groups.hits - groups.value)])
    gaps = np.diff(np.interp(cuts, position, cumulative_gap))
    return float(np.abs(gaps).sum() / groups.samples.sum())


def equal_mass_cuts(groups: GroupTotals, num_bins: int) -> FloatArray:
    """Return the ranks (num_bins + 1,) at which N sorted samples are cut, as `numpy.array_split` does."""
    size, remainder = divmod(int(groups.samples.sum()), num_bins)
    index = np.arange(num_bins + 1)
    return (index * size + np.minimum(index, remainder)).astype(np.float64)
