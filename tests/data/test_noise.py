import numpy as np
import pytest
import torch

from shiftcal.data.inputs import ArrayInputs
from shiftcal.data.noise import FeatureSpread, NoisyInputs


def test_noise_depends_on_the_row_and_grows_with_the_strength() -> None:
    base = ArrayInputs(torch.full((50, 1, 8, 8), 0.5))
    weak, strong = NoisyInputs(base, 0.01, None, seed=3), NoisyInputs(base, 0.02, None, seed=3)
    rows = np.array([4, 1])
    torch.testing.assert_close(strong.fetch(rows) - 0.5, 2 * (weak.fetch(rows) - 0.5), rtol=1e-3, atol=1e-6)
    assert torch.equal(weak.fetch(rows)[1:], weak.fetch(rows[1:]))
    assert float(weak.fetch(np.arange(50)).std()) == pytest.approx(0.01, rel=0.1)
    cut = NoisyInputs(base, 10.0, None, seed=3).fetch(rows)
    assert (float(cut.min()), float(cut.max())) == (0, 1)


def test_noisy_features_keep_their_spread() -> None:
    values = 5 + 3 * torch.randn(4000, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10.0])
    base = ArrayInputs(values)
    noisy = NoisyInputs(base, 2.0, FeatureSpread.of(base), seed=0).fetch(np.arange(4000))
    torch.testing.assert_close(noisy.std(dim=0), values.std(dim=0), rtol=0.05, atol=0)
    correlation = np.corrcoef(noisy[:, 0], values[:, 0])[0, 1]
    assert correlation == pytest.approx(1 / np.sqrt(5), abs=0.05)
