import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from shiftcal.core.errors import TrainingInterrupted
from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.views import ViewMaker
from shiftcal.methods.base import RATIO, TASK, Update
from shiftcal.methods.drssl import DistributionallyRobustSemiSupervised
from shiftcal.methods.fixmatch import FixMatch
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint, DomainOutputs
from shiftcal.methods.shared.self_training_network import SelfTrainingNetwork
from shiftcal.target.evidence import ObservedRows
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("coarse_estimate")


def step_of_task(method: DistributionallyRobustSemiSupervised, network: SelfTrainingNetwork, batch: Batch) -> Update:
    (update,) = method.training_step(network, batch)
    assert update.optimizer == TASK
    return update


def with_ratio(network: SelfTrainingNetwork) -> SelfTrainingNetwork:
    """A ratio head that says something; a new one says 1."""
    assert network.ratio is not None
    for weights in network.ratio.parameters():
        torch.nn.init.normal_(weights, std=0.5)
    return network


def test_without_ratio_and_clusters_it_is_fixmatch(blueprint: Blueprint, batch: Batch) -> None:
    torch.manual_seed(1)
    method = DistributionallyRobustSemiSupervised(threshold=0.5, labelling="confidence")
    robust = step_of_task(method, method.build(blueprint), batch)
    torch.manual_seed(1)
    plain_method = FixMatch(threshold=0.5)
    (plain,) = plain_method.training_step(plain_method.build(blueprint), batch._replace(views=ViewMaker(0, 0)))
    for name, value in plain.logged.items():
        torch.testing.assert_close(robust.logged[name], value)
    assert robust.accepted is not None
    assert plain.accepted is not None
    assert robust.accepted.rows.tolist() == plain.accepted.rows.tolist()


def test_the_ratio_is_learned_from_weak_views() -> None:
    statistics = InputStatistics(torch.zeros(1), torch.ones(1))
    blueprint = Blueprint(lambda: build_backbone("small-cnn", (1, 16, 16), statistics), 3, has_target=True)
    labels = torch.tensor([0, 1, 2, 0])
    inputs, target = torch.rand(2, 4, 1, 16, 16)
    is_pseudo = torch.zeros(4, dtype=torch.bool)
    batch = Batch(inputs, labels, torch.eye(3)[labels], is_pseudo, target, torch.arange(4), ViewMaker(0, 0), 0.5)
    views = ViewMaker(0, 0)
    seen = batch._replace(source_inputs=views.weak(inputs), target_inputs=views.weak(target))
    method = DistributionallyRobustSemiSupervised(unlabelled_multiple=1, ratio_strength=0.5)
    network = with_ratio(method.build(blueprint))
    (update,) = method.training_step(network, batch)

    def loss_of(part: Batch) -> float:
        outputs = [DomainOutputs(*network.task(inputs)) for inputs in (part.source_inputs, part.target_inputs)]
        rows = network.seen_of_both(part, *outputs)
        return method.ratio_loss(network, part, rows, outputs[1].logits).loss.item()

    expected, of_inputs = loss_of(seen), loss_of(batch)
    assert update.beside[RATIO].item() == pytest.approx(expected, rel=1e-6)
    assert update.beside[RATIO].item() != of_inputs


def test_the_loss_by_hand(blueprint: Blueprint, batch: Batch) -> None:
    """The paper's form: pseudo-labels and strong views by softmax(R z / (1 + r))."""
    method = DistributionallyRobustSemiSupervised(
        threshold=0.4, unlabelled_weight=2.0, ratio_strength=1.0, class_regularization=0.1, labelling="confidence"
    )
    network = with_ratio(method.build(blueprint))
    update = step_of_task(method, network, batch)

    assert batch.target_inputs is not None
    strong_inputs = ViewMaker(0, 0).strong(batch.target_inputs, missing=torch.zeros(1, 4))
    with torch.no_grad():
        robust = method.predict(network, batch.target_inputs)
        strong = network.task(strong_inputs)[0].double()
    ratio = robust.density_ratio.double().numpy()
    assert ratio.std() > 0.1
    weak = robust.logits.double().numpy()
    confidence, labels = softmax(weak, axis=1).max(axis=1), weak.argmax(axis=1)
    kept = confidence >= 0.4
    assert 0 < kept.sum() < 16
    scaled = ratio[:, None] * (strong - strong.mean(dim=1, keepdim=True)).numpy() / 1.1
    agreement = -(log_softmax(scaled, axis=1)[np.arange(16), labels] * kept).mean()
    assert update.logged["consistency_loss"].item() == pytest.approx(agreement, rel=1e-5)
    assert update.accepted is not None
    assert update.accepted.rows.tolist() == np.flatnonzero(kept).tolist()
    assert update.accepted.labels.tolist() == labels[kept].tolist()
    np.testing.assert_allclose(update.accepted.confidence.numpy(), confidence[kept], rtol=1e-5)


