import numpy as np
import pytest

from shiftcal.metrics.checks import FloatArray

MEAN_SHIFT = 1.0


@pytest.fixture(scope="session")
def shifted() -> tuple[FloatArray, FloatArray]:
    """N(0, 1) against N(1, 1), whose log ratio is 1/2 - x; in units and at a place that are not standard."""
    generator = np.random.default_rng(3)
    source, target = generator.normal(size=(400, 1)), generator.normal(size=(500, 1)) + MEAN_SHIFT
    return 10 + 5 * source, 10 + 5 * target
