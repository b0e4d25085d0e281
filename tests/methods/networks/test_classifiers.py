from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from shiftcal.methods.networks.backbones import Backbone, InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import (
    Blueprint,
    Classifier,
    DomainClassifier,
    SteadyClassifier,
    classify_jointly,
    frozen_statistics,
    observed,
    through_fixed,
)


def batch_norm_backbone() -> Backbone:
    body = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5))
    return build_backbone(body, (3,), InputStatistics(torch.zeros(3), torch.ones(3)))


@pytest.fixture
def network() -> Classifier:
    torch.manual_seed(0)
    return Classifier(Blueprint(batch_norm_backbone, num_classes=4, has_target=True))


def buffers(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in network.named_buffers()}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_a_classifier_gives_logits_and_their_features(network: Classifier) -> None:
    logits, features = network.eval()(torch.rand(6, 3))
    assert (logits.shape, features.shape) == ((6, 4), (6, 5))
    assert torch.equal(logits, network.head(features))


def test_features_of_a_steady_classifier_do_not_shrink_with_its_weights() -> None:
    torch.manual_seed(0)
    network = SteadyClassifier(Blueprint(batch_norm_backbone, num_classes=4, has_target=True)).eval()
    inputs = torch.rand(6, 3)
    logits, features = network(inputs)
    torch.testing.assert_close(features.square().mean(dim=-1), torch.ones(6), atol=1e-3, rtol=0)
    with torch.no_grad():
        for weights in network.backbone.parameters():
            weights.mul_(0.5)
    torch.testing.assert_close(network(inputs)[0], logits, atol=1e-3, rtol=0)


def test_each_network_has_a_backbone_of_its_own() -> None:
    blueprint = Blueprint(batch_norm_backbone, num_classes=2, has_target=False)
    first, second = Classifier(blueprint), Classifier(blueprint)
    own = {parameter.data_ptr() for parameter in first.parameters()}
    assert not own & {parameter.data_ptr() for parameter in second.parameters()}


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_a_domain_classifier_starts_without_an_opinion(scale: float) -> None:
    head = DomainClassifier(feature_dim=3, hidden_dim=8)
    logit = head(scale * torch.randn(7, 3))
    assert logit.tolist() == [0.0] * 7


def test_a_domain_classifier_can_still_learn() -> None:
    torch.manual_seed(0)
    head = DomainClassifier(feature_dim=1, hidden_dim=8)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
    inputs, labels = torch.tensor([[-1.0], [1.0]]), torch.tensor([0.0, 1.0])
    for _ in range(50):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(head(inputs), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert loss.item() < 0.1 < math.log(2)


def test_frozen_statistics_are_used_and_kept(network: Classifier) -> None:
    network.train()
    network(torch.randn(32, 3))
    before = buffers(network)
    other = 5 + torch.randn(8, 3)
    with frozen_statistics(network):
        frozen, _ = network(other)
    assert same(buffers(network), before)
    expected, _ = copy.deepcopy(network).eval()(other)
    assert torch.equal(frozen, expected)
    network(other)
    assert not same(buffers(network), before)


def test_layers_go_back_to_the_mode_that_they_had(network: Classifier) -> None:
    norm = next(module for module in network.modules() if isinstance(module, nn.BatchNorm1d))
    for mode in (True, False):
        network.train(mode)
        with frozen_statistics(network):
            assert not norm.training
            assert network.training is mode
        assert norm.training is mode
    network.train()
    with pytest.raises(ValueError, match="stop"), frozen_statistics(network):
        raise ValueError("stop")
    assert norm.training


def test_observing_leaves_no_trace(network: Classifier) -> None:
    network.train()
    before = buffers(network)
    logits, features = observed(network, torch.randn(8, 3))
    assert not logits.requires_grad
    assert not features.requires_grad
    assert same(buffers(network), before)
    assert all(parameter.grad is None for parameter in network.parameters())
    assert network.training


def test_a_joint_pass_normalises_by_the_mixture_and_keeps_its_statistics(network: Classifier) -> None:
    network.train()
    source_inputs, target_inputs = torch.randn(6, 3), 5 + torch.randn(4, 3)
    twin = copy.deepcopy(network)
    source, target = classify_jointly(network, source_inputs, target_inputs)
    logits, features = twin(torch.cat([source_inputs, target_inputs]))
    assert torch.equal(torch.cat([source.logits, target.logits]), logits)
    assert torch.equal(torch.cat([source.features, target.features]), features)
    assert (len(source.logits), len(target.features)) == (6, 4)
    assert same(buffers(network), buffers(twin))


def test_a_joint_pass_gives_the_parts_back_in_their_order(network: Classifier) -> None:
    network.eval()
    parts = [torch.randn(size, 3) for size in (2, 5, 1)]
    for part, outputs in zip(parts, classify_jointly(network, *parts), strict=True):
        logits, features = network(part)
        torch.testing.assert_close(outputs.logits, logits)
        torch.testing.assert_close(outputs.features, features)


def test_a_fixed_layer_passes_gradients_on_and_takes_none() -> None:
    torch.manual_seed(0)
    layer, features = nn.Linear(4, 3), torch.randn(5, 4, requires_grad=True)
    logits = through_fixed(layer, features)
    assert torch.equal(logits, layer(features))
    logits.square().sum().backward()  # type: ignore[no-untyped-call]
    assert features.grad is not None
    assert layer.weight.grad is None
    assert layer.bias.grad is None
