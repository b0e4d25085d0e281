"""What no calibrator and no estimator may depend on: order of rows, names of classes, units, constants per row."""

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.calibrators import CALIBRATORS
from shiftcal.calibrators.base import CalibrationData
from shiftcal.core.errors import InvalidInputError
from shiftcal.data.inputs import ArrayInputs, Inputs
from shiftcal.functional import linear_scaling
from shiftcal.methods.base import Outputs
from shiftcal.target.estimators import ESTIMATORS
from shiftcal.target.evidence import ObservedRows, ShiftEvidence

pytestmark = pytest.mark.usefixtures("coarse_estimate")
Rows = tuple[Outputs, Tensor]
CLASSES = torch.tensor([2, 0, 1])


def domain(num_rows: int, *, moved: float, seed: int) -> Rows:
    """Three clusters that a model gets wrong now and then."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_rows) % 3
    features = 2 * torch.eye(3, 4, dtype=torch.float64)[labels]
    features += torch.randn(num_rows, 4, generator=generator, dtype=torch.float64)
    features[:, 3] += moved
    return Outputs(2 * features[:, :3], torch.ones(num_rows, dtype=torch.float64), features), labels


SOURCE, LABELS = domain(33, moved=0, seed=0)
TARGET, _ = domain(27, moved=1, seed=1)


def chosen(said: Outputs, rows: Tensor) -> Outputs:
    return Outputs(*(value[rows] for value in said[:3]))


def renamed(said: Outputs) -> Outputs:
    return said._replace(logits=said.logits[:, CLASSES])


def shuffled(num_rows: int, seed: int) -> Tensor:
    return torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))


def measured_otherwise(said: Outputs) -> Outputs:
    """Features in another unit and from another zero; logits with a constant, which probabilities do not show."""
    return said._replace(logits=said.logits + 5, features=2.0**10 * (said.features + torch.arange(4.0)))


# All at once: what depends on any of them gives itself away.
ORDER = shuffled(33, 5)
CHANGED_SOURCE = chosen(measured_otherwise(renamed(SOURCE)), ORDER)
CHANGED_LABELS = torch.argsort(CLASSES)[LABELS][ORDER]
CHANGED_TARGET = measured_otherwise(renamed(TARGET))


def data_of(
    source: Outputs, labels: Tensor, target: Outputs, order: Tensor | None = None, columns: Tensor | None = None
) -> CalibrationData:
    """With a model of inputs that are the features in their own units, rows and classes ordered as said."""
    inputs = SOURCE.features if order is None else SOURCE.features[order]

    def predict(inputs: Inputs) -> Outputs:
        values = inputs.fetch(np.arange(len(inputs), dtype=np.int64)).double()
        logits = 2 * values[:, :3]
        return Outputs(logits if columns is None else logits[:, columns], torch.ones(len(values)), values)

    return CalibrationData(
        source, labels, target, source.logits.shape[1], held_out_inputs=ArrayInputs(inputs), predict=predict
    )


@pytest.mark.parametrize("name", CALIBRATORS)
def test_order_names_and_units_do_not_matter_to_a_calibrator(name: str) -> None:
    calibrator = CALIBRATORS[name]()

    def calibrated(target: Outputs, data: CalibrationData) -> Tensor:
        return torch.softmax(calibrator.calibrate(target, calibrator.fit(data)), dim=-1)

    expected = calibrated(TARGET, data_of(SOURCE, LABELS, TARGET))
    target_in_other_order = chosen(CHANGED_TARGET, shuffled(27, 6))
    data = data_of(CHANGED_SOURCE, CHANGED_LABELS, target_in_other_order, ORDER, CLASSES)
    torch.testing.assert_close(calibrated(CHANGED_TARGET, data), expected[:, CLASSES], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_same_holds_of_an_estimator(name: str) -> None:
    def estimate(source: Outputs, labels: Tensor, target: Outputs) -> float:
        own, other = (ObservedRows(said.logits, said.density_ratio / 2, said.features) for said in (source, target))
        return ESTIMATORS[name]().estimate(ShiftEvidence(own, labels, other))

    found = estimate(CHANGED_SOURCE, CHANGED_LABELS, chosen(CHANGED_TARGET, shuffled(27, 6)))
    assert found == pytest.approx(estimate(SOURCE, LABELS, TARGET), abs=1e-9)


def many_classes(num_rows: int, seed: int) -> Outputs:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(num_rows, 10_000, generator=generator)
    return Outputs(logits, torch.ones(num_rows), torch.randn(num_rows, 4, generator=generator))


@pytest.mark.parametrize("name", CALIBRATORS)
def test_ten_thousand_classes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bounded time and memory, or with a word on why not."""
    monkeypatch.setattr(linear_scaling, "_MOST_PRODUCTS", 10**6)  # as with many more rows
    source, target, labels = many_classes(12, 0), many_classes(10, 1), torch.arange(12) * 800

    def predict(inputs: Inputs) -> Outputs:
        values = inputs.fetch(np.arange(len(inputs), dtype=np.int64))
        return Outputs(values, torch.ones(len(values)), values)

    data = CalibrationData(
        source, labels, target, 10_000, held_out_inputs=ArrayInputs(source.logits), predict=predict
    )
    calibrator, started = CALIBRATORS[name](), time.process_time()
    if name == "matrix":
        with pytest.raises(InvalidInputError, match=r"learns 100,000,000 numbers .* choose the calibrator 'vector'"):
            calibrator.fit(data)
        return
    probabilities = torch.softmax(calibrator.calibrate(target, calibrator.fit(data)).double(), dim=-1)
    torch.testing.assert_close(probabilities.sum(dim=-1), torch.ones(10).double())
    assert time.process_time() - started < 10


TYPES = (torch.float16, torch.bfloat16, torch.float32)


@pytest.mark.parametrize("name", [name for name in CALIBRATORS if name != "target-scaling"])
def test_the_type_of_floats_matters_no_more_than_its_precision(name: str) -> None:
    calibrator = CALIBRATORS[name]()
    for kind in TYPES:
        source, target = (Outputs(*(value.to(kind) for value in said[:3])) for said in (SOURCE, TARGET))
        exact = [Outputs(*(value.double() for value in said[:3])) for said in (source, target)]
        found, expected = (
            torch.softmax(calibrator.calibrate(own, calibrator.fit(data_of(other, LABELS, own))).double(), dim=-1)
            for other, own in ((source, target), exact)
        )
        torch.testing.assert_close(found, expected, atol=4 * torch.finfo(kind).eps, rtol=0, msg=f"{name} {kind}")


@pytest.mark.parametrize("draw", [torch.zeros, torch.ones], ids=["zeros", "ones"])
def test_equal_rows_with_other_labels_have_a_place_of_their_own(draw: Callable[..., Tensor]) -> None:
    """Matrix scaling learns from folds, which must not depend on which of two equal rows came first."""
    source = Outputs(draw(40, 3), torch.ones(40), draw(40, 2))
    labels, order = torch.arange(40) % 3, shuffled(40, 1)
    matrix = CALIBRATORS["matrix"]()
    first, second = (
        matrix.fit(CalibrationData(chosen(source, rows), labels[rows], None, 3))["bias"]
        for rows in (torch.arange(40), order)
    )
    torch.testing.assert_close(first, second, atol=1e-6, rtol=0)
