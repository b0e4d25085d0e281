from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from shiftcal.core.errors import InvalidInputError
from shiftcal.runs.predictions import Predictions
from shiftcal.runs.reporting import RunContents
from shiftcal.runs.reporting.contents import check_runs


def test_a_ratio_of_one_everywhere_is_no_shift(make_run: Callable[..., RunContents]) -> None:
    assert make_run(shifted=True).models_shift
    assert not make_run(shifted=False).models_shift


def test_one_shifted_domain_is_enough(make_run: Callable[..., RunContents]) -> None:
    assert replace(make_run(shifted=False), target=make_run(shifted=True).target).models_shift


def test_repeated_names_are_refused(make_run: Callable[..., RunContents]) -> None:
    with pytest.raises(InvalidInputError, match=r"different names, got \['drl', 'drl'\]"):
        check_runs([make_run(), make_run()])


def test_empty_predictions_are_refused(
    make_run: Callable[..., RunContents], binary: Callable[..., Predictions]
) -> None:
    with pytest.raises(InvalidInputError, match="target predictions of run 'drl', got none"):
        check_runs([replace(make_run(), target=binary([]))])


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_impossible_ratios_are_refused(
    make_run: Callable[..., RunContents], binary: Callable[..., Predictions], wrong: float
) -> None:
    with pytest.raises(InvalidInputError, match="finite density ratios >= 0 in the source predictions"):
        check_runs([replace(make_run(), source=binary([0.5, 0.5], ratio=[1.0, wrong]))])
