"""Mixtures of two Gaussians, whose share, posterior and ratio are known."""

import pytest
import torch

from shiftcal.target.components import fit_components
from shiftcal.target.domain_classifier import DomainClassifier, fit_domain_classifier
from shiftcal.target.shifted_part import (
    find_shifted_part,
    shifted_probability,
    shifted_probability_anywhere,
    unshifted_share,
)


def gaussian(num_rows: int, mean: float, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(num_rows, 3, generator=generator, dtype=torch.float64)
    rows[:, 0] += mean
    return rows


def classifier(source: torch.Tensor, target: torch.Tensor) -> DomainClassifier:
    found = fit_domain_classifier(source, target, fit_components(source, target))
    assert found is not None
    return found


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_the_share_that_has_shifted(share: float) -> None:
    source = gaussian(2000, 0.0, 0)
    num_new = int(share * 2000)
    target = torch.cat([gaussian(num_new, 6.0, 1), gaussian(2000 - num_new, 0.0, 2)])
    part = find_shifted_part(classifier(source, target))
    assert part.share == pytest.approx(share, abs=0.05)
    if 0 < share < 1:
        assert part.weights[:num_new].mean() > 0.85
        assert part.weights[num_new:].mean() < 0.25


def test_the_best_bin_by_hand() -> None:
    """All source rows score above 0, as does a quarter of the target: at most that much of it is as the source."""
    source, target = torch.linspace(0.1, 1, 1000), torch.cat([torch.linspace(0.1, 1, 250), torch.full((750,), -1.0)])
    assert unshifted_share(source, target) == pytest.approx(0.25, abs=0.01)
    assert unshifted_share(source, source) == pytest.approx(1.0)
    assert unshifted_share(source, torch.full((10,), 2.0)) == 0.0


def test_the_posterior_and_the_ratio_follow_from_bayes() -> None:
    """p_source, p_new at one point, and their mixture."""
    own, new, share = 0.3, 0.8, 0.4
    target = (1 - share) * own + share * new
    log_odds = torch.tensor([target / own]).double().log()
    assert float(shifted_probability(log_odds, share)) == pytest.approx(share * new / target)
    ratio = torch.tensor([own / target]).double()
    anywhere = 0.5 * share * new / (0.5 * target + 0.5 * own)
    assert float(shifted_probability_anywhere(ratio, share)) == pytest.approx(anywhere)
    # Where the target has less than its unshifted part, nothing new can be.
    assert not shifted_probability_anywhere(torch.tensor([1.8]), share).any()
    torch.testing.assert_close(shifted_probability_anywhere(ratio, 1.0), 1 / (1 + ratio))


def test_the_domain_classifier_finds_the_log_ratio_of_gaussians() -> None:
    """log p_target / p_source = 2 x - 2 for means 0 and 2."""
    found = classifier(gaussian(4000, 0.0, 0), gaussian(4000, 2.0, 1))
    assert found.slope.tolist() == pytest.approx([2.0, 0.0, 0.0], abs=0.12)
    assert float(found.intercept) == pytest.approx(-2.0, abs=0.15)
    # The AUC of two normal distributions at a distance of 2: Phi(2 / sqrt 2).
    assert found.auc == pytest.approx(0.921, abs=0.01)


def test_like_samples_are_not_told_apart_however_many_columns_they_have() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 150, 300, generator=generator, dtype=torch.float64)
    found = classifier(first, second)
    assert found.auc < 0.6
    assert find_shifted_part(found).share < 0.35


def test_with_too_few_rows_there_is_no_answer() -> None:
    rows = gaussian(9, 0.0, 0)
    assert fit_domain_classifier(rows, gaussian(50, 0.0, 1), fit_components(rows, rows)) is None


def test_components_are_a_linear_map_in_deviations_of_the_source() -> None:
    source, target = gaussian(500, 1.0, 0) * torch.tensor([1.0, 5.0, 0.1]), gaussian(500, 3.0, 1)
    components = fit_components(source, target)
    found = components.of(source)
    torch.testing.assert_close(found.mean(dim=0), torch.zeros(3).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(found.std(dim=0, correction=0), torch.ones(3).double())
    assert components.of(source * 1e6).abs().max() == 20
