import numpy as np
import pytest
from tests.problems import gaussian_problem

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.data.batches import BatchPlan, ShiftProblem, _EpochBatches
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.weights import row_weights, weighted_rows

LABELS = np.array([0, 0, 0, 1])


def test_weights_of_classes_and_rows_are_multiplied() -> None:
    assert row_weights(LABELS, ("a", "b"), None, None) is None
    balanced = row_weights(LABELS, ("a", "b"), "balanced", None)
    np.testing.assert_allclose(balanced, [2 / 3, 2 / 3, 2 / 3, 2])  # type: ignore[arg-type]
    both = row_weights(LABELS, ("a", "b"), {"b": 5}, [1, 2, 0, 1])
    np.testing.assert_allclose(both, [1, 2, 0, 5])  # type: ignore[arg-type]


def test_rows_are_drawn_by_their_weight() -> None:
    weights = np.array([0.0, 1.0, 2.5, 0.5])
    counts = np.zeros(4)
    for seed in range(200):
        drawn = np.bincount(weighted_rows(weights, 4, np.random.default_rng(seed)), minlength=4)
        assert (np.abs(drawn - weights) < 1).all()
        counts += drawn / 200
    np.testing.assert_allclose(counts, weights, atol=0.1)
    joined = weighted_rows(np.array([0.0, 2.0]), 4, np.random.default_rng(0))
    assert np.bincount(joined, minlength=4).tolist() == [0, 2, 1, 1]


def test_batches_hold_rows_by_their_weight() -> None:
    problem = gaussian_problem(60)
    source = problem.source
    weights = np.where(source.labels == 0, 2.0, np.where(source.labels == 1, 1.0, 0.0))
    weighted = LabelledDomain(source.name, source.inputs, source.labels, source.classes, weights)
    batches = _EpochBatches(ShiftProblem(weighted, problem.target), BatchPlan(batch_size=20), epoch=0)
    drawn = np.concatenate([batches[step].source_labels.numpy() for step in range(3)])
    assert np.bincount(drawn, minlength=3).tolist() == [40, 20, 0]
    part = weighted.subset(np.array([0, 2]))
    assert part.weights is not None
    assert part.weights.tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    ("class_weight", "sample_weight", "message"),
    [
        ("even", None, "expected None, 'balanced'"),
        ({"a": -1}, None, "class_weight: expected finite numbers of at least 0"),
        (None, [1, 2], "expected 4 numbers"),
        (None, [1, 2, np.nan, 1], "sample_weight: expected finite"),
        (None, "abc", "sample_weight: expected numbers"),
        (None, [0] * 4, "got zero for all"),
    ],
)
def test_weights_that_are_none(class_weight: object, sample_weight: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        row_weights(LABELS, ("a", "b"), class_weight, sample_weight)
    with pytest.raises(UnknownNameError, match="label of class_weight 'c'"):
        row_weights(LABELS, ("a", "b"), {"c": 1}, None)
