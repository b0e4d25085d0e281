import pytest
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.target_scaling import TargetScaling
from shiftcal.core.errors import UnknownNameError
from shiftcal.methods.base import Outputs
from shiftcal.target.rule import TrustRule

pytestmark = pytest.mark.usefixtures("coarse_estimate")
CLASSES, DIM = 3, 6


def outputs(num_rows: int, *, wrong: float, margin: float, shift: float, seed: int) -> tuple[Outputs, Tensor]:
    """Clusters by class, moved by a shift; a share of the rows is classified wrongly."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_rows) % CLASSES
    features = 5 * torch.eye(CLASSES, DIM)[labels] + torch.randn(num_rows, DIM, generator=generator) + shift
    predicted = torch.where(torch.rand(num_rows, generator=generator) < wrong, (labels + 1) % CLASSES, labels)
    logits = (margin + torch.rand(num_rows, 1, generator=generator)) * torch.eye(CLASSES)[predicted]
    return Outputs(logits, torch.ones(num_rows), features), labels


def data_of(num_source: int, num_target: int) -> CalibrationData:
    source, labels = outputs(num_source, wrong=0.02, margin=4.0, shift=0.0, seed=0)
    target, _ = outputs(num_target, wrong=0.3, margin=3.0, shift=1.5, seed=1)
    return CalibrationData(source, labels, target, CLASSES)


@pytest.fixture
def data() -> CalibrationData:
    return data_of(300, 400)


def confidence(logits: Tensor) -> float:
    return float(torch.softmax(logits.double(), dim=-1).amax(dim=-1).mean())


def test_confidence_on_the_target_becomes_the_estimated_accuracy() -> None:
    data = data_of(600, 800)  # of fewer rows, fits with and without a row differ by more than the thousandth below
    calibrator = TargetScaling()
    state = calibrator.fit(data)
    found = calibrator.diagnose(data)
    assert found is not None
    assert data.target is not None
    assert found.accuracy == pytest.approx(0.7, abs=0.04)
    scaled = calibrator.calibrate(data.target, state)
    assert confidence(scaled) == pytest.approx(found.accuracy, abs=1e-3)
    assert torch.equal(scaled.argmax(dim=-1), data.target.logits.argmax(dim=-1))
    # The source keeps most of its own.
    assert confidence(calibrator.calibrate(data.held_out, state)) > 0.9


def test_its_ratio_tells_the_domains_apart_whatever_that_of_the_model_says(data: CalibrationData) -> None:
    calibrator = TargetScaling(ratio_bound=5.0)
    state = calibrator.fit(data)
    assert data.target is not None
    source, target = (calibrator.density_ratio(part, state) for part in (data.held_out, data.target))
    assert 1 / 5 <= float(target.median()) < 1 < float(source.median()) <= 5.001
    modelled = data.held_out._replace(density_ratio=torch.full((300,), 2.0))
    state = calibrator.fit(CalibrationData(modelled, data.held_out_labels, data.target, CLASSES))
    assert torch.equal(calibrator.density_ratio(modelled, state), source)


def test_of_too_few_rows_for_a_regression_the_ratio_is_that_of_the_model() -> None:
    few = data_of(3, 3)
    state = TargetScaling().fit(few)
    modelled = few.held_out._replace(density_ratio=torch.full((3,), 2.0))
    assert torch.equal(TargetScaling().density_ratio(modelled, state), modelled.density_ratio)


def test_a_model_that_is_too_unsure_gets_the_temperature_that_the_source_asks_for() -> None:
    source, labels = outputs(300, wrong=0.02, margin=0.5, shift=0.0, seed=0)
    target, _ = outputs(300, wrong=0.02, margin=0.5, shift=0.0, seed=1)
    calibrator = TargetScaling()
    state = calibrator.fit(CalibrationData(source, labels, target, CLASSES))
    assert state["temperature"] < 0.5
    assert confidence(calibrator.calibrate(target, state)) > 0.9


def test_without_a_target_nothing_is_scaled(data: CalibrationData) -> None:
    calibrator = TargetScaling()
    alone = CalibrationData(data.held_out, data.held_out_labels, None, CLASSES)
    assert calibrator.diagnose(alone) is None
    assert torch.equal(calibrator.calibrate(data.held_out, calibrator.fit(alone)), data.held_out.logits)


def test_the_estimator_is_an_option_and_gets_the_constants_of_the_rule(data: CalibrationData) -> None:
    by_confidence = TargetScaling(estimator="mean-confidence")
    found = by_confidence.diagnose(data)
    assert found is not None
    assert data.target is not None
    assert found.accuracy == pytest.approx(confidence(data.target.logits), abs=1e-6)
    chosen = TargetScaling(absent_frequency=0.3, purity_midpoint=0.9).accuracy_estimator()
    assert isinstance(chosen, TrustRule)
    assert (chosen.absent_frequency, chosen.purity_midpoint) == (0.3, 0.9)
    with pytest.raises(UnknownNameError, match="mean-confidence"):
        TargetScaling(estimator="mean-confidnce").fit(data)


def test_the_vote_of_clusters_is_half_of_a_log_unit_where_they_are_reliable(data: CalibrationData) -> None:
    state = TargetScaling().fit(data)
    found = TargetScaling().diagnose(data)
    assert found is not None
    assert found.cluster_reliability > 0.99
    assert float(state["cluster_vote"]) == pytest.approx(0.5 * found.cluster_reliability)


@pytest.mark.parametrize("use_features", [True, False])
def test_batches_by_a_prepared_state_are_the_parts_of_the_whole(data: CalibrationData, use_features: bool) -> None:
    """And single precision suffices for what double precision says."""
    calibrator = TargetScaling(use_features=use_features)
    state = calibrator.fit(data)
    assert data.target is not None
    target = data.target._replace(density_ratio=torch.linspace(0.5, 2, 400))
    prepared, whole = calibrator.prepared(state), calibrator.calibrated(target, state)
    parts = [
        prepared(Outputs(*values)) for values in zip(*(torch.split(value, 150) for value in target[:3]), strict=True)
    ]
    torch.testing.assert_close(torch.cat([part.logits for part in parts]), whole.logits)
    torch.testing.assert_close(torch.cat([part.density_ratio for part in parts]), whole.density_ratio)
    wide = calibrator.calibrated(Outputs(*(value.double() for value in target[:3])), state)
    assert whole.logits.dtype == whole.density_ratio.dtype == torch.float32
    torch.testing.assert_close(whole.logits.double(), wide.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(whole.density_ratio.double(), wide.density_ratio, atol=1e-5, rtol=1e-5)
