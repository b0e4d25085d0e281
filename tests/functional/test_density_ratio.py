import math

import pytest
import torch
from torch.autograd import gradcheck

from shiftcal.functional.density_ratio import bounded_domain_logit, domain_loss, ratio_from_logit


def test_bounded_logit_is_the_identity_near_zero_and_stays_within_the_bound() -> None:
    small = torch.tensor([-1e-4, 0.0, 1e-4], dtype=torch.float64)
    torch.testing.assert_close(bounded_domain_logit(small, 10.0), small, atol=1e-11, rtol=0)
    large = torch.tensor([-1e6, 1e6], dtype=torch.float64)
    limit = math.log(10)
    assert bounded_domain_logit(large, 10.0).tolist() == pytest.approx([-limit, limit])


def test_ratio_of_two_gaussians_is_recovered_by_the_logit_that_minimises_the_loss() -> None:
    """For N(0, 1) against N(1, 1) the log ratio is 1/2 - x; no other slope gives a lower domain loss."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randn(200_000, generator=generator, dtype=torch.float64)
    target = torch.randn(50_000, generator=generator, dtype=torch.float64) + 1
    logit = 0.5 - torch.cat([source, target])
    best = domain_loss(logit, len(source))
    for slope in (0.8, 1.2):
        assert domain_loss(slope * logit, len(source)) > best


def test_strength_scales_the_log_ratio() -> None:
    logit = torch.linspace(-3, 3, 7, dtype=torch.float64)
    assert ratio_from_logit(logit, 0.0).tolist() == [1.0] * 7
    torch.testing.assert_close(ratio_from_logit(logit, 0.5), ratio_from_logit(logit, 1.0).sqrt())


def test_a_cap_leaves_lower_ratios_as_they_are() -> None:
    logit = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0], dtype=torch.float64)
    expected = [math.exp(-1), math.exp(-0.25), 1.0, 1.0, 1.0]
    assert ratio_from_logit(logit, 0.5, capped=True).tolist() == pytest.approx(expected, abs=1e-12)
    torch.testing.assert_close(ratio_from_logit(logit, 0.5), torch.exp(logit / 2))


def test_domain_loss_by_hand_and_independent_of_batch_sizes() -> None:
    assert domain_loss(torch.zeros(2, dtype=torch.float64), 1).item() == pytest.approx(math.log(2))
    logit = torch.tensor([1.0, 2.0, -1.0])
    by_hand = (sum(math.log1p(math.exp(-g)) for g in (1, 2)) / 2 + math.log1p(math.exp(-1))) / 2
    assert domain_loss(logit, 2).item() == pytest.approx(by_hand, abs=1e-6)
    assert domain_loss(torch.cat([logit, logit[2:].repeat(4)]), 2).item() == pytest.approx(by_hand, abs=1e-6)


def test_weights_of_samples_stay_within_their_domain() -> None:
    logit, weights = torch.tensor([1.0, 2.0, -1.0]), torch.tensor([0.5, 1.5, 1.0])
    weighted = (0.5 * math.log1p(math.exp(-1)) + 1.5 * math.log1p(math.exp(-2))) / 2
    by_hand = (weighted + math.log1p(math.exp(-1))) / 2
    assert domain_loss(logit, 2, weights).item() == pytest.approx(by_hand, abs=1e-6)
    assert domain_loss(-logit.flip(0), 1, weights.flip(0)).item() == pytest.approx(by_hand, abs=1e-6)


def test_gradcheck() -> None:
    logit = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda g: ratio_from_logit(bounded_domain_logit(g, 3.0), 0.7), (logit,))
    assert gradcheck(lambda g: domain_loss(g, 2), (logit,))
