from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from shiftcal.data.batches import Batch
from shiftcal.methods.base import Outputs
from shiftcal.methods.gradual_self_training import GradualSelfTraining, source_log_ratio
from shiftcal.methods.networks.classifiers import Blueprint


def drifting(num_rows: int = 100) -> tuple[Outputs, Outputs]:
    """Target rows that move away from the source one after the other, the later the less confident."""
    generator = torch.Generator().manual_seed(0)
    source = 0.3 * torch.randn(num_rows, 2, generator=generator)
    target = 0.01 * torch.randn(num_rows, 2, generator=generator)
    target[:, 0] += torch.linspace(0, 5, num_rows)
    logits = torch.stack([torch.linspace(5, 1, num_rows), torch.zeros(num_rows), torch.zeros(num_rows)], dim=1)
    ones = torch.ones(num_rows)
    return Outputs(torch.zeros(num_rows, 3), ones, source), Outputs(logits, ones, target)


def test_the_order_is_that_of_the_distance_from_the_source() -> None:
    source, target = drifting()
    order = source_log_ratio(source.features, target.features).argsort(descending=True).numpy()
    assert np.corrcoef(order, np.arange(100))[0, 1] > 0.99


def test_the_part_grows_from_the_most_source_like_rows_to_all_of_them(
    blueprint: Blueprint, outputs_view: Any
) -> None:
    source, target = drifting()
    method = GradualSelfTraining()
    network = method.build(blueprint)
    sizes, furthest = [], []
    for epoch in range(10):
        chosen = method.choose_pseudo_labels(network, outputs_view(epoch, 10, source, target))
        if chosen is not None:
            sizes.append(len(chosen))
            furthest.append(int(chosen.rows.max()))
            assert (chosen.labels == 0).all()
    # Of 20, 33, 47, ... rows reached, nine tenths are kept, and the least confident are the furthest.
    assert sizes == [round(0.9 * round(100 * portion)) for portion in np.linspace(0.2, 1, 7)]
    assert furthest == sorted(furthest)
    assert furthest[0] < 25
    assert furthest[-1] < 95


def test_without_dropout_the_loss_is_cross_entropy(blueprint: Blueprint, batch: Batch) -> None:
    method = GradualSelfTraining(dropout_rate=0.0)
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    torch.testing.assert_close(update.loss, cross_entropy(network(batch.source_inputs)[0], batch.source_labels))
