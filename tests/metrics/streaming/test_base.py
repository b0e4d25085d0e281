"""One suite over every streaming metric: batches, shards, memory, errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shiftcal import metrics
from shiftcal.core.errors import InvalidInputError
from shiftcal.metrics import StreamingMetric

Predictions = tuple[NDArray[np.float64], NDArray[np.int64]]

EXACT: dict[str, tuple[Callable[[], StreamingMetric[Any]], Callable[..., Any]]] = {
    "accuracy": (metrics.StreamingAccuracy, metrics.accuracy),
    "per_class": (metrics.StreamingPerClassAccuracy, metrics.per_class_accuracy),
    "mean_per_class": (metrics.StreamingMeanPerClassAccuracy, metrics.mean_per_class_accuracy),
    "brier": (metrics.StreamingBrierScore, metrics.brier_score),
    "likelihood": (metrics.StreamingNegativeLogLikelihood, metrics.negative_log_likelihood),
    "expected": (metrics.StreamingExpectedCalibrationError, metrics.expected_calibration_error),
    "classwise": (metrics.StreamingClasswiseCalibrationError, metrics.classwise_calibration_error),
    "curve": (metrics.StreamingReliabilityCurve, metrics.reliability_curve),
}
APPROXIMATE: dict[str, Callable[[], StreamingMetric[Any]]] = {
    "adaptive": metrics.StreamingAdaptiveCalibrationError,
    "risk_coverage": metrics.StreamingRiskCoverageCurve,
    "auroc": metrics.StreamingErrorDetectionAuroc,
}
EVERY = {name: entry[0] for name, entry in EXACT.items()} | APPROXIMATE
every = pytest.mark.parametrize("create", EVERY.values(), ids=EVERY.keys())


def assert_same(first: Any, second: Any) -> None:
    first, second = (value if isinstance(value, tuple) else (value,) for value in (first, second))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def batches(predictions: Predictions, num_batches: int) -> list[Predictions]:
    probabilities, labels = predictions
    rows = np.array_split(np.arange(len(labels)), num_batches)
    return [(probabilities[part], labels[part]) for part in rows if len(part)]


def some_predictions(num_samples: int = 300, num_classes: int = 4, seed: int = 0) -> Predictions:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(num_classes), num_samples), rng.integers(0, num_classes, num_samples)


def state_size(metric: StreamingMetric[Any]) -> int:
    return len(pickle.dumps(metric))


def test_batches_equal_the_whole(predictions: Predictions) -> None:
    for create, function in EXACT.values():
        metric = create()
        for batch in batches(predictions, 7):
            metric.update(*batch)
        assert_same(metric.compute(), function(*predictions))


def test_merged_shards_equal_the_whole(predictions: Predictions) -> None:
    for create in EVERY.values():
        merged = create()
        for shard in batches(predictions, 5):
            merged.merge(create().update(*shard))
        assert_same(merged.compute(), create().update(*predictions).compute())


@every
def test_many_small_updates_equal_the_whole(create: Callable[[], StreamingMetric[Any]]) -> None:
    predictions = some_predictions(150)
    metric = create()
    for batch in batches(predictions, 150):
        metric.update(*batch)
    assert_same(metric.compute(), create().update(*predictions).compute())


@every
def test_memory_does_not_grow(create: Callable[[], StreamingMetric[Any]]) -> None:
    metric = create()
    sizes = []
    for step in range(100):
        metric.update(*some_predictions(3, seed=step))
        if step in (9, 99):
            sizes.append(state_size(metric))
    assert sizes[0] == sizes[1] < 1_000_000


def test_compute_before_update_is_refused() -> None:
    for create in EVERY.values():
        with pytest.raises(InvalidInputError, match=r"has seen no samples\. Call update"):
            create().compute()
        with pytest.raises(InvalidInputError, match="has seen no samples"):
            create().merge(create()).compute()


def test_another_number_of_classes_is_refused() -> None:
    for create in EVERY.values():
        metric = create().update(*some_predictions(num_classes=4))
        before = pickle.dumps(metric)
        with pytest.raises(InvalidInputError, match=r"has seen 4 classes so far .* Got 3 instead"):
            metric.update(*some_predictions(num_classes=3))
        with pytest.raises(InvalidInputError, match=r"has seen 4 classes so far .* Got 3 instead"):
            metric.merge(create().update(*some_predictions(num_classes=3)))
        with pytest.raises(InvalidInputError, match="apply softmax first"):
            metric.update(np.ones((2, 4)), np.array([0, 1]))
        assert pickle.dumps(metric) == before


def test_another_kind_of_metric_is_refused() -> None:
    for create in EVERY.values():
        metric = create()
        others: list[Any] = [other() for other in EVERY.values() if other is not create]
        for other in (*others, {}):
            with pytest.raises(InvalidInputError, match=f"merge needs another {type(metric).__name__}. Got "):
                metric.merge(other)


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (
            metrics.StreamingExpectedCalibrationError(),
            metrics.StreamingExpectedCalibrationError(num_bins=10),
            r"\{'num_bins': 15\}.* Got \{'num_bins': 10\}",
        ),
        (
            metrics.StreamingAdaptiveCalibrationError(),
            metrics.StreamingAdaptiveCalibrationError(num_bins=10),
            "'num_bins': 10",
        ),
        (
            metrics.StreamingErrorDetectionAuroc(),
            metrics.StreamingErrorDetectionAuroc(num_cells=10),
            r"Got \{'num_cells': 10\}",
        ),
    ],
)
def test_other_settings_are_refused(one: StreamingMetric[Any], other: StreamingMetric[Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        one.merge(other)


def test_merge_leaves_the_other_alone() -> None:
    for create in EVERY.values():
        shard = create().update(*some_predictions())
        before = pickle.dumps(shard)
        merged = create().merge(shard)
        merged.update(*some_predictions(seed=1))
        shard.merge(create())
        assert pickle.dumps(shard) == before


def test_tensors_survive_a_trip_through_pickle() -> None:
    for create in EVERY.values():
        probabilities, labels = some_predictions()
        metric = create().update(torch.from_numpy(probabilities).requires_grad_(), torch.from_numpy(labels))
        assert_same(pickle.loads(pickle.dumps(metric)).compute(), create().update(probabilities, labels).compute())


def test_rounding_does_not_grow_with_the_number_of_updates() -> None:
    metric = metrics.StreamingBrierScore()
    totals = np.array([0.1, 1.0])
    for _ in range(50_000):
        metric._add(2, totals, np.zeros(2))
    assert metric.compute() == pytest.approx(0.1, abs=1e-16)
    assert metrics.StreamingBrierScore().merge(metric).compute() == metric.compute()
