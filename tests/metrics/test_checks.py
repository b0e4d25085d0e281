from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from shiftcal.core.errors import InvalidInputError
from shiftcal.metrics import METRICS, brier_score, compute_metrics, reliability_curve, risk_coverage_curve
from shiftcal.metrics.checks import check_num_bins, check_predictions, check_scores

GOOD = np.array([[0.9, 0.1], [0.2, 0.8]])
LABELS = np.array([0, 1])
HUGE = np.full((2, 2), 1.7e308)


@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        (np.array([[2.0, 1.0], [0.5, 0.5]]), LABELS, r"sum to 1 .* Got 3\.0 at sample 0 .*apply softmax first"),
        (np.array([[0.9, 0.1], [0.5, 0.502]]), LABELS, r"Got 1\.002 at sample 1 \(1 such rows of 2\)"),
        (HUGE, LABELS, "Got inf at sample 0"),
        (np.array([[1.5, -0.5], [0.5, 0.5]]), LABELS, r"at least 0\. Got -0\.5 at sample 0, class 1: .*softmax"),
        (np.array([[0.5, 0.5], [np.nan, 1.0]]), LABELS, "Got nan at sample 1, class 0: look for"),
        (np.array([[np.inf, 0.0], [0.5, 0.5]]), LABELS, "Got inf at sample 0"),
        (GOOD[:, 0], LABELS, r"shape \(N, C\).* Got shape \(2,\).*np\.stack"),
        (GOOD[None], LABELS, r"Got shape \(1, 2, 2\)"),
        (GOOD[:0], LABELS[:0], r"at least one sample.* Got shape \(0, 2\)"),
        (GOOD[:, :0], LABELS, r"one class\. Got shape \(2, 0\)"),
        (np.eye(2, dtype=int), LABELS, "floating-point. Got dtype int64"),
        (GOOD.astype(complex), LABELS, "floating-point. Got dtype complex128"),
        (GOOD, np.array([0, 2]), r"\[0, 2\).* Got values from 0 to 2"),
        (GOOD, np.array([-1, 1]), "Got values from -1 to 1"),
        (GOOD, np.array([0, 2**64 - 1], dtype=np.uint64), "to 18446744073709551615"),
        (GOOD, np.array([0.0, 1.0]), r"integer class indices. Got dtype float64.*labels\.long\(\)"),
        (GOOD, np.array([True, False]), "Got dtype bool"),
        (GOOD, np.array([0]), r"shape \(2,\).* Got shape \(1,\)"),
        (GOOD, np.eye(2, dtype=int), r"Got shape \(2, 2\) instead\. For one-hot labels, use labels\.argmax\(1\)"),
        (GOOD, LABELS[:, None], r"Got shape \(2, 1\)"),
        ([[0.5, 0.5], [1.0]], LABELS, "NumPy array or a torch tensor. Got list"),
        (torch.tensor(GOOD).to_sparse(), LABELS, "Got Tensor instead, which can't be converted"),
    ],
)
def test_wrong_inputs_are_refused(probabilities: Any, labels: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_predictions(probabilities, labels)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_checks_its_inputs(name: str) -> None:
    with pytest.raises(InvalidInputError, match="apply softmax first"):
        METRICS[name].function(2 * GOOD, LABELS)


@pytest.mark.parametrize("num_bins", [0, -3, 2.5, True, "15", None])
def test_wrong_number_of_bins_is_refused(num_bins: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"num_bins must be an integer of at least 1\. Got"):
        check_num_bins(num_bins)


def test_numpy_integers_are_numbers_of_bins() -> None:
    assert reliability_curve(GOOD, LABELS, num_bins=np.int32(4)).count.shape == (4,)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.array([0.1]), r"shape \(2,\).* Got shape \(1,\)"),
        (np.array([0.1, np.nan]), "NaN at sample 1"),
        (np.array([True, False]), "real numbers. Got dtype bool"),
    ],
)
def test_wrong_scores_are_refused(scores: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        risk_coverage_curve(GOOD, LABELS, scores=scores)


def test_scores_may_be_integers_infinite_or_tensors() -> None:
    for scores in (np.array([3, 4]), np.array([-np.inf, np.inf]), torch.tensor([1.0, 2.0], requires_grad=True)):
        assert check_scores(scores, 2).dtype == np.float64


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_torch_tensors_of_any_float_type(dtype: torch.dtype) -> None:
    logits = torch.randn(300, 10, generator=torch.Generator().manual_seed(0)) * 3
    probabilities = logits.softmax(1).to(dtype).requires_grad_()
    labels = torch.arange(300) % 10
    expected = compute_metrics(probabilities.detach().double().numpy().copy(), labels.numpy())
    assert compute_metrics(probabilities, labels) == expected
    assert compute_metrics(probabilities, labels.to(torch.uint8)) == expected


def test_bfloat16_is_allowed_its_own_rounding() -> None:
    logits = torch.randn(300, 10, generator=torch.Generator().manual_seed(0)) * 3
    rounded = logits.softmax(1).bfloat16()
    labels = torch.arange(300) % 10
    assert brier_score(rounded, labels) == pytest.approx(brier_score(logits.softmax(1), labels), abs=1e-3)
    with pytest.raises(InvalidInputError, match=r"tolerance 0\.001"):
        brier_score(rounded.double(), labels)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, ">f8"])
