import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from shiftcal.core.errors import CheckpointError, InvalidInputError, TrainingInterrupted
from shiftcal.data.batches import Batch, PseudoLabels, ShiftProblem
from shiftcal.methods.base import TASK, TrainingView, Update
from shiftcal.methods.networks.classifiers import Classifier
from shiftcal.methods.source_only import SourceOnly
from shiftcal.training.fit import fit_model
from shiftcal.training.fitted_model import FittedModel
from shiftcal.training.moving_average import moving_average
from shiftcal.training.options import TrainingOptions
from shiftcal.training.recipe import Recipe
from shiftcal.training.trainer import Predict

pytestmark = pytest.mark.usefixtures("quick_estimate")


@dataclass(frozen=True, kw_only=True)
class SelfTraining(SourceOnly):
    """Takes the most confident half of the target as labelled, anew for each epoch after the first."""

    def choose_pseudo_labels(self, network: Classifier, view: TrainingView) -> PseudoLabels | None:
        if view.epoch == 0:
            return None
        confidence, labels = torch.softmax(view.target_outputs.logits, dim=-1).max(dim=-1)
        rows = confidence.argsort(descending=True, stable=True)[: len(confidence) // 2]
        chosen = labels[rows].numpy().astype(np.int64)
        return PseudoLabels(rows.numpy().astype(np.int64), chosen, 0.5 * np.eye(3, dtype=np.float32)[chosen])

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        labels = torch.eye(3)[batch.source_labels] if batch.soft_labels is None else batch.soft_labels
        yield Update(TASK, -(labels * network(batch.source_inputs)[0].log_softmax(dim=-1)).mean())


@pytest.fixture
def self_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("shiftcal.methods").methods.METHODS, "self-training", SelfTraining)


def logits(model: FittedModel, problem: ShiftProblem) -> torch.Tensor:
    return model.predict(problem.source.inputs).logits


def recipe(method: str = "drl", **training: Any) -> Recipe:
    return Recipe.from_names(method, training={"epochs": 3, "batch_size": 16, "checkpoint_seconds": 0.0, **training})


@pytest.mark.usefixtures("self_training")
def test_pseudo_labels_take_part_and_are_resumed(features: ShiftProblem, tmp_path: Path) -> None:
    whole = fit_model(features, recipe("self-training"))
    assert [record.get("pseudo_labels") for record in whole.history] == [None, 60, 60]
    assert [record.get("pseudo_share") for record in whole.history] == [None, 0.5, 0.5]
    assert "pseudo_agreement" not in whole.history[1]
    assert whole.history[2]["pseudo_agreement"] > 0.9
    assert whole.pseudo_labels is not None
    assert whole.pseudo_labels.epochs.tolist() == [2, 3]
    interrupt_in_step(10, features, recipe("self-training"), tmp_path / "c.pt")
    state = torch.load(tmp_path / "c.pt", weights_only=True)["training"]
    assert (state["epoch"], state["step"], len(state["pseudo_labels"]["rows"])) == (1, 3, 60)
    resumed = fit_model(features, recipe("self-training"), checkpoint=tmp_path / "c.pt", resume=True)
    assert torch.equal(logits(resumed, features), logits(whole, features))
    assert resumed.pseudo_labels is not None
    for name, array in whole.pseudo_labels.arrays().items():
        np.testing.assert_array_equal(resumed.pseudo_labels.arrays()[name], array)


@pytest.mark.usefixtures("self_training")
def test_estimated_precision_is_the_mean_confidence_in_the_chosen_labels(features: ShiftProblem) -> None:
    """Two epochs: what the model after the first one says of the target is what the second one's labels are from."""
    assert features.target is not None
    options = {"schedule": "constant"}
    how = {
        epochs: Recipe.from_names("self-training", method_options=options, training={"epochs": epochs})
        for epochs in (1, 2)
    }
    outputs = fit_model(features, how[1]).predict(features.target.inputs)
    confidence = torch.softmax(outputs.logits, dim=-1).amax(dim=-1)
    record = fit_model(features, how[2]).history[1]
    expected = confidence.sort(descending=True).values[:60].mean().item()
    assert record["pseudo_estimated_precision"] == pytest.approx(expected, abs=1e-6)


