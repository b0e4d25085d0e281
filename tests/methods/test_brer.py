from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.methods.brer import NoisyClassifier, RenyiEntropy
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


@pytest.mark.parametrize("entropy", ["min", "collision", "shannon"])
def test_loss_by_numpy_for_the_same_noise(
    entropy: Literal["min", "collision", "shannon"], blueprint: Blueprint, batch: Batch
) -> None:
    """The first rows stand for selected target rows."""
    batch = batch._replace(is_pseudo=torch.arange(16) < 5)
    method = RenyiEntropy(entropy=entropy, dropout_rate=0.0, num_training_draws=3)
    network = method.build(blueprint)
    torch.manual_seed(0)
    (update,) = method.training_step(network, batch)

    torch.manual_seed(0)
    probabilities = mean_probabilities(network, batch.source_inputs, torch.randn(3, 16, 3))
    losses = -np.log(probabilities[np.arange(16), batch.source_labels.numpy()])
    entropies = {
        "min": losses,
        "collision": -np.log((probabilities**2).sum(axis=1)),
        "shannon": -(probabilities * np.log(probabilities)).sum(axis=1),
    }
    losses[:5] = entropies[entropy][:5]
    assert update.loss.item() == pytest.approx(losses.mean(), rel=1e-5)


def test_features_are_dropped_in_training_only(blueprint: Blueprint, batch: Batch) -> None:
    method = RenyiEntropy(dropout_rate=0.5)
    network = method.build(blueprint)
    with torch.no_grad():
        network.log_variance.bias.fill_(-100)  # no noise but that of dropout
        network.log_variance.weight.zero_()
    losses = [next(method.training_step(network, batch)).loss for _ in range(2)]
    assert losses[0] != losses[1]
    with torch.no_grad():
        logits = method.predict(network, batch.source_inputs).logits
        torch.testing.assert_close(logits, network(batch.source_inputs)[0].log_softmax(dim=-1))


def test_a_prediction_is_the_mean_over_noise(blueprint: Blueprint, batch: Batch) -> None:
    """Many fixed draws, the same for all rows, against many that are new for each row."""
    method = RenyiEntropy(num_draws=4000)
    network = method.build(blueprint)
    with torch.no_grad():
        network.log_variance.bias.fill_(2)
        got = method.predict(network, batch.source_inputs).logits.exp().numpy()
        plain = network(batch.source_inputs)[0].softmax(dim=-1).numpy()
    noise = torch.randn(8000, 16, 3, generator=torch.Generator().manual_seed(1))
    expected = mean_probabilities(network, batch.source_inputs, noise)
    np.testing.assert_allclose(got, expected, atol=0.015)
    assert np.abs(plain - expected).max() > 0.05


def test_opposite_draws_favour_no_class(blueprint: Blueprint, batch: Batch) -> None:
    """Two classes with equal logits stay equal, however few the draws."""
    method = RenyiEntropy(num_draws=1)
    two_classes = Blueprint(blueprint.new_backbone, 2, has_target=True)
    network = method.build(two_classes)
    with torch.no_grad():
        for parameter in [*network.head.parameters(), *network.log_variance.parameters()]:
            parameter.zero_()
        logits = method.predict(network, batch.source_inputs).logits
    torch.testing.assert_close(logits.exp(), torch.full((16, 2), 0.5))


def test_the_target_is_used_after_the_warm_up(features: ShiftProblem) -> None:
    how = Recipe.from_names("brer", method_options={"warmup_share": 0.3}, training={"epochs": 4, "batch_size": 16})
    counts = [record.get("pseudo_labels") for record in fit_model(features, how).history]
    assert counts[:2] == [None, None]
    assert counts[2] is not None
    assert counts[3] is not None
    assert 0.25 * 120 <= counts[2] < counts[3] <= 0.75 * 120


def mean_probabilities(network: NoisyClassifier, inputs: Tensor, noise: Tensor) -> np.ndarray:
    """p by NumPy."""
    with torch.no_grad():
        features = network.backbone(inputs)
        logits, log_variance = (head(features).double().numpy() for head in (network.head, network.log_variance))
    odds = np.exp(logits + np.sqrt(np.exp(log_variance)) * noise.double().numpy())
    mean: np.ndarray = (odds / odds.sum(axis=-1, keepdims=True)).mean(axis=0)
    return mean
