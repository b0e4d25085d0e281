from dataclasses import replace
from pathlib import Path

import pytest
import torch

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.views import ViewMaker
from shiftcal.functional.adaptive_thresholds import NO_LABEL
from shiftcal.methods.fixmatch import FixMatch
from shiftcal.methods.flexmatch import CurriculumClassifier, FlexMatch
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe
from shiftcal.training.saved_model import load_model, save_model

pytestmark = pytest.mark.usefixtures("quick_estimate")


def test_all_rows_count_at_first_then_each_class_by_its_sure_rows(blueprint: Blueprint, batch: Batch) -> None:
    method = FlexMatch(threshold=0.5)
    network = method.build(replace(blueprint, num_target_rows=20))
    assert batch.target_inputs is not None
    (first,) = method.training_step(network, batch)
    assert first.logged["pseudo_coverage"] == 1

    probabilities = torch.softmax(network(batch.target_inputs)[0], dim=-1)
    confidence, labels = probabilities.max(dim=-1)
    sure = confidence >= 0.5
    assert 0 < sure.sum() < 16
    expected = torch.where(sure, labels, NO_LABEL)
    assert torch.equal(network.row_labels[:16], expected)
    assert (network.row_labels[16:] == NO_LABEL).all()

    (second,) = method.training_step(network, batch._replace(views=ViewMaker(0, 0)))
    counts = [int((expected == label).sum()) for label in (NO_LABEL, 0, 1, 2)]
    counts[0] += 4
    shares = torch.tensor(counts[1:]) / max(counts)
    kept = confidence >= (0.5 * shares / (2 - shares))[labels]
    torch.testing.assert_close(second.logged["pseudo_coverage"], kept.float().mean())


def test_with_all_classes_learned_alike_it_is_fixmatch(blueprint: Blueprint, batch: Batch) -> None:
    method = FlexMatch(threshold=0.5)
    network = method.build(replace(blueprint, num_target_rows=30))
    network.row_labels.copy_(torch.arange(30) % 3)
    (flexible,) = method.training_step(network, batch)
    (fixed,) = FixMatch(threshold=0.5).training_step(network, batch._replace(views=ViewMaker(0, 0)))
    assert flexible.loss == fixed.loss


def test_the_memory_has_the_size_of_the_target_and_is_kept_with_the_model(
    features: ShiftProblem, tmp_path: Path
) -> None:
    how = Recipe.from_names("flexmatch", training={"epochs": 3, "batch_size": 16})
    model = fit_model(features, how)
    save_model(model, tmp_path / "model.pt")
    loaded = load_model(tmp_path / "model.pt")
    assert isinstance(model.network, CurriculumClassifier)
    assert isinstance(loaded.network, CurriculumClassifier)
    assert features.target is not None
    assert loaded.num_target_rows == len(features.target)
    assert torch.equal(loaded.network.row_labels, model.network.row_labels)
    assert {-1, 0, 1, 2} >= set(model.network.row_labels.tolist())


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_extreme_thresholds(threshold: float, blueprint: Blueprint, batch: Batch) -> None:
    method = FlexMatch(threshold=threshold)
    network = method.build(replace(blueprint, num_target_rows=16))
    for _ in range(3):
        (update,) = method.training_step(network, batch)
    assert torch.isfinite(update.loss)
    assert update.logged["pseudo_coverage"] == 1
