from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.methods.base import RATIO, TASK
from shiftcal.methods.importance_weighting import ImportanceWeighting
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.methods.networks.density_ratio import ClassifierWithRatio
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


def claiming_a_shift(network: ClassifierWithRatio) -> ClassifierWithRatio:
    """A ratio head that does not start at ratio one."""
    assert network.ratio is not None
    with torch.no_grad():
        for parameter in network.ratio.parameters():
            parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(0))
    return network


def test_loss_is_weighted_by_target_over_source_density(blueprint: Blueprint, batch: Batch) -> None:
    for flattening in (0.0, 0.5, 1.0):
        method = ImportanceWeighting(flattening=flattening)
        network = claiming_a_shift(method.build(blueprint))
        updates = list(method.training_step(network, batch))
        assert [update.optimizer for update in updates] == [RATIO, TASK]
        outputs = method.predict(network, batch.source_inputs)
        weights = outputs.density_ratio.detach() ** -flattening
        losses = cross_entropy(outputs.logits, batch.source_labels, reduction="none")
        torch.testing.assert_close(updates[1].loss, (weights * losses).sum() / weights.sum())


def test_each_update_reaches_its_own_parameters_only(blueprint: Blueprint, batch: Batch) -> None:
    method = ImportanceWeighting()
    network = claiming_a_shift(method.build(blueprint))
    for update in method.training_step(network, batch):
        network.zero_grad()
        update.loss.backward()  # type: ignore[no-untyped-call]
        reached = {name.split(".")[0] for name, p in network.named_parameters() if p.grad is not None}
        assert reached == {update.optimizer}


def test_source_inputs_near_the_target_get_larger_weights(features: ShiftProblem) -> None:
    model = trained(features)
    ratio = model.predict(features.source.inputs).density_ratio
    # The target is the source moved by +1 along every axis.
    position = features.source.inputs.fetch(torch.arange(120).numpy()).sum(dim=1)
    assert torch.corrcoef(torch.stack([position, ratio.log()]))[0, 1] < -0.5


def trained(problem: ShiftProblem, **options: Any) -> Any:
    how = Recipe.from_names("importance-weighting", method_options=options, training={"epochs": 20, "batch_size": 32})
    return fit_model(problem, how)


def test_the_ratio_has_an_optimiser_of_its_own(blueprint: Blueprint) -> None:
    method = ImportanceWeighting(optimizer="sgd")
    assert method.optimizers(method.build(blueprint))[RATIO].kind == "adamw"
