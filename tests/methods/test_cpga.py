from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import entropy
from sklearn.metrics.pairwise import cosine_similarity
from torch.nn.functional import cross_entropy, one_hot

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.functional.centre_labels import centre_similarities
from shiftcal.functional.prototypes import prototype_logits
from shiftcal.methods.base import Outputs
from shiftcal.methods.cpga import ContrastivePrototypes, PrototypeNetwork
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


def built(method: ContrastivePrototypes, blueprint: Blueprint) -> PrototypeNetwork:
    """With room for as many target rows as the batch has."""
    return method.build(replace(blueprint, num_target_rows=16))


def labelled(batch: Batch) -> Batch:
    weights = torch.linspace(0.2, 1.0, 16)
    return batch._replace(target_soft_labels=weights[:, None] * one_hot(torch.arange(16) % 3, 3))


def test_during_the_warm_up_it_is_source_only_and_gathers_prototypes(blueprint: Blueprint, batch: Batch) -> None:
    method = ContrastivePrototypes()
    network = built(method, blueprint)
    for _ in range(3):
        (update,) = method.training_step(network, batch)
    logits, features = network.task(batch.source_inputs)
    torch.testing.assert_close(update.loss, cross_entropy(logits, batch.source_labels))
    # Nothing was stepped: a moving mean of the same features is their mean.
    means = torch.stack([features[batch.source_labels == label].mean(dim=0) for label in range(3)])
    torch.testing.assert_close(network.prototypes, means)
    assert network.remembered.abs().sum() == 0


def test_newer_batches_count_more_for_prototypes(blueprint: Blueprint) -> None:
    network = built(ContrastivePrototypes(), blueprint)
    dim = network.sums.shape[1]
    network.update_prototypes(torch.full((2, dim), 1.0), torch.tensor([0, 0]))
    network.update_prototypes(torch.full((1, dim), 4.0), torch.tensor([0]))
    # (0.9 * 2 * 1 + 1 * 4) / (0.9 * 2 + 1), and nothing of the other classes.
    torch.testing.assert_close(network.prototypes[0], torch.full((dim,), 5.8 / 2.8))
    assert network.prototypes[1:].abs().sum() == 0


def test_losses_against_numpy_over_two_steps(blueprint: Blueprint, batch: Batch) -> None:
    method = ContrastivePrototypes(
        temperature=0.2, contrast_weight=0.7, elr_weight=1.3, memory=0.6, neighbour_weight=0.4
    )
    network = built(method, blueprint)
    batch = labelled(batch)
    assert batch.target_inputs is not None
    assert batch.target_soft_labels is not None
    (first,) = method.training_step(network, batch)
    (second,) = method.training_step(network, batch)

    task_logits, source = (value.detach() for value in network.task(batch.source_inputs))
    task_loss = cross_entropy(task_logits, batch.source_labels).item()
    target = network.task(batch.target_inputs)[1].detach().double().numpy()
    labels = batch.source_labels.numpy()
    prototypes = np.stack([source.double().numpy()[labels == label].mean(axis=0) for label in range(3)])
    said = softmax(cosine_similarity(target, prototypes) / 0.2, axis=1)
    weights = batch.target_soft_labels.numpy().max(axis=1)
    contrast = np.mean(-weights * np.log(said[np.arange(16), np.arange(16) % 3]))
    near = cosine_similarity(target) / 0.05
    neighbours = np.mean([entropy(softmax(np.delete(near[row], row))) for row in range(16)])
    for update, share in ((first, 0.4), (second, 0.6 * 0.4 + 0.4)):
        early = np.mean(np.log(1 - (share * said * said).sum(axis=1)))
        expected = task_loss + 0.7 * contrast + 1.3 * early + 0.4 * neighbours
        assert update.loss.item() == pytest.approx(expected, rel=1e-4)
        assert update.logged["contrast_loss"].item() == pytest.approx(contrast, rel=1e-4)
    np.testing.assert_allclose(network.remembered.numpy(), 0.64 * said, atol=1e-5)


def test_prototypes_stand_still_for_the_target_loss(blueprint: Blueprint, batch: Batch) -> None:
    """The gradient of the target's losses comes through target features alone."""
    method = ContrastivePrototypes(neighbour_weight=0.0)
    network = built(method, blueprint)
    (update,) = method.training_step(network, labelled(batch))
    assert not network.prototypes.requires_grad
    (gradient,) = torch.autograd.grad(update.logged["contrast_loss"], [network.task.head.weight], allow_unused=True)
    assert gradient is None


def test_labels_are_the_nearest_centres_with_their_confidence(blueprint: Blueprint, outputs_view: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(30, 4, generator=generator) + 2 * torch.eye(3, 4)[torch.arange(30) % 3]
    outputs = Outputs(torch.randn(30, 3, generator=generator), torch.ones(30), features)
    method = ContrastivePrototypes(warmup_share=0.5, temperature=0.3)
    network = built(method, blueprint)
    assert method.choose_pseudo_labels(network, outputs_view(1, 4, outputs, outputs)) is None
    chosen = method.choose_pseudo_labels(network, outputs_view(2, 4, outputs, outputs))
    assert chosen is not None
    similarities = centre_similarities(features, torch.softmax(outputs.logits, dim=-1)).numpy()
    assert chosen.rows.tolist() == list(range(30))
    np.testing.assert_array_equal(chosen.labels, similarities.argmax(axis=1))
    assert chosen.soft_labels is not None
    weights = softmax(similarities / 0.3, axis=1).max(axis=1)
    np.testing.assert_allclose(chosen.soft_labels[np.arange(30), chosen.labels], weights, rtol=1e-5)
    assert (chosen.soft_labels > 0).sum() == 30


def test_target_features_gather_around_prototypes(features: ShiftProblem) -> None:
    def similarity(weight: float) -> float:
        """Mean cosine of target features with the prototype that is nearest to them."""
        others = {"elr_weight": 0.0, "neighbour_weight": 0.0, "temperature": 0.3, "learning_rate": 0.01}
        options = {"contrast_weight": weight, **others}
        how = Recipe.from_names("cpga", method_options=options, training={"epochs": 20, "batch_size": 32})
        model = fit_model(features, how)
        assert [record.get("pseudo_labels") for record in model.history[5:7]] == [None, 120]
        assert isinstance(model.network, PrototypeNetwork)
        assert features.target is not None
        found = model.predict(features.target.inputs).features
        return float(prototype_logits(found, model.network.prototypes, 1.0).amax(dim=-1).mean())

    assert similarity(1.0) > similarity(0.0) + 0.03
