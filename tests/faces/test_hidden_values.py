"""Values that an array hides, and a function of features that fails."""

import numpy as np
import pytest

from shiftcal import AdaptiveClassifier, ShiftCalibrator
from shiftcal.core.errors import InvalidInputError

X = np.random.default_rng(0).normal(size=(30, 3))


def test_masked_values_are_not_learned_from() -> None:
    with pytest.raises(InvalidInputError, match=r"X: .* got one with 2 masked values; .*filled\(numpy.nan\)"):
        AdaptiveClassifier(epochs=1).fit(np.ma.masked_array(X, np.arange(90).reshape(30, 3) < 2), X[:, 0] > 0)


def test_a_function_of_features_that_fails_names_its_rows() -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        ShiftCalibrator(lambda rows: rows, features=fail).fit(X, np.arange(30) % 3, X)
    assert raised.value.__notes__ == ["X_source: so the function of features failed when asked about rows 0 to 29"]
