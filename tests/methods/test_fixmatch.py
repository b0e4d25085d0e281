from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.views import ViewMaker
from shiftcal.methods.base import Update
from shiftcal.methods.fixmatch import FixMatch
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint, Classifier
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


def test_the_loss_by_hand(blueprint: Blueprint, batch: Batch) -> None:
    method = FixMatch(threshold=0.5, unlabelled_weight=2.0)
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)

    assert batch.target_inputs is not None
    strong_inputs = ViewMaker(0, 0).strong(batch.target_inputs, missing=torch.zeros(1, 4))
    with torch.no_grad():
        labelled, weak, strong = (
            network(inputs)[0].double().numpy()
            for inputs in (batch.source_inputs, batch.target_inputs, strong_inputs)
        )
    task_loss = -log_softmax(labelled, axis=1)[np.arange(16), batch.source_labels.numpy()].mean()
    confidence, labels = softmax(weak, axis=1).max(axis=1), weak.argmax(axis=1)
    kept = confidence >= 0.5
    assert 0 < kept.sum() < 16
    agreement = -(log_softmax(strong, axis=1)[np.arange(16), labels] * kept).mean()
    assert {name: value.item() for name, value in update.logged.items()} == pytest.approx(
        {
            "task_loss": task_loss,
            "consistency_loss": agreement,
            "pseudo_coverage": kept.mean(),
            "pseudo_confidence": confidence[kept].mean(),
        },
        rel=1e-5,
    )
    assert update.loss.item() == pytest.approx(task_loss + 2 * agreement, rel=1e-5)


def test_gradients_come_from_strong_views_alone(blueprint: Blueprint, batch: Batch) -> None:
    method = FixMatch(threshold=0.0)
    network = method.build(blueprint)
    (update,) = method.training_step(network, batch)
    agreement = torch.autograd.grad(update.logged["consistency_loss"], network.head.weight)[0]

    assert batch.target_inputs is not None
    logits, features = network(ViewMaker(0, 0).strong(batch.target_inputs, missing=torch.zeros(1, 4)))
    labels = network(batch.target_inputs)[0].argmax(dim=-1)
    expected = (logits.softmax(dim=-1) - torch.eye(3)[labels]).T @ features / 16
    torch.testing.assert_close(agreement, expected)


def test_batch_norm_sees_all_views_in_one_pass(batch: Batch) -> None:
    statistics = InputStatistics(torch.zeros(4), torch.ones(4))
    blueprint = Blueprint(lambda: build_backbone(nn.BatchNorm1d(4), (4,), statistics), 3, has_target=True)
    method = FixMatch()
    network = method.build(blueprint)
    body = network.backbone.body
    assert isinstance(body, nn.BatchNorm1d)
    seen: list[torch.Tensor] = []
    body.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    list(method.training_step(network, batch))

    assert batch.target_inputs is not None
    strong_inputs = ViewMaker(0, 0).strong(batch.target_inputs, missing=torch.zeros(1, 4))
    together = torch.cat([batch.source_inputs, batch.target_inputs, strong_inputs])
    assert len(seen) == 1
    torch.testing.assert_close(seen[0], together)
    torch.testing.assert_close(body.running_mean, 0.1 * together.mean(dim=0))


def test_the_labels_of_images_stay_with_their_images(images: ShiftProblem) -> None:
    """Every view of a row has the pseudo-label of that row, whatever the number of target rows."""
    assert images.target is not None
    rows = np.arange(12, dtype=np.int64)
    target_inputs = images.target.inputs.fetch(rows)
    labels = torch.from_numpy(images.source.labels[:4])
    batch = Batch(
        images.source.inputs.fetch(rows[:4]),
        labels,
        torch.eye(2)[labels],
        torch.zeros(4, dtype=torch.bool),
        target_inputs,
        torch.from_numpy(rows),
        ViewMaker(3, 5),
        0.5,
    )
    torch.manual_seed(0)
    statistics = InputStatistics(torch.full((1,), 0.5), torch.full((1,), 0.25))
    method = FixMatch(threshold=0.0)
    network = method.build(Blueprint(lambda: build_backbone("small-cnn", (1, 8, 8), statistics), 2, has_target=True))
    (update,) = method.training_step(network, batch)
    again = ViewMaker(3, 5)
    labelled, weak, strong = (again.weak(batch.source_inputs), again.weak(target_inputs), again.strong(target_inputs))
    expected = nn.functional.cross_entropy(network(strong)[0], network(weak)[0].argmax(dim=-1))
    torch.testing.assert_close(update.logged["consistency_loss"], expected)
    torch.testing.assert_close(update.logged["task_loss"], nn.functional.cross_entropy(network(labelled)[0], labels))


@pytest.mark.parametrize(("options", "multiple"), [({}, 7), ({"unlabelled_multiple": 2}, 2)])
def test_the_multiple_reaches_the_batches(
    options: dict[str, int], multiple: int, features: ShiftProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[tuple[int, int]] = []
    step = FixMatch.training_step

    def recorded(self: FixMatch, network: Classifier, batch: Batch) -> Iterator[Update]:
        assert batch.target_inputs is not None
        sizes.append((len(batch.source_inputs), len(batch.target_inputs)))
        return step(self, network, batch)

    monkeypatch.setattr(FixMatch, "training_step", recorded)
    fit_model(
        features, Recipe.from_names("fixmatch", method_options=options, training={"epochs": 1, "batch_size": 16})
    )
    assert set(sizes) == {(16, 16 * multiple)}
