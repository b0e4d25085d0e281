"""What every estimator of the registry must hold to; a new one is tested by being listed."""

import importlib
from dataclasses import replace
from typing import Any

import pytest

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.core.options import describe
from shiftcal.target.estimators import ESTIMATORS, estimator_class

Make = Any
EACH = pytest.mark.parametrize("name", ESTIMATORS)


@EACH
def test_it_stands_in_the_file_of_its_name_and_names_its_source(name: str) -> None:
    module = ESTIMATORS[name].__module__
    assert module == f"shiftcal.target.estimators.{name.replace('-', '_')}"
    assert "estimate" in (importlib.import_module(module).__doc__ or "")
    assert all(doc for *_, doc in describe(ESTIMATORS[name]))


@EACH
def test_without_a_shift_it_is_the_accuracy(name: str, make_rows: Make, make_evidence: Make) -> None:
    held_out = make_rows(1000, wrong=0.1, least_margin=2.6, seed=3)
    target, labels = make_rows(1000, wrong=0.1, least_margin=2.6, seed=4)
    evidence = make_evidence(target, held_out=held_out)
    found = ESTIMATORS[name]().diagnose(evidence)
    assert found.accuracy == pytest.approx(float((target.predicted == labels).double().mean()), abs=0.03)
    assert found.accuracy == ESTIMATORS[name]().estimate(evidence)
    assert found.verdict()


@pytest.mark.usefixtures("coarse_estimate")
@EACH
def test_it_works_without_features_or_says_what_to_do(name: str, make_rows: Make, make_evidence: Make) -> None:
    target, _ = make_rows(100, seed=1)
    evidence = make_evidence(replace(target, features=None))
    if name == "cluster-agreement":
        with pytest.raises(InvalidInputError, match="choose 'average-thresholded-confidence'"):
            ESTIMATORS[name]().estimate(evidence)
    else:
        assert 0 <= ESTIMATORS[name]().estimate(evidence) <= 1


def test_unknown_names_are_refused_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="cluster-agreement"):
        estimator_class("cluster-agrement")
