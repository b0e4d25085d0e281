import torch

from shiftcal.methods.base import Outputs
from shiftcal.methods.cbst_avh import AngularSelfTraining
from shiftcal.methods.networks.classifiers import Blueprint


def test_selection_is_by_angle_and_not_by_confidence(blueprint: Blueprint) -> None:
    """Two rows predicted as the first class: a short one that points to its weights and a long one that does not."""
    method = AngularSelfTraining()
    network = method.build(blueprint)
    width = network.head.in_features
    with torch.no_grad():
        network.head.weight.copy_(torch.eye(3, width))
        network.head.bias.zero_()
    features = torch.zeros(3, width)
    features[0, 0] = 1
    features[1, 0], features[1, 1] = 30, 20
    features[2, 2] = 1
    logits = network.head(features).detach()
    assert torch.softmax(logits, dim=-1).max(dim=-1).values.argmax() == 1
    chosen = method.label(network, Outputs(logits, torch.ones(3), features), 0.5)
    assert chosen.rows.tolist() == [0, 2]
    assert chosen.labels.tolist() == [0, 2]
