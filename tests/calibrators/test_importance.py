from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.cpcs import Cpcs
from shiftcal.calibrators.importance import ImportanceWeighted, temperature_state
from shiftcal.calibrators.importance_weighted_temperature import ImportanceWeightedTemperature
from shiftcal.calibrators.transcal import TransCal
from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.target.density_ratios import DENSITY_RATIOS
from shiftcal.target.row_order import stratified_folds

MakeData = Callable[..., CalibrationData]


def normal(num_rows: int, num_features: int, shift: float, seed: int) -> Tensor:
    return torch.randn(num_rows, num_features, generator=torch.Generator().manual_seed(seed)) + shift


def test_the_logit_of_two_gaussians_is_linear_and_known() -> None:
    """log N(x; d, 1) / N(x; 0, 1) = d x - d^2 / 2, whatever the numbers of rows."""
    source, target = normal(4000, 1, 0.0, 0), normal(12_000, 1, 1.0, 1)
    expected = (source[:, 0] - 0.5).double()
    found = ImportanceWeightedTemperature().held_out_log_weights(source, target, seed=0)
    torch.testing.assert_close(found, expected, atol=0.15, rtol=0.1)


@pytest.mark.parametrize(("num_source", "num_target"), [(60, 60), (12, 200), (4, 3)])
def test_default_weights_are_those_of_scikit_learns_cross_validation(num_source: int, num_target: int) -> None:
    source, target = normal(num_source, 8, 0.0, 0), 2 * normal(num_target, 8, 0.3, 1)
    regression = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=5000))
    rows, is_target = torch.cat([source, target]).double().numpy(), np.repeat([0, 1], [num_source, num_target])
    folds = stratified_folds(rows, is_target, min(5, num_source, num_target), seed=0)
    expected = cross_val_predict(
        regression,
        rows,
        is_target,
        cv=PredefinedSplit(folds),
        method="decision_function",
    )[:num_source]
    found = ImportanceWeightedTemperature().held_out_log_weights(source, target, seed=0)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-9)


def test_out_of_fold_weights_do_not_saturate_without_a_shift() -> None:
    """100 features and 60 rows: a regression judged on its own rows would separate the domains."""
    source, target = normal(60, 100, 0.0, 0), normal(60, 100, 0.0, 1)
    assert ImportanceWeightedTemperature().held_out_log_weights(source, target, seed=0).mean().abs() < 1


@pytest.mark.parametrize("ratio", DENSITY_RATIOS)
def test_every_estimator_weighs_rows_near_the_target_more(ratio: str, make_data: MakeData) -> None:
    source, target = normal(300, 2, 0.0, 0), normal(300, 2, 1.0, 1)
    data = make_data(source, torch.zeros(300, dtype=torch.long), target)
    weights = ImportanceWeightedTemperature(ratio=ratio).source_weights(data)
    assert float(weights.mean()) == pytest.approx(1)
    is_near = source.sum(dim=1) > 0
    assert weights[is_near].median() > 1.5 * weights[~is_near].median()


@pytest.mark.parametrize("ratio", ["gaussian", "logistic", "ulsif"])
def test_no_row_has_a_say_in_its_own_weight(ratio: str) -> None:
    source, target = normal(40, 1, 0.0, 0), normal(40, 1, 1.0, 1)
    moved, farthest = source.clone(), int(source.argmax())
    moved[farthest] += 2  # where it still is the farthest of the source: folds go by the order of values
    calibrator = ImportanceWeightedTemperature(ratio=ratio)
    before, after = (calibrator.held_out_log_weights(rows, target, seed=0) for rows in (source, moved))
    # Rows of the same fold, of eight of each domain, are weighed without that one, so that they do not see it move.
    unmoved = before == after
    assert int(unmoved.sum()) == 7
    assert not unmoved[farthest]


def test_effective_sample_size_counts_rows_of_equal_weight() -> None:
    for weights, expected in ((torch.full((7,), 3.0), 7), (torch.tensor([1.0, 1.0, 0.0, 0.0]), 2)):
        assert float(temperature_state(1.0, weights)["effective_sample_size"]) == pytest.approx(expected)


def weights_of(calibrator: ImportanceWeighted, ratios: list[float], make_data: MakeData) -> list[float]:
    source = torch.tensor(ratios)[:, None].repeat(1, 2)
    labels = torch.zeros(len(ratios), dtype=torch.long)
    data = make_data(source, labels, source, density_ratio=lambda inputs: inputs[:, 0])
    weights: list[float] = calibrator.source_weights(data).tolist()
    return weights


def test_weights_of_the_model_are_inverted_cut_and_normalised(make_data: MakeData) -> None:
    ratios = [1.0, 0.5, 0.125, 1.0]  # weights 1, 2, 8, 1 of mean 3
    plain = ImportanceWeightedTemperature(ratio="model", largest_weight=None, self_normalize=False)
    assert weights_of(plain, ratios, make_data) == pytest.approx([1, 2, 8, 1])
    cut = ImportanceWeightedTemperature(ratio="model", largest_weight=4.0, self_normalize=False)
    assert weights_of(cut, ratios, make_data) == pytest.approx([1, 2, 4, 1])
    normalised = ImportanceWeightedTemperature(ratio="model", largest_weight=1.0)
    # 1/3, 2/3, 8/3 -> 1, 1/3, of which the mean is 7/12
    assert weights_of(normalised, ratios, make_data) == pytest.approx([4 / 7, 8 / 7, 12 / 7, 4 / 7])


@pytest.mark.parametrize("calibrator", [ImportanceWeightedTemperature(), Cpcs(), TransCal()])
def test_without_a_target_it_says_so(calibrator: ImportanceWeighted, make_data: MakeData) -> None:
    data = make_data(normal(20, 3, 0.0, 0), torch.arange(20) % 3)
    with pytest.raises(InvalidInputError, match=r"needs target inputs, got none; give a target, or choose"):
        calibrator.fit(data)


@pytest.mark.parametrize(("ratio", "fewest"), [("logistic", 2), ("gaussian", 10)])
def test_few_rows_are_too_few(ratio: str, fewest: int) -> None:
    source, target = normal(50, 2, 0.0, 0), normal(fewest, 2, 0.0, 1)
    calibrator = ImportanceWeightedTemperature(ratio=ratio)
    assert len(calibrator.held_out_log_weights(source, target, seed=0)) == 50
    words = f"at least {fewest} rows of each domain.*got 50 of held-out source and {fewest - 1} of target"
    with pytest.raises(InvalidInputError, match=words):
        calibrator.held_out_log_weights(source, target[1:], seed=0)


def test_an_unknown_ratio_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown density ratio 'modle'\. Did you mean 'model'"):
        Cpcs(ratio="modle")
