import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.domains import UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.functional.class_confusion import class_confusion_loss
from shiftcal.functional.self_training import select_class_balanced
from shiftcal.methods.drst import DistributionallyRobustSelfTraining
from shiftcal.methods.networks.classifiers import Blueprint
from shiftcal.methods.shared.self_training_network import SelfTrainingNetwork
from shiftcal.target.evidence import ObservedRows
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("coarse_estimate")
ViewOf = Any
Put = Any


def rows_of(problem: ShiftProblem) -> torch.Tensor:
    assert problem.target is not None
    return problem.target.inputs.fetch(np.arange(len(problem.target), dtype=np.int64))


def seeded(method: DistributionallyRobustSelfTraining, blueprint: Blueprint) -> SelfTrainingNetwork:
    torch.manual_seed(0)
    network: SelfTrainingNetwork = method.build(blueprint).eval()
    return network


@pytest.mark.parametrize("trust", [0.6, 1.0])
def test_labels_are_the_surest_of_each_class_by_the_label_model_as_far_as_they_are_believed(
    trust: float, blueprint: Blueprint, features: ShiftProblem, view_of: ViewOf, put_buffers: Put
) -> None:
    method = DistributionallyRobustSelfTraining(warmup_share=0.3)
    network = seeded(method, blueprint)
    early = view_of(method, network, features, 2)
    assert method.fit_buffers(network, early) == {}
    assert method.choose_pseudo_labels(network, early) is None
    put_buffers(network, method.fit_buffers(network, view_of(method, network, features, 3)))
    inputs = rows_of(features)
    with torch.no_grad():
        rows = ObservedRows(network.task(inputs)[0], network.labels.shifted_probability, inputs)
        scores = network.labels.model.log_scores(rows).double()
    shifted = (network.labels.shifted_probability >= 0.5).nonzero().squeeze(-1)
    network.labels.label_trust.fill_(trust)
    chosen = method.choose_pseudo_labels(network, view_of(method, network, features, 3))
    assert chosen is not None
    expected = select_class_balanced(torch.softmax(scores[shifted], dim=-1), method.first_portion * trust)
    np.testing.assert_array_equal(chosen.rows, shifted[expected.rows].numpy())
    np.testing.assert_array_equal(chosen.labels, expected.labels.numpy())


def test_labels_go_to_rows_that_have_shifted(
    blueprint: Blueprint, features: ShiftProblem, view_of: ViewOf, put_buffers: Put
) -> None:
    """Those that are as on the source, of which a classifier is surest, would take all labels."""
    assert features.target is not None
    half = len(features.target) // 2
    rows = np.arange(half, dtype=np.int64)
    as_on_source = features.source.inputs.fetch(np.arange(len(features.target) - half, dtype=np.int64))
    inputs = torch.cat([features.target.inputs.fetch(rows) + 6, as_on_source])
    mixed = ShiftProblem(features.source, UnlabelledDomain("mixed", ArrayInputs(inputs)))
    of_any, of_shifted = (DistributionallyRobustSelfTraining(shifted_rows_only=only) for only in (False, True))
    chosen = []
    for method in (of_any, of_shifted):
        network = seeded(method, blueprint)
        put_buffers(network, method.fit_buffers(network, view_of(method, network, mixed, 3)))
        network.labels.label_trust.fill_(1.0)
        chosen.append(method.choose_pseudo_labels(network, view_of(method, network, mixed, 3)))
    of_shifted_part = [float((labels.rows < half).mean()) for labels in chosen if labels is not None]
    assert of_shifted_part[0] < 0.7
    assert of_shifted_part[1] > 0.9
    network.labels.shifted_probability.zero_()
    assert of_shifted.choose_pseudo_labels(network, view_of(of_shifted, network, mixed, 4)) is None


def test_by_confidence_it_is_the_papers_form(blueprint: Blueprint, features: ShiftProblem, view_of: ViewOf) -> None:
    method = DistributionallyRobustSelfTraining(labelling="confidence", ratio_strength=1.0)
    network = seeded(method, blueprint)
    view = view_of(method, network, features, 9)
    assert method.fit_buffers(network, view) == {}
    chosen = method.choose_pseudo_labels(network, view)
    assert chosen is not None
    probabilities = torch.softmax(view.target_outputs.logits.double(), dim=-1)
    rows, _ = select_class_balanced(probabilities, method.last_portion)
    np.testing.assert_array_equal(chosen.rows, rows.numpy())


