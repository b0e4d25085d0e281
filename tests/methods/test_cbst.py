from typing import Any

import numpy as np
import torch

from shiftcal.data.batches import PseudoLabels
from shiftcal.functional.self_training import select_class_balanced
from shiftcal.methods.base import Outputs
from shiftcal.methods.cbst import ClassBalancedSelfTraining
from shiftcal.methods.networks.classifiers import Blueprint


def random_outputs(num_rows: int = 60) -> Outputs:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(num_rows, 128, generator=generator)
    return Outputs(3 * torch.randn(num_rows, 3, generator=generator), torch.ones(num_rows), features)


def test_it_starts_on_the_source_and_then_selects_a_growing_portion(blueprint: Blueprint, outputs_view: Any) -> None:
    method = ClassBalancedSelfTraining(warmup_share=0.3)
    network, outputs = method.build(blueprint), random_outputs()
    chosen = [method.choose_pseudo_labels(network, outputs_view(epoch, 10, outputs, outputs)) for epoch in range(10)]
    assert chosen[:3] == [None] * 3
    sizes = [len(labels) for labels in chosen if labels is not None]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_labels_are_those_of_the_class_balanced_selection(blueprint: Blueprint, outputs_view: Any) -> None:
    method = ClassBalancedSelfTraining(first_portion=0.4, last_portion=0.4)
    outputs = random_outputs()
    chosen = method.choose_pseudo_labels(method.build(blueprint), outputs_view(9, 10, outputs, outputs))
    assert isinstance(chosen, PseudoLabels)
    rows, labels = select_class_balanced(torch.softmax(outputs.logits.double(), dim=-1), 0.4)
    np.testing.assert_array_equal(chosen.rows, rows)
    np.testing.assert_array_equal(chosen.labels, labels)
    assert chosen.soft_labels is None
