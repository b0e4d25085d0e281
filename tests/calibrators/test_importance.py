from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from shiftcal.calibrators.base import CalibrationData
from shiftcal.calibrators.cpcs import Cpcs
from shiftcal.calibrators.importance import ImportanceWeighted, domain_logits, effective_sample_size
from shiftcal.calibrators.importance_weighted_temperature import ImportanceWeightedTemperature
from shiftcal.calibrators.transcal import TransCal
from shiftcal.errors import InvalidInputError

MakeData = Callable[..., CalibrationData]


def normal(num_rows: int, num_features: int, shift: float, seed: int) -> Tensor:
    return torch.randn(num_rows, num_features, generator=torch.Generator().manual_seed(seed)) + shift


def test_the_logit_of_two_gaussians_is_linear_and_known() -> None:
    """log N(x; d, 1) / N(x; 0, 1) = d x - d^2 / 2, whatever the numbers of rows."""
    source, target = normal(4000, 1, 0.0, 0), normal(12_000, 1, 1.0, 1)
    expected = (source[:, 0] - 0.5).double()
    torch.testing.assert_close(domain_logits(source, target), expected, atol=0.15, rtol=0.1)


def test_out_of_fold_weights_do_not_saturate_without_a_shift() -> None:
    """100 features and 60 rows: a regression judged on its own rows would separate the domains."""
    source, target = normal(60, 100, 0.0, 0), normal(60, 100, 0.0, 1)
    assert domain_logits(source, target).mean().abs() < 1


def test_effective_sample_size_counts_rows_of_equal_weight() -> None:
    assert effective_sample_size(torch.full((7,), 3.0)) == pytest.approx(7)
    assert effective_sample_size(torch.tensor([1.0, 1.0, 0.0, 0.0])) == pytest.approx(2)


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


def test_one_row_is_too_few() -> None:
    with pytest.raises(InvalidInputError, match="got 5 of held-out source and 1 of target"):
        domain_logits(normal(5, 2, 0.0, 0), normal(1, 2, 0.0, 1))