def test_no_strong_views_where_selected_rows_are_source_to_the_ratio(image_batch: Callable[[int], Any]) -> None:
    blueprint, batch = image_batch(1)
    counted = [
        DistributionallyRobustSelfTraining(labelling="confidence", ratio_strength=1.0, strong_views=views)
        for views in (True, False)
    ]
    network = counted[0].build(blueprint)
    with_views, without = (list(method.training_step(network, batch))[-1].loss.item() for method in counted)
    assert with_views == without


@pytest.mark.parametrize("trust", [0.0, 0.6])
def test_class_confusion_counts_as_far_as_it_is_believed(trust: float, batch: Batch, blueprint: Blueprint) -> None:
    method, without = (DistributionallyRobustSelfTraining(confusion_weight=weight) for weight in (0.5, 0.0))
    network = seeded(method, blueprint)
    network.labels.confusion_trust.fill_(trust)
    assert batch.target_inputs is not None
    confusion = class_confusion_loss(network.task(batch.target_inputs)[0], temperature=2.5)
    found, plain = (list(each.training_step(network, batch))[-1].loss for each in (method, without))
    torch.testing.assert_close(found - plain, 0.5 * trust * confusion)


@pytest.mark.parametrize(("labelling", "num_source"), [("auto", 12), ("confidence", 16)])
def test_the_ratio_is_that_of_the_source_itself(
    labelling: Any, num_source: int, batch: Batch, blueprint: Blueprint
) -> None:
    """Labelled rows of the target are no part of the source for it; in the paper's form they are."""
    method = DistributionallyRobustSelfTraining(labelling=labelling, ratio_strength=0.5)
    network = seeded(method, blueprint)
    assert network.ratio is not None
    for weights in network.ratio.parameters():
        torch.nn.init.normal_(weights, generator=torch.Generator().manual_seed(0))
    update = next(iter(method.training_step(network, batch._replace(is_pseudo=torch.arange(16) >= 12))))
    assert batch.target_inputs is not None
    with torch.no_grad():
        source, target = (
            method.predict(network, x).density_ratio for x in (batch.source_inputs, batch.target_inputs)
        )
    right = source[:num_source] / (1 + source[:num_source]), 1 / (1 + target)
    expected = -(right[0].log().mean() + right[1].log().mean()) / 2
    torch.testing.assert_close(update.logged["domain_loss"], expected)


def test_a_ratio_that_does_not_act_is_not_learned_but_found_after_training(features: ShiftProblem) -> None:
    model = fit_model(features, Recipe.from_names("drst", training={"epochs": 3}))
    assert isinstance(model.network, SelfTrainingNetwork)
    assert model.network.ratio is None
    assert features.target is not None
    own, others = (model.predict(domain.inputs).density_ratio for domain in (features.source, features.target))
    told_apart = roc_auc_score([1] * len(own) + [0] * len(others), torch.cat([own, others]))
    inputs = torch.cat([domain.inputs.fetch(np.arange(len(domain))) for domain in (features.source, features.target)])
    is_source = np.repeat([1, 0], [len(own), len(others)])
    expected = LogisticRegression().fit(inputs, is_source).decision_function(inputs)
    assert told_apart == pytest.approx(roc_auc_score(is_source, expected), abs=0.01)
    assert float(torch.cat([own, others]).min()) >= 0.1
    assert float(torch.cat([own, others]).max()) <= 10


def test_the_ratio_of_pictures_is_one_in_the_features_that_predict(images: ShiftProblem) -> None:
    model = fit_model(images, Recipe.from_names("drst", training={"epochs": 2, "batch_size": 16}))
    assert images.target is not None
    outputs = model.predict(images.target.inputs)
    assert isinstance(model.network, SelfTrainingNetwork)
    labels = model.network.labels
    log_ratio = outputs.features @ labels.ratio_slope + labels.ratio_intercept
    limit = math.log(10)
    torch.testing.assert_close(outputs.density_ratio.log(), limit * torch.tanh(log_ratio / limit))
    assert outputs.density_ratio.std() > 0


def test_a_moving_average_knows_what_the_network_knows(features: ShiftProblem) -> None:
    """Buffers are put into both by the engine, so an average of them is what was fitted last."""
    how = Recipe.from_names("drst", method_options={"ema_decay": 0.9}, training={"epochs": 3})
    network = fit_model(features, how).network
    assert isinstance(network, SelfTrainingNetwork)
    assert network.labels.known_before is not None
    assert network.labels.centroids.norm(dim=1).tolist() == pytest.approx([1.0] * 3, abs=1e-5)