def test_numpy_arrays_of_any_float_type(dtype: Any) -> None:
    exact = np.array([[0.75, 0.25], [0.5, 0.5]])
    assert compute_metrics(exact.astype(dtype), LABELS) == pytest.approx(compute_metrics(exact, LABELS), nan_ok=True)


def test_inputs_are_left_as_they_were() -> None:
    probabilities, labels = GOOD.copy(), LABELS.copy()
    compute_metrics(probabilities, labels)
    np.testing.assert_array_equal(probabilities, GOOD)
    np.testing.assert_array_equal(labels, LABELS)


def test_memory_order_does_not_matter() -> None:
    wide = np.random.default_rng(0).dirichlet(np.ones(4), 100)
    labels = np.arange(100) % 4
    assert compute_metrics(np.asfortranarray(wide), labels) == pytest.approx(compute_metrics(wide, labels), abs=1e-14)


@pytest.mark.parametrize(("num_rows", "num_classes"), [(30_000, 5), (3_000, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_many_blocks_are_taken_as_one_array(num_rows: int, num_classes: int, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    # Of fifteenths: many rows have several classes that are the most probable.
    probabilities = (rng.multinomial(15, np.full(num_classes, 1 / num_classes), num_rows) / 15).astype(dtype)
    labels = rng.integers(0, num_classes, num_rows)
    predictions = check_predictions(probabilities, labels)
    wide = probabilities.astype(np.float64)
    np.testing.assert_array_equal(predictions.predicted, wide.argmax(axis=1))
    np.testing.assert_array_equal(predictions.confidence, wide.max(axis=1))
    squares = np.square(wide - np.eye(num_classes)[labels]).sum(axis=1).mean()
    assert brier_score(probabilities, labels) == pytest.approx(squares, rel=1e-13)
    assert compute_metrics(probabilities, labels) == compute_metrics(wide, labels)


@pytest.mark.parametrize(
    ("value", "message"), [(-1.0, "Got -1.0 at sample 29998, class 1"), (0.7, r"at sample 29998 \(1 such")]
)
def test_errors_name_the_row_of_the_whole_array(value: float, message: str) -> None:
    probabilities = np.tile([0.5, 0.5], (30_000, 1))
    probabilities[29_998, 1] = value
    with pytest.raises(InvalidInputError, match=message):
        check_predictions(probabilities, np.zeros(30_000, dtype=int))
