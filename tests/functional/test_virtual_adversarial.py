import math

import torch
from torch import Tensor, nn

from shiftcal.functional.entropy import prediction_divergence
from shiftcal.functional.virtual_adversarial import virtual_adversarial_perturbation

GENERATOR = torch.Generator().manual_seed(0)
SCALE = torch.tensor([[1.0, 10.0, 0.1, 1.0, 1.0, 1.0]])
INPUTS = torch.randn(50, 6, generator=GENERATOR) * SCALE
NOISE = torch.randn(50, 6, generator=GENERATOR)


def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))


def perturbation(predict: nn.Module, radius: float = 0.1) -> Tensor:
    return virtual_adversarial_perturbation(predict, INPUTS, predict(INPUTS), noise=NOISE, radius=radius, scale=SCALE)


def test_it_has_the_length_that_was_asked_for_in_units_of_the_inputs_deviation() -> None:
    lengths = (perturbation(network(), radius=0.1) / SCALE).norm(dim=1)
    torch.testing.assert_close(lengths, torch.full((50,), 0.1 * math.sqrt(6)))


def test_predictions_change_more_along_it_than_along_random_directions() -> None:
    predict = network()
    logits = predict(INPUTS)
    found = perturbation(predict)
    changed = prediction_divergence(logits, predict(INPUTS + found))
    random = torch.randn(20, 50, 6, generator=GENERATOR)
    random = 0.1 * math.sqrt(6) * SCALE * random / random.norm(dim=-1, keepdim=True)
    by_chance = torch.stack([prediction_divergence(logits, predict(INPUTS + step)) for step in random])
    assert (changed > by_chance.mean(dim=0)).float().mean() > 0.95
    assert changed.mean() > 2 * by_chance.mean()


def test_for_a_linear_two_class_model_it_is_the_difference_of_the_weights() -> None:
    """The divergence depends on w . r alone, so the worst direction (of unit scale) is w itself, up to its sign."""
    predict = nn.Linear(6, 2)
    weight = (predict.weight[1] - predict.weight[0]).detach()
    found = virtual_adversarial_perturbation(
        predict, INPUTS / SCALE, predict(INPUTS / SCALE), noise=NOISE, radius=0.1, scale=torch.ones(1, 6)
    )
    cosine = torch.cosine_similarity(found, weight.expand_as(found)).abs()
    torch.testing.assert_close(cosine, torch.ones(50), atol=1e-3, rtol=0)


def test_it_leaves_no_gradients_and_is_zero_where_nothing_changes_the_prediction() -> None:
    predict = network()
    assert not perturbation(predict).requires_grad
    assert all(parameter.grad is None for parameter in predict.parameters())
    constant = nn.Linear(6, 2)
    nn.init.zeros_(constant.weight)
    assert torch.equal(perturbation(constant), torch.zeros_like(INPUTS))
