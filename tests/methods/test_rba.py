from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.methods.rba import GivenDensities, RobustBiasAware
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


def fitted(problem: ShiftProblem, **options: Any) -> FittedModel:
    how = Recipe.from_names(
        "rba", method_options=options, training={"epochs": 16, "batch_size": 30, "validation_fraction": 0.0}
    )
    return fit_model(problem, how)


def test_ratio_is_that_of_gaussians_fitted_to_all_of_the_data(features: ShiftProblem) -> None:
    """After 16 epochs of 4 whole batches each, the moments are those of the data; the fit is that of step 64."""
    model = fitted(features, num_components=4, shrinkage=0.0, ratio_bound=1e6)
    assert features.target is not None
    rows = np.arange(120, dtype=np.int64)
    source, target = features.source.inputs.fetch(rows), features.target.inputs.fetch(rows)
    gaussians = [MultivariateNormal(x.mean(dim=0), x.T.cov(correction=0)) for x in (source, target)]
    expected = gaussians[0].log_prob(target) - gaussians[1].log_prob(target)  # type: ignore[no-untyped-call]
    limit = np.log(1e6)
    got = model.predict(features.target.inputs).density_ratio.log()
    torch.testing.assert_close(got, limit * torch.tanh(expected / limit), atol=1e-2, rtol=1e-2)


def test_moments_do_not_depend_on_how_the_data_are_cut_into_batches() -> None:
    generator = torch.Generator().manual_seed(0)
    source, target = torch.randn(64, 5, generator=generator), torch.randn(64, 5, generator=generator) + 3
    whole, parts = GivenDensities(5), GivenDensities(5)
    whole.observe(source, target)
    due = [parts.observe(*pair) for pair in zip(source.view(8, 8, 5), target.view(8, 8, 5), strict=True)]
    torch.testing.assert_close(parts.mean, whole.mean)
    torch.testing.assert_close(parts.second, whole.second)
    assert [step for step, now in enumerate(due, start=1) if now] == [1, 2, 4, 8]


def test_many_inputs_and_images_are_reduced() -> None:
    """A shift of all inputs is seen in the ratio, whatever their number."""
    generator = torch.Generator().manual_seed(0)
    for shape, num_inputs in (((400,), 400), ((3, 16, 16), 3 * 64)):
        source = torch.randn(200, *shape, generator=generator)
        target = source.flip(0) + 0.5
        densities = GivenDensities(num_inputs)
        assert torch.equal(densities(source), torch.zeros(200))
        densities.observe(source, target)
        densities.fit(num_components=4, shrinkage=0.1)
        assert densities(source).mean() > 1
        assert densities(target).mean() < -1
        assert len(densities.mean[0]) <= 256


def test_the_task_has_the_gradient_of_the_robust_dual(blueprint: Blueprint, batch: Batch) -> None:
    method = RobustBiasAware()
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    outputs = method.predict(network, batch.source_inputs)
    assert outputs.density_ratio.std() > 0
    residual = outputs.logits.softmax(dim=-1) - torch.nn.functional.one_hot(batch.source_labels, 3)
    (got,) = torch.autograd.grad(update.loss, [network.task.head.bias])
    torch.testing.assert_close(got, residual.mean(dim=0))


def test_without_a_shift_it_is_source_only_training(features: ShiftProblem) -> None:
    same = replace(features, target=features.source.without_labels())
    ratio = fitted(same).predict(same.source.inputs).density_ratio
    assert (ratio.log().abs() < 0.2).all()