def interrupt_in_step(step: int, problem: ShiftProblem, how: Recipe, checkpoint: Path) -> None:
    """A real SIGINT, sent by the training step itself."""
    import os
    import signal
    from unittest import mock

    from shiftcal.training.trainer import Trainer

    steps = 0
    original = Trainer._step

    def counted(self: Trainer, batch: Any) -> dict[str, Any]:
        nonlocal steps
        steps += 1
        if steps == step:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, batch)

    with mock.patch.object(Trainer, "_step", counted), pytest.raises(TrainingInterrupted, match="stopped in epoch"):
        fit_model(problem, how, checkpoint=checkpoint)


def test_ctrl_c_without_a_checkpoint_is_an_ordinary_interrupt(features: ShiftProblem) -> None:
    def interrupt(history: list[dict[str, float]]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_model(features, recipe(), after_epoch=interrupt)


def test_watch_sees_the_network_after_each_epoch(features: ShiftProblem, tmp_path: Path) -> None:
    seen: dict[int, torch.Tensor] = {}

    def watch(epoch: int, predict: Predict) -> None:
        assert epoch not in seen
        seen[epoch] = predict(features.source.inputs).logits

    whole = fit_model(features, recipe("source-only"), watch=watch)
    assert list(seen) == [1, 2, 3]
    assert torch.equal(seen[3], logits(whole, features))
    assert not torch.equal(seen[2], seen[3])
    seen.clear()
    interrupt_in_step(10, features, recipe("source-only"), tmp_path / "c.pt")
    fit_model(features, recipe("source-only"), checkpoint=tmp_path / "c.pt", resume=True, watch=watch)
    assert list(seen) == [2, 3]
    assert torch.equal(seen[3], logits(whole, features))


def test_watch_may_draw_random_numbers(features: ShiftProblem) -> None:
    states: list[torch.Tensor] = []

    def draw(epoch: int, predict: Predict) -> None:
        torch.rand(epoch)

    for watch in (None, draw):
        fit_model(features, recipe(), watch=watch, after_epoch=lambda _: states.append(torch.get_rng_state()))
    assert len(states) == 6
    assert all(torch.equal(without, watched) for without, watched in zip(states[:3], states[3:], strict=True))


def test_resuming_with_other_options_is_refused(features: ShiftProblem, tmp_path: Path) -> None:
    interrupt_in_step(2, features, recipe(), tmp_path / "c.pt")
    with pytest.raises(CheckpointError, match="other options"):
        fit_model(features, recipe(batch_size=32), checkpoint=tmp_path / "c.pt", resume=True)


def test_an_epoch_can_have_a_number_of_steps_of_its_own(features: ShiftProblem) -> None:
    """More than a pass over the source, or less; the number of epochs follows where none is given."""
    steps_of_a_pass = recipe().training.steps_per_epoch(len(features.source))
    for steps in (1, 3 * steps_of_a_pass):
        how = recipe("drst", epochs=4, epoch_steps=steps)
        assert how.training.steps_per_epoch(len(features.source)) == steps
        assert len(fit_model(features, how).history) == 4
    assert recipe(epochs=None, epoch_steps=100).training.resolved_epochs(len(features.source)) == 10


def test_number_of_workers_changes_nothing(features: ShiftProblem) -> None:
    expected = logits(fit_model(features, recipe()), features)
    assert torch.equal(logits(fit_model(features, recipe(num_workers=2)), features), expected)


def test_bfloat16_is_close_to_float32(images: ShiftProblem) -> None:
    exact = torch.softmax(logits(fit_model(images, recipe()), images), dim=-1)
    mixed = torch.softmax(logits(fit_model(images, recipe(precision="bf16")), images), dim=-1)
    assert not torch.equal(exact, mixed)
    assert (exact - mixed).abs().max() < 0.1


def test_gradient_clipping_bounds_the_step(features: ShiftProblem) -> None:
    """Plain SGD without decay and momentum's memory: after one step the weights have moved by at most clip x rate."""
    moved = []
    for clip in (None, 1e-6):
        how = Recipe.from_names(
            "source-only",
            method_options={"optimizer": "sgd", "learning_rate": 0.1, "weight_decay": 0.0, "schedule": "constant"},
            training={"epochs": 1, "batch_size": 120, "validation_fraction": 0.0, "gradient_clip": clip},
        )
        moved.append(logits(fit_model(features, how), features))
    assert (moved[0] - moved[1]).abs().max() > 1e-2


def test_moving_average_is_what_predicts(features: ShiftProblem) -> None:
    def fitted(decay: float) -> FittedModel:
        return fit_model(
            features, Recipe.from_names("source-only", method_options={"ema_decay": decay}, training={"epochs": 2})
        )

    assert not torch.equal(logits(fitted(0.0), features), logits(fitted(0.99), features))


def test_moving_average_is_short_at_first_and_copies_what_has_no_average() -> None:
    network = torch.nn.BatchNorm1d(1)
    average = moving_average(network, 0.3)
    assert average is not None
    expected = 0.0
    for step, share in enumerate([1, 1 - 2 / 11, 1 - 3 / 12, 1 - 0.3, 1 - 0.3]):
        with torch.no_grad():
            network.weight.fill_(step)
        assert network.num_batches_tracked is not None
        network.num_batches_tracked += 7
        average.update_parameters(network)
        expected += share * (step - expected)
        assert average.module.get_parameter("weight").item() == pytest.approx(expected)
        assert average.module.get_buffer("num_batches_tracked") == network.num_batches_tracked


@dataclass(frozen=True, kw_only=True)
class LogsSometimes(SourceOnly):
    """Logs the label of the first row, where it is not 0."""

    def training_step(self, network: Classifier, batch: Batch) -> Iterator[Update]:
        (update,) = super().training_step(network, batch)
        label = batch.source_labels[0]
        yield Update(TASK, update.loss, {"always": label.float(), **({"sometimes": label} if label else {})})


def test_what_some_steps_do_not_log_has_the_mean_of_the_others(
    features: ShiftProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("shiftcal.methods").methods.METHODS, "logs-sometimes", LogsSometimes)
    training = {"epochs": 1, "batch_size": 1, "validation_fraction": 0.0}
    record = fit_model(features, Recipe.from_names("logs-sometimes", training=training)).history[0]
    # Classes 0, 1 and 2 are equally many.
    assert (record["always"], record["sometimes"]) == pytest.approx((1.0, 1.5))


def test_divergence_is_an_error_with_advice(features: ShiftProblem) -> None:
    how = Recipe.from_names(
        "source-only", method_options={"learning_rate": 1e30, "optimizer": "sgd"}, training={"epochs": 5}
    )
    with pytest.raises(InvalidInputError, match=r"training diverged.*smaller learning_rate"):
        fit_model(features, how)


def test_divergence_in_the_last_step_is_found_too(features: ShiftProblem) -> None:
    """One step in all: its loss is computed before the update that ruins the weights."""
    how = Recipe.from_names(
        "source-only",
        method_options={"learning_rate": 1e38, "weight_decay": 1e6, "optimizer": "sgd"},
        training={"epochs": 1, "batch_size": 120, "validation_fraction": 0.0},
    )
    with pytest.raises(InvalidInputError, match="training diverged"):
        fit_model(features, how)


def test_history_has_losses_and_validation_and_is_plain(features: ShiftProblem) -> None:
    history = fit_model(features, recipe()).history
    for record in history:
        assert {"epoch", "task_loss", "domain_loss", "validation_accuracy", "validation_loss", "seconds"} <= set(
            record
        )
    json.dumps(history)


@pytest.mark.parametrize(
    ("given", "classes", "mirrored"),
    [
        ("auto", tuple(range(10)), False),
        ("auto", ("a", "b"), False),
        ("auto", ("cat", "dog"), True),
        ("auto", tuple(range(11)), True),
        (True, (0, 1), True),
        (False, ("cat", "dog"), False),
    ],
)
def test_signs_are_not_mirrored_unless_asked(given: Any, classes: tuple[Any, ...], mirrored: bool) -> None:
    assert TrainingOptions(horizontal_flip=given).mirrors(classes) is mirrored
