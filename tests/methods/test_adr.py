from collections.abc import Callable, Iterator

import pytest
import torch
from torch.distributions import Categorical, kl_divergence
from torch.nn.functional import cross_entropy, dropout

from shiftcal.data.batches import Batch
from shiftcal.methods.adr import AdversarialDropout
from shiftcal.methods.networks.classifiers import Blueprint


def test_losses_for_the_same_masks(blueprint: Blueprint, batch: Batch) -> None:
    """Nothing is stepped here, so all losses are of the same network; the masks come in the order of the losses."""
    method = AdversarialDropout(dropout_rate=0.3, generator_steps=2, balance_weight=0.5)
    network = method.build(blueprint)
    assert batch.target_inputs is not None
    source, target = (network.features(inputs) for inputs in (batch.source_inputs, batch.target_inputs))

    torch.manual_seed(0)
    updates = list(method.training_step(network, batch))
    assert len(updates) == 4

    def sensitivity() -> torch.Tensor:
        first, second = (Categorical(logits=network.critic(dropout(target, 0.3))) for _ in range(2))
        return (kl_divergence(first, second) + kl_divergence(second, first)).mean() / (2 * 3)

    torch.manual_seed(0)
    task_loss = cross_entropy(network.head(dropout(source, 0.3)), batch.source_labels)
    critic_loss = cross_entropy(network.critic(dropout(source, 0.3)), batch.source_labels)
    on_target = torch.softmax(network.critic(dropout(target, 0.3)), dim=-1).mean(dim=0)
    torch.testing.assert_close(updates[0].loss, task_loss + critic_loss - 0.5 * on_target.log().mean())
    critic_loss = cross_entropy(network.critic(dropout(source, 0.3)), batch.source_labels)
    torch.testing.assert_close(updates[1].loss, critic_loss - sensitivity())
    for update in updates[2:]:
        torch.testing.assert_close(update.loss, sensitivity())
    assert updates[2].loss != updates[3].loss


def test_each_step_moves_what_it_should(
    blueprint: Blueprint, batch: Batch, moved_parts: Callable[..., Iterator[set[str]]]
) -> None:
    method = AdversarialDropout(generator_steps=2)
    moved = [{"backbone", "head", "critic"}, {"critic"}, {"backbone"}, {"backbone"}]
    assert list(moved_parts(method, method.build(blueprint), batch)) == moved


def test_the_predicting_head_leaves_the_features_alone(blueprint: Blueprint, batch: Batch) -> None:
    method = AdversarialDropout()
    network = method.build(blueprint)
    weight = next(network.backbone.parameters())
    update = next(iter(method.training_step(network, batch)))
    assert torch.autograd.grad(update.logged["task_loss"], [weight], allow_unused=True, retain_graph=True)[0] is None
    assert torch.autograd.grad(update.logged["critic_loss"], [weight])[0].abs().max() > 0


def test_predictions_are_those_of_the_quiet_head(blueprint: Blueprint, batch: Batch) -> None:
    method = AdversarialDropout()
    network = method.build(blueprint)
    with torch.no_grad():
        logits, ratio, features, _ = method.predict(network, batch.source_inputs)
        torch.testing.assert_close(logits, network.head(network.features(batch.source_inputs)))
    assert ratio.tolist() == pytest.approx([1.0] * 16)
    assert features.shape == (16, network.backbone.feature_dim)
