import pytest
import torch
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.methods.base import TASK
from shiftcal.methods.bayes_by_backprop import DEVIATION, BayesByBackprop, BayesianClassifier
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


def test_loss_is_the_expected_cross_entropy_and_the_divergence(blueprint: Blueprint, batch: Batch) -> None:
    method = BayesByBackprop(kl_weight=1e-3, initial_deviation=0.2, prior_deviation=0.5)
    network = method.build(blueprint)
    torch.manual_seed(0)
    losses = [next(method.training_step(network, batch)).logged["task_loss"] for _ in range(500)]
    update, _ = method.training_step(network, batch)

    features = network.backbone(batch.source_inputs)
    weight, bias = (Normal(mean, torch.full_like(mean, 0.2)) for mean in (network.head.weight, network.head.bias))
    drawn = [cross_entropy(features @ weight.rsample().T + bias.rsample(), batch.source_labels) for _ in range(500)]
    assert torch.stack(losses).mean().item() == pytest.approx(torch.stack(drawn).mean().item(), rel=0.05)

    prior = Normal(torch.tensor(0.0), torch.tensor(0.5))
    divergence = kl_divergence(weight, prior).sum() + kl_divergence(bias, prior).sum()
    torch.testing.assert_close(update.loss - update.logged["task_loss"], 1e-3 * divergence)


def test_a_prediction_is_the_mean_over_drawn_weights(blueprint: Blueprint, batch: Batch) -> None:
    method = BayesByBackprop(initial_deviation=0.2, num_draws=2000)
    network = method.build(blueprint)
    with torch.no_grad():
        logits = method.predict(network, batch.source_inputs).logits
        features = network.backbone(batch.source_inputs)
        torch.manual_seed(0)
        weights = network.head.weight + 0.2 * torch.randn(2000, *network.head.weight.shape)
        biases = network.head.bias + 0.2 * torch.randn(2000, 1, 3)
        expected = (features @ weights.transpose(1, 2) + biases).softmax(dim=-1).mean(dim=0)
    torch.testing.assert_close(logits.softmax(dim=-1), expected, atol=0.04, rtol=0)
    assert torch.equal(method.predict(network, batch.source_inputs).logits, logits)


def test_weights_fall_back_to_the_prior_where_the_data_do_not_matter(features: ShiftProblem) -> None:
    how = Recipe.from_names(
        "bayes-by-backprop",
        method_options={"kl_weight": 1e3, "deviation_learning_rate": 0.05, "prior_deviation": 0.3},
        training={"epochs": 60, "batch_size": 32},
    )
    network = fit_model(features, how).network
    assert isinstance(network, BayesianClassifier)
    deviation = network.log_deviation.detach().exp()
    torch.testing.assert_close(deviation, torch.full_like(deviation, 0.3), atol=0.03, rtol=0)


def test_means_and_deviations_take_turns(blueprint: Blueprint, batch: Batch) -> None:
    method = BayesByBackprop()
    network = method.build(blueprint)
    plans = method.optimizers(network)
    groups = {name: set(plan.parameters) for name, plan in plans.items()}
    assert groups[TASK] | groups[DEVIATION] == set(network.parameters())
    assert groups[TASK].isdisjoint(groups[DEVIATION])
    assert [update.optimizer for update in method.training_step(network, batch)] == [TASK, DEVIATION]
