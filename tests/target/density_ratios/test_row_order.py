"""The order of rows decides nothing: which of them kernels, folds and batches are drawn from goes by content."""

from typing import Any

import numpy as np
import pytest

from shiftcal.target.density_ratios import DENSITY_RATIOS, density_ratio_estimator

# So that fewer rows are drawn than there are.
OPTIONS: dict[str, dict[str, Any]] = {
    "network": {"max_epochs": 3},
    "kliep": {"num_kernels": 20},
    "ulsif": {"num_kernels": 20},
    "rulsif": {"num_kernels": 20},
    "kernel-density": {"max_rows": 30},
    "kernel-mean-matching": {"max_rows": 30},
}


@pytest.mark.parametrize("name", DENSITY_RATIOS)
def test_rows_in_another_order(name: str) -> None:
    generator = np.random.default_rng(0)
    source, target, new = (generator.normal(size=(size, 3)) for size in (60, 50, 20))
    target += 0.5
    estimator = density_ratio_estimator(name, OPTIONS.get(name))
    first = estimator.fit(source, target)
    second = estimator.fit(*(generator.permutation(rows) for rows in (source, target)))
    np.testing.assert_allclose(second.predict(new), first.predict(new), rtol=1e-9)
    assert second.diagnostics == first.diagnostics
