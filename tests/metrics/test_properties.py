"""What holds of every metric, whatever the probabilities: types, sizes, orders and names do not matter."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shiftcal.metrics import METRICS, compute_metrics

# Without a row that is wrong, or one that is right, there is nothing to detect.
MAY_BE_UNDEFINED = "error_detection_auroc"
Case = tuple[NDArray[np.float64], NDArray[np.int64], np.random.Generator]


def drawn(seed: int, num_rows: int, num_classes: int, concentration: float) -> Case:
    """Probabilities from almost certain to almost even, and labels."""
    generator = np.random.default_rng(seed)
    # Not `dirichlet`: at small concentrations it divides 0 by 0.
    logits = generator.normal(size=(num_rows, num_classes)) / concentration
    logits -= logits.max(axis=1, keepdims=True)
    probabilities = np.exp(logits)
    return (
        probabilities / probabilities.sum(1, keepdims=True),
        generator.integers(0, num_classes, num_rows),
        generator,
    )


cases = st.builds(
    drawn,
    st.integers(0, 999),
    st.sampled_from([1, 2, 3, 50]),
    st.sampled_from([1, 2, 7]),
    st.sampled_from([1e-3, 1, 1e6]),
)


def check_close(found: dict[str, float], expected: dict[str, float], tolerance: float = 1e-9) -> None:
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=tolerance, rel=tolerance, nan_ok=True), name


@given(cases)
def test_metrics_are_numbers_and_the_order_of_rows_and_classes_does_not_matter(case: Case) -> None:
    probabilities, labels, generator = case
    metrics = compute_metrics(probabilities, labels)
    assert all(math.isfinite(value) for name, value in metrics.items() if name != MAY_BE_UNDEFINED)
    rows, classes = generator.permutation(len(labels)), generator.permutation(probabilities.shape[1])
    check_close(compute_metrics(probabilities[rows], labels[rows]), metrics)
    renamed = np.argsort(classes)[labels]
    if np.all(np.sort(probabilities, axis=1)[:, -2:-1] < probabilities.max(1, keepdims=True)):  # of equals, the first
        check_close(compute_metrics(probabilities[:, classes], renamed), metrics)


@given(cases)
def test_rows_that_occur_twice_count_twice(case: Case) -> None:
    probabilities, labels, _ = case
    names = ("accuracy", "brier_score", "negative_log_likelihood", "expected_calibration_error")
    once, twice = (compute_metrics(np.tile(probabilities, (n, 1)), np.tile(labels, n)) for n in (1, 2))
    check_close({name: twice[name] for name in names}, {name: once[name] for name in names})


FLOATS = [np.float16, np.float32, np.float64, np.longdouble, ">f4", torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_any_type_of_float_is_taken(kind: Any) -> None:
    probabilities, labels, _ = drawn(0, 200, 4, 1.0)
    is_torch = isinstance(kind, torch.dtype)
    given_as: Any = torch.from_numpy(probabilities).to(kind) if is_torch else probabilities.astype(kind)
    same = given_as.double().numpy() if is_torch else given_as.astype(np.float64)
    check_close(compute_metrics(given_as, labels), compute_metrics(same / same.sum(1, keepdims=True), labels), 0.01)


@pytest.mark.parametrize(
    ("num_rows", "num_classes"), [(1, 1), (1, 2), (3, 10_000), (10_001, 2)], ids=["one", "row", "classes", "rare"]
)
def test_extreme_sizes(num_rows: int, num_classes: int) -> None:
    probabilities, labels, _ = drawn(0, num_rows, num_classes, 1.0)
    labels[:] = 0
    labels[-1] = num_classes - 1  # one in ten thousand
    metrics = compute_metrics(probabilities, labels)
    assert metrics.keys() == METRICS.keys()
    assert all(math.isfinite(value) for name, value in metrics.items() if name != MAY_BE_UNDEFINED)
    assert 0 <= metrics["accuracy"] <= 1
