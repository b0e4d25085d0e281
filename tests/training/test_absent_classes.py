"""A target that lacks most classes: what clusters of absent ones say in favour of adapting is not believed."""

from unittest import mock

import numpy as np
import pytest
import torch

from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.training.fallback import check_adaptation, effective_number
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe


def problem(num_present: int) -> ShiftProblem:
    generator = np.random.default_rng(0)
    labels = np.arange(200) % 5
    source, target = (
        torch.from_numpy(4 * np.eye(5, 6)[own] + generator.normal(size=(200, 6))).float()
        for own in (labels, labels % num_present)
    )
    return ShiftProblem(
        LabelledDomain("source", ArrayInputs(source), labels, tuple("abcde")),
        UnlabelledDomain("target", ArrayInputs(target)),
    )


def test_effective_number_of_classes() -> None:
    assert effective_number(torch.tensor([0, 1, 3, 3, 1, 0])) == pytest.approx(3)
    assert effective_number(torch.zeros(9, dtype=torch.int64)) == pytest.approx(1)


@pytest.mark.usefixtures("quick_estimate")
def test_no_good_word_for_adapting_where_most_classes_are_absent() -> None:
    trained = fit_model(problem(5), Recipe.from_names("source-only", training={"epochs": 8, "batch_size": 20}))
    for num_present, could_judge in ((1, False), (2, False), (3, True), (5, True)):
        check = check_adaptation(trained, trained, problem(num_present))
        assert (check.could_judge, check.fell_back) == (could_judge, False)
        assert ("no harm" in check.verdict()) is could_judge


@pytest.mark.usefixtures("quick_estimate")
def test_clusters_still_speak_against_adapting_there() -> None:
    data = problem(2)
    trained = fit_model(data, Recipe.from_names("source-only", training={"epochs": 8, "batch_size": 20}))
    spread = 20 * torch.eye(5)[torch.arange(200) % 5]
    with mock.patch.object(FittedModel, "judged_outputs", return_value=(spread, None)):
        assert check_adaptation(trained, trained, data).fell_back
