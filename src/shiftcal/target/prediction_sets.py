"""Prediction sets that hold the true class with a chosen probability on the target, under covariate shift.

Weighted split conformal prediction (Tibshirani, Barber, Candes and Ramdas, Conformal Prediction Under Covariate
Shift, NeurIPS 2019). Held-out source rows i = 1..n with labels give scores s_i, which are larger for labels that the
model finds less likely. With weights w = P_target / P_source = 1/R, the set of a target row x is

    { y : s(x, y) <= t(x) },   t(x) = the `coverage` quantile of  sum_i p_i delta(s_i) + p_x delta(infinity),
    p_i = w_i / (sum_j w_j + w(x)),   p_x = w(x) / (sum_j w_j + w(x)).

With the true weights it holds the true class with a probability of at least `coverage`, whatever the model. Weights
that are all equal give ordinary split conformal prediction, whose t is the ceil((n + 1) coverage)-th smallest score.

Scores, with probabilities p (N, C):

    aps   the sum of p over the classes that are at least as likely as y, y included, less u p_y for a u in [0, 1]
          (Romano, Sesia and Candes, Classification with Valid and Adaptive Coverage, NeurIPS 2020): sets grow with
          the uncertainty of each row. u is a uniform random number of each row, given by the caller; without it
          u = 0, which needs no random numbers and makes larger sets. Of equally likely classes the first comes first.
    lac   1 - p_y (Sadinle, Lei and Wasserman, JASA 114, 2019): the smallest sets on average.

All of this rests on weights that are right, and on nothing having shifted but the inputs. On a target that lies apart
from the source, learned weights are not: a few held-out rows carry all of their mass, and then even these do not
suffice (t is infinite, the set holds every class) or they mislead. `Conformity` therefore asks a second source, the
probabilities of the target's own rows. If they are calibrated, row x has the label y with probability p_y(x), and

    t = the `coverage` quantile of  1/M sum_x sum_y p_y(x) delta(s(x, y))

makes sets that hold the true class with probability `coverage`; this is as good as the calibration is. Of the two
thresholds the larger one counts, and the second alone where the first is infinite: a set of every class is of no use.

A set may come out empty where the model is surer than it was on nearly all held-out rows. The most likely class is
always put in: this can only raise the coverage. NumPy arrays in give NumPy arrays out, tensors give tensors on the
same device; all is computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, float64, from_numpy

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.target.sampling import sampled_rows

Score: TypeAlias = Literal["aps", "lac"]
SCORES: tuple[Score, ...] = ("aps", "lac")

Array: TypeAlias = NDArray[Any] | Tensor
ArrayT = TypeVar("ArrayT", NDArray[Any], Tensor)
_FloatArray: TypeAlias = NDArray[np.float64]

# A quantile that is met but for rounding is met: 0.55 * 100 is 55.00000000000001.
_ROUNDING = 1e-12
# Steps of coverage for which a threshold is kept, and rows that these are found from: more would change nothing.
STEPS = 1_000
_MOST_TARGET_ROWS = 10_000


class Conformity(NamedTuple):
    """What the prediction sets of a model rest on, by the score "lac"; made by `conformity`."""

    scores: Tensor
    """(n,) of the labels of held-out source rows."""
    weights: Tensor
    """(n,) of these rows, P_target / P_source."""
    expected: Tensor | None
    """(1001,) thresholds for a coverage of 0, 0.001, ..., 1 by the probabilities of the target's rows; None without
    a target."""

    def sets(self, probabilities: ArrayT, test_weights: Array | float, coverage: float) -> ArrayT:
        """Which classes are in the set of each row: (N, C) of bool, never without the most likely class.

        Args:
            probabilities: (N, C).
            test_weights: (N,) or one for all, P_target / P_source.
            coverage: wanted probability of the true class being in its set, in (0, 1]; 1 gives every class.

        Raises:
            InvalidInputError: see `prediction_sets`.
        """
        return self.rule(coverage)(probabilities, test_weights)

    def rule(self, coverage: float) -> Callable[[ArrayT, Array | float], ArrayT]:
        """`sets` of a coverage, for many batches: what does not depend on their rows is done once."""
        thresholds = _Thresholds.of(self.scores, self.weights, coverage)
        if self.expected is not None and coverage < 1:
            expected = float(self.expected[int(np.ceil(coverage * STEPS * (1 - _ROUNDING)))])
            values = thresholds.values
            values = np.where(np.isinf(values), expected, np.maximum(values, expected))
            thresholds = thresholds._replace(values=values)

        def sets(probabilities: ArrayT, test_weights: Array | float) -> ArrayT:
            return _sets_within(probabilities, thresholds.at(test_weights), "lac")

        return sets


def conformity(held_out: Tensor, labels: Tensor, weights: Tensor, target: Tensor | None = None) -> Conformity:
    """Gather what prediction sets rest on.

    Args:
        held_out: probabilities (n, C) of source rows that the model was not trained on.
        labels: (n,) of these rows.
        weights: (n,) of these rows, P_target / P_source.
        target: probabilities (M, C) of the target's rows.

    >>> import torch
    >>> calibrated = torch.tensor([[0.7, 0.3], [0.9, 0.1]], dtype=torch.float64)
    >>> found = conformity(calibrated, torch.tensor([0, 0]), torch.ones(2), calibrated)
    >>> found.sets(calibrated, 1.0, 0.9)
    tensor([[ True,  True],
            [ True, False]])
    """
    expected = None
    if target is not None:
        rows = _numpy(target, "target", 2)
        rows = rows[sampled_rows(len(rows), _MOST_TARGET_ROWS)]
        scores, mass = (values.ravel() for values in (class_scores(rows, "lac"), rows))
        order = np.argsort(scores, kind="stable")
        cumulative = np.cumsum(mass[order])
        ranks = np.searchsorted(cumulative, np.linspace(0, cumulative[-1], STEPS + 1) * (1 - _ROUNDING))
        expected = from_numpy(scores[order][ranks])
    scores = conformity_scores(_numpy(held_out, "held_out", 2), labels, "lac")
    return Conformity(from_numpy(scores), from_numpy(_checked_weights(weights, "weights", 1)), expected)


def conformity_scores(
    probabilities: ArrayT, labels: Array, score: Score = "aps", *, uniform: Array | None = None
) -> ArrayT:
    """Score of each row's own label (N,); larger is stranger.

    Args:
        probabilities: (N, C).
        labels: (N,) class numbers.
        score: "aps" or "lac".
        uniform: (N,) random numbers in [0, 1] for the randomised "aps".

    Raises:
        InvalidInputError: a wrong shape, NaN, a label that is no column, or an unknown score.

    >>> conformity_scores(np.array([[0.2, 0.5, 0.3]]), np.array([2]))
    array([0.8])
    """
    scores = class_scores(_numpy(probabilities, "probabilities", 2), score, uniform)
    columns = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    num_rows, num_classes = scores.shape
    if columns.shape != (num_rows,) or columns.dtype.kind not in "iu":
        raise InvalidInputError(
            f"labels must be integers of shape ({num_rows},), one per row of probabilities. "
            f"Got {columns.dtype} of shape {columns.shape} instead."
        )
    if columns.min() < 0 or columns.max() >= num_classes:
        raise InvalidInputError(
            f"labels must lie in [0, {num_classes}). Got values from {columns.min()} to {columns.max()} instead."
        )
    return _like(scores[np.arange(num_rows), columns], probabilities)


def weighted_threshold(
    scores: ArrayT, calibration_weights: Array, test_weight: Array | float, coverage: float
) -> ArrayT:
    """Threshold t of each test row: the exact weighted quantile with the row's own mass at infinity.

    Args:
        scores: (n,) scores of held-out source rows.
        calibration_weights: (n,) their weights P_target / P_source, up to a factor that all weights share.
        test_weight: (M,) or a single weight of test rows.
        coverage: in (0, 1].

    Returns:
        (M,), or without a dimension for a single weight; infinite where the held-out rows do not suffice, and
        everywhere for a coverage of 1.

    Raises:
        InvalidInputError: a wrong shape, NaN, a negative weight, weights that are all 0, or a coverage out of range.

    >>> weighted_threshold(np.array([0.1, 0.2, 0.3, 0.4]), np.ones(4), np.array([1.0, 4.0]), 0.6)
    array([0.3, inf])
    """
    return _like(_Thresholds.of(scores, calibration_weights, coverage).at(test_weight), scores)


class _Thresholds(NamedTuple):
    """`weighted_threshold` as far as it does not depend on test rows."""

    mass: _FloatArray
    """(n,) weights of held-out rows in the order of their scores, cumulated."""
    values: _FloatArray
    """(n + 1,) thresholds by rank: these scores, and infinity."""
    coverage: float

    @classmethod
    def of(cls, scores: Array, weights: Array, coverage: float) -> _Thresholds:
        values = _numpy(scores, "scores", 1)
        checked = _checked_weights(weights, "calibration_weights", 1)
        if len(checked) != len(values):
            raise InvalidInputError(
                f"calibration_weights must have shape ({len(values)},), one per score. "
                f"Got shape {checked.shape} instead."
            )
        if not 0 < coverage <= 1:
            raise InvalidInputError(f"coverage must be above 0 and at most 1. Got {coverage!r} instead.")
        order = np.argsort(values, kind="stable")
        ranked = np.append(values[order], np.inf) if coverage < 1 else np.full(len(values) + 1, np.inf)
        return cls(np.cumsum(checked[order]), ranked, coverage)

    def at(self, test_weight: Array | float) -> _FloatArray:
        """Of rows of such weights (M,), or of one."""
        total = self.mass[-1] + _checked_weights(test_weight, "test_weight", None)
        if not (total > 0).all():
            raise InvalidInputError("calibration_weights and test_weight must not all be 0: give positive weights.")
        rank = np.searchsorted(self.mass, self.coverage * total * (1 - _ROUNDING), side="left")
        return np.asarray(self.values[rank])


def prediction_sets(
    probabilities: ArrayT,
    test_weights: Array | float,
    scores: Array,
    calibration_weights: Array,
    coverage: float,
    score: Score = "aps",
    *,
    uniform: Array | None = None,
) -> ArrayT:
    """Which classes are in the set of each test row: (N, C) of bool, never without the most likely class.

    Args:
        probabilities: (N, C) of test rows.
        test_weights: (N,) weights P_target / P_source of test rows, or one for all.
        scores: (n,) `conformity_scores` of held-out source rows, of the same kind.
        calibration_weights: (n,) weights of the held-out source rows.
        coverage: least probability, in (0, 1], of the true class being in its set; 1 gives every class.
        score: "aps" or "lac", as for `scores`.
        uniform: (N,) random numbers in [0, 1] if `scores` were made with such.

    Raises:
        InvalidInputError: see `conformity_scores` and `weighted_threshold`.

    >>> calibration = np.array([0.5, 0.6, 0.7, 0.95])
    >>> prediction_sets(np.array([[0.2, 0.5, 0.3]]), np.ones(1), calibration, np.ones(4), 0.8)
    array([[False,  True,  True]])
    """
    thresholds = _Thresholds.of(scores, calibration_weights, coverage)
    return _sets_within(probabilities, thresholds.at(test_weights), score, uniform)


def _sets_within(
    probabilities: ArrayT, thresholds: _FloatArray, score: Score, uniform: Array | None = None
) -> ArrayT:
    checked = _numpy(probabilities, "probabilities", 2)
    if thresholds.shape not in ((), (len(checked),)):
        raise InvalidInputError(
            f"test_weights must have shape ({len(checked)},), one per row of probabilities. "
            f"Got shape {thresholds.shape} instead."
        )
    chosen = class_scores(checked, score, uniform) <= np.reshape(thresholds, (-1, 1))
    # A set that holds any class holds the most likely one, whose score is the smallest.
    empty = np.flatnonzero(~chosen.any(axis=1))
    chosen[empty, checked[empty].argmax(axis=1)] = True
    return _like(chosen, probabilities)


def class_scores(probabilities: _FloatArray, score: Score = "aps", uniform: Array | None = None) -> _FloatArray:
    """Score of every class of every row (N, C)."""
    if score not in SCORES:
        raise UnknownNameError("score", score, SCORES)
    if score == "lac":
        if uniform is not None:
            raise InvalidInputError("uniform belongs to the score 'aps'; leave it out for 'lac'.")
        return 1 - probabilities
    order = np.argsort(-probabilities, axis=1, kind="stable")
    cumulative = np.cumsum(np.take_along_axis(probabilities, order, axis=1), axis=1)
    scores = np.empty_like(probabilities)
    np.put_along_axis(scores, order, cumulative, axis=1)
    if uniform is None:
        return scores
    share = _numpy(uniform, "uniform", 1)
    if share.shape != (len(scores),) or share.min() < 0 or share.max() > 1:
        raise InvalidInputError(
            f"uniform must hold numbers in [0, 1] of shape ({len(scores)},). Got shape {share.shape} with values "
            f"from {share.min():g} to {share.max():g} instead."
        )
    return scores - share[:, None] * probabilities


def _checked_weights(values: Array | float, name: str, num_dimensions: int | None) -> _FloatArray:
    weights = _numpy(values, name, num_dimensions)
    if weights.ndim > 1 or not np.isfinite(weights).all() or weights.min() < 0:
        raise InvalidInputError(
            f"{name} must be finite numbers of at least 0, one per row: P_target / P_source, which is 1 / R. "
            f"Got shape {weights.shape} with values from {weights.min():g} to {weights.max():g} instead."
        )
    return weights


def _numpy(values: Array | float, name: str, num_dimensions: int | None) -> _FloatArray:
    """Values in float64, with that number of dimensions if there is one, not empty and without NaN."""
    try:
        array = values.detach().cpu().to(float64).numpy() if isinstance(values, Tensor) else np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must be an array of numbers: {error}") from error
    if array.size == 0 or num_dimensions not in (None, array.ndim):
        expected = {1: "(rows,)", 2: "(rows, classes)"}.get(num_dimensions or 0, "(rows,) or ()")
        raise InvalidInputError(
            f"{name} must have shape {expected} and not be empty. Got shape {array.shape} instead."
        )
    if np.isnan(array).any():
        raise InvalidInputError(f"{name} must not hold NaN. Got {int(np.isnan(array).sum())} of them.")
    return array


def _like(result: NDArray[Any], given: ArrayT) -> ArrayT:
    if isinstance(given, Tensor):
        return from_numpy(np.asarray(result)).to(given.device)
    return result