def recipe(**options: Any) -> Recipe:
    training = {"epochs": 4, "batch_size": 16, "checkpoint_seconds": 0.0}
    return Recipe.from_names("drssl", method_options={"threshold": 0.6, **options}, training=training)


def interrupt_in_step(step: int, problem: ShiftProblem, checkpoint: Path) -> None:
    """A real SIGINT, sent within a training step."""
    original, calls = DistributionallyRobustSemiSupervised.training_step, 0

    def interrupting(self: Any, network: SelfTrainingNetwork, batch: Batch) -> Iterator[Update]:
        nonlocal calls
        calls += 1
        if calls == step:
            os.kill(os.getpid(), signal.SIGINT)
        yield from original(self, network, batch)

    with (
        mock.patch.object(DistributionallyRobustSemiSupervised, "training_step", interrupting),
        pytest.raises(TrainingInterrupted),
    ):
        fit_model(problem, recipe(), checkpoint=checkpoint)


def test_pseudo_labels_of_the_steps_are_put_together_by_epoch_and_resumed(
    features: ShiftProblem, tmp_path: Path
) -> None:
    whole = fit_model(features, recipe())
    rounds = whole.pseudo_labels
    assert rounds is not None
    assert rounds.epochs[-1] == 4
    assert whole.history[-1]["pseudo_share"] == pytest.approx(rounds.share[-1])
    assert 0.6 <= rounds.estimated_precision[-1] <= 1

    interrupt_in_step(20, features, tmp_path / "c.pt")
    resumed = fit_model(features, recipe(), checkpoint=tmp_path / "c.pt", resume=True)
    assert resumed.pseudo_labels is not None
    for name, array in rounds.arrays().items():
        np.testing.assert_array_equal(resumed.pseudo_labels.arrays()[name], array)
    assert torch.equal(resumed.predict(features.source.inputs).logits, whole.predict(features.source.inputs).logits)


@pytest.mark.parametrize("ratio_strength", [0.0, 0.5])
@pytest.mark.parametrize("body", ["small-cnn", "wrn-10-1"])
def test_only_rows_with_a_label_are_shown_and_the_loss_is_that_of_all(body: str, ratio_strength: float) -> None:
    """With batch norm (`wrn`) all rows pass, since each row's features depend on the others."""
    statistics = InputStatistics(torch.zeros(1), torch.ones(1))
    blueprint = Blueprint(lambda: build_backbone(body, (1, 16, 16), statistics), 3, True, num_target_rows=12)
    labels = torch.tensor([0, 1, 2, 0])
    method = DistributionallyRobustSemiSupervised(unlabelled_multiple=3, ratio_strength=ratio_strength)
    inputs, target = torch.rand(4, 1, 16, 16), torch.rand(12, 1, 16, 16)
    chosen = torch.eye(3)[torch.arange(12) % 3]
    chosen[::2] = 0
    of_source = Batch(
        inputs, labels, torch.eye(3)[labels], labels < 0, target, torch.arange(12), ViewMaker(0, 0), 0.5, chosen
    )
    torch.manual_seed(0)
    network = method.build(blueprint)
    shown: list[int] = []
    network.task.register_forward_pre_hook(lambda _, given: shown.append(len(given[0])))
    *_, own = method.training_step(network, of_source)
    everything = torch.ones(12, dtype=torch.bool)
    with mock.patch.object(DistributionallyRobustSemiSupervised, "_may_be_accepted", return_value=everything):
        *_, other = method.training_step(network, of_source._replace(views=ViewMaker(0, 0)))
    for name in ("consistency_loss", "pseudo_coverage"):
        torch.testing.assert_close(own.logged[name], other.logged[name])
    # Of the target the six with a label and, where a ratio learns, in weak views every third for it: 0, 3, 6, 9.
    assert shown == ([8 if ratio_strength else 6, 4 + 6, 12, 4 + 12] if body == "small-cnn" else [28, 28])


def test_before_any_label_a_step_is_that_of_the_source(blueprint: Blueprint, batch: Batch) -> None:
    method = DistributionallyRobustSemiSupervised()
    update = step_of_task(method, method.build(blueprint), batch)
    assert update.logged["pseudo_coverage"] == 0
    assert update.loss == update.logged["task_loss"]


