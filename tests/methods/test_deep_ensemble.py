import pytest
import torch

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.methods.deep_ensemble import DeepEnsemble
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


def test_members_differ_and_their_probabilities_are_averaged(blueprint: Blueprint, batch: Batch) -> None:
    method = DeepEnsemble(num_members=3)
    network = method.build(blueprint)
    members = torch.stack([member(batch.source_inputs)[0] for member in network.members])
    assert not torch.equal(members[0], members[1])
    outputs = method.predict(network, batch.source_inputs)
    torch.testing.assert_close(outputs.logits.softmax(dim=-1), members.softmax(dim=-1).mean(dim=0))
    assert outputs.features.shape == (16, 3 * 256)


def test_each_member_gets_the_gradient_that_it_would_get_alone(blueprint: Blueprint, batch: Batch) -> None:
    method = DeepEnsemble(num_members=2)
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    parameter = next(network.members[1].parameters())
    (together,) = torch.autograd.grad(update.loss, [parameter])
    logits, _ = network.members[1](batch.source_inputs)
    loss = torch.nn.functional.cross_entropy(logits, batch.source_labels)
    torch.testing.assert_close(together, torch.autograd.grad(loss, [parameter])[0])


def test_an_ensemble_of_one_is_source_only_training(features: ShiftProblem) -> None:
    training = {"epochs": 3, "batch_size": 32}
    one = fit_model(
        features, Recipe.from_names("deep-ensemble", method_options={"num_members": 1}, training=training)
    )
    plain = fit_model(features, Recipe.from_names("source-only", training=training))
    got, expected = (model.predict(features.source.inputs).logits.softmax(dim=-1) for model in (one, plain))
    torch.testing.assert_close(got, expected)
