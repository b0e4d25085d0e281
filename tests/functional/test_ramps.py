import math

import pytest

from shiftcal.functional.ramps import cosine_ramp, gaussian_ramp, linear_ramp


def test_ramps_at_a_few_points() -> None:
    progress = (0.0, 0.1, 0.25, 0.5, 0.99)
    assert [linear_ramp(done, 0.1, 0.4) for done in progress] == pytest.approx([0, 0, 0.5, 1, 1])
    assert [gaussian_ramp(done, 0.5) for done in progress] == pytest.approx(
        [math.exp(-5), math.exp(-5 * 0.64), math.exp(-1.25), 1, 1]
    )
    assert [cosine_ramp(done) for done in progress] == pytest.approx([0, 0.0954915, 0.5, 1, 1])