def test_a_step_accepts_what_still_has_its_label_by_the_corrected_prediction(
    blueprint: Blueprint, batch: Batch
) -> None:
    method = DistributionallyRobustSemiSupervised(labelling="scaled")
    network = method.build(blueprint)
    of_class_two = torch.eye(3)[torch.full((16,), 2)]

    def coverage() -> float:
        return (
            step_of_task(method, network, batch._replace(target_soft_labels=of_class_two))
            .logged["pseudo_coverage"]
            .item()
        )

    before = coverage()
    assert before < 1
    network.labels.log_prior_correction.copy_(torch.tensor([0.0, 0.0, 100.0]))
    assert coverage() == 1


def test_the_surest_of_each_class_are_accepted_by_the_corrected_prediction(
    blueprint: Blueprint, features: ShiftProblem, view_of: Any, put_buffers: Any
) -> None:
    method = DistributionallyRobustSemiSupervised(
        threshold=0.34, first_portion=0.5, last_portion=0.5, warmup_share=0.0, labelling="scaled"
    )
    network = method.build(blueprint).eval()
    network.labels.before_adaptation.copy_(torch.tensor([0.5, 1.0, 0.0, math.nan]))
    view = view_of(method, network, features, 0)
    put_buffers(network, method.fit_buffers(network, view))
    chosen = method.choose_pseudo_labels(network, view)
    assert chosen is not None
    inputs = view.target.inputs.fetch(np.arange(len(view.target), dtype=np.int64))
    with torch.no_grad():
        rows = ObservedRows(network.task(inputs)[0], network.labels.shifted_probability, inputs)
        plain = torch.softmax(network.labels.model.scaling.scaled_logits(rows).double(), dim=-1).numpy()
    wanted = np.bincount(features.source.labels) / len(features.source.labels)
    corrected = plain * wanted / plain.mean(axis=0)
    corrected /= corrected.sum(axis=1, keepdims=True)
    labels, confidence = corrected.argmax(axis=1), corrected.max(axis=1)
    assert (labels != plain.argmax(axis=1)).any()
    for label in range(3):
        surest = [row for row in np.argsort(-confidence) if labels[row] == label and confidence[row] >= 0.34]
        np.testing.assert_array_equal(chosen.rows[chosen.labels == label], sorted(surest[: round(0.5 * 40)]))


def test_where_little_accuracy_is_expected_twice_the_mean_confidence_is_sure_enough(
    blueprint: Blueprint, features: ShiftProblem, view_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a mean of about .36 no row is as sure as .99, and those above .72 are accepted."""
    method = DistributionallyRobustSemiSupervised(
        threshold=0.99, first_portion=1.0, last_portion=1.0, warmup_share=0.0, labelling="scaled"
    )
    network = method.build(blueprint).eval()
    view = view_of(method, network, features, 0)
    confidence = torch.full((len(view.target), 1), 0.34).double()
    confidence[:4] = 0.8
    scores = torch.cat([confidence, (1 - confidence) / 2, (1 - confidence) / 2], dim=1).log()
    monkeypatch.setattr(network, "label_scores", lambda *_: (scores, scores))
    chosen = method.choose_pseudo_labels(network, view)
    assert chosen is not None
    assert chosen.rows.tolist() == [0, 1, 2, 3]


def test_prior_correction_needs_held_out_rows(features: ShiftProblem, view_of: Any) -> None:
    method = DistributionallyRobustSemiSupervised()
    torch.manual_seed(0)
    statistics = InputStatistics(torch.zeros(4), torch.ones(4))
    assert features.target is not None
    num_rows = len(features.target)
    network = method.build(Blueprint(lambda: build_backbone("mlp", (4,), statistics), 3, True, num_rows)).eval()
    network.labels.before_adaptation.copy_(torch.tensor([0.5, 1.0, 0.0, math.nan]))
    for held_out in (True, False):
        view = view_of(method, network, features, 9, held_out=held_out)
        assert bool(method.fit_buffers(network, view)["labels.log_prior_correction"].any()) is held_out


@pytest.mark.parametrize(("labelling", "expected"), [("auto", 0.5), ("confidence", 0.95)])
def test_the_threshold_is_by_the_labelling_unless_given(labelling: Any, expected: float) -> None:
    assert DistributionallyRobustSemiSupervised(labelling=labelling).least_confidence == expected
    assert DistributionallyRobustSemiSupervised(labelling=labelling, threshold=0.7).least_confidence == 0.7
