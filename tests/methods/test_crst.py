from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch
from shiftcal.functional.self_training import entropy_regularized_labels, normalized_confidence
from shiftcal.methods.base import Outputs
from shiftcal.methods.cbst import ClassBalancedSelfTraining
from shiftcal.methods.crst import ConfidenceRegularizedSelfTraining
from shiftcal.methods.networks.classifiers import Blueprint

ByHand = {
    "mrkld": lambda p: -p.log().sum(dim=1) / 3,
    "mrent": lambda p: (p * p.log()).sum(dim=1),
    "mrl2": lambda p: p.square().sum(dim=1),
}


def half_pseudo(batch: Batch) -> Batch:
    return batch._replace(is_pseudo=torch.arange(16) % 2 == 1)


@pytest.mark.parametrize(("name", "weight"), [("mrkld", 0.01), ("mrent", 0.1), ("mrl2", 0.025)])
def test_the_penalty_counts_on_pseudo_labelled_rows_only(
    name: Literal["mrkld", "mrent", "mrl2"], weight: float, blueprint: Blueprint, batch: Batch
) -> None:
    method = ConfidenceRegularizedSelfTraining(regularizer=name)
    network = method.build(blueprint)
    (update,) = method.training_step(network, half_pseudo(batch))
    logits, _ = network(batch.source_inputs)
    probabilities = torch.softmax(logits, dim=-1)
    penalty = weight * ByHand[name](probabilities[1::2]).sum() / 16
    torch.testing.assert_close(update.loss, cross_entropy(logits, batch.source_labels) + penalty)


def test_lrent_trains_on_soft_labels_without_a_penalty(blueprint: Blueprint, batch: Batch) -> None:
    method = ConfidenceRegularizedSelfTraining(regularizer="lrent")
    network = method.build(blueprint)
    soft = torch.softmax(torch.randn(16, 3, generator=torch.Generator().manual_seed(0)), dim=-1)
    (update,) = method.training_step(network, half_pseudo(batch)._replace(soft_labels=soft))
    logits, _ = network(batch.source_inputs)
    torch.testing.assert_close(update.loss, -(soft * logits.log_softmax(dim=-1)).sum(dim=1).mean())


def test_all_regularizers_select_the_rows_of_cbst_and_lrent_softens_their_labels(blueprint: Blueprint) -> None:
    generator = torch.Generator().manual_seed(0)
    outputs = Outputs(3 * torch.randn(60, 3, generator=generator), torch.ones(60), torch.zeros(60, 4))
    base = ClassBalancedSelfTraining()
    network = base.build(blueprint)
    expected = base.label(network, outputs, 0.4)
    method = ConfidenceRegularizedSelfTraining(regularizer_weight=0.5)
    for name in ("mrkld", "lrent"):
        chosen = replace(method, regularizer=name).label(network, outputs, 0.4)
        np.testing.assert_array_equal(chosen.rows, expected.rows)
        np.testing.assert_array_equal(chosen.labels, expected.labels)
    normalized = normalized_confidence(torch.softmax(outputs.logits.double(), dim=-1), 0.4)
    soft = entropy_regularized_labels(normalized[expected.rows], 0.5)
    assert chosen.soft_labels is not None
    np.testing.assert_allclose(chosen.soft_labels, soft, rtol=1e-6)
    np.testing.assert_array_equal(chosen.soft_labels.argmax(axis=1), chosen.labels)
