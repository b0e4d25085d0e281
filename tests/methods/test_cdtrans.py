from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.views import ViewMaker
from shiftcal.functional.centre_labels import agree_both_ways, centre_similarities
from shiftcal.methods.base import Outputs
from shiftcal.methods.cdtrans import CrossDomainTransformer, find_partners
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint, Classifier
from shiftcal.methods.networks.cross_attention import cross_branch, own_branch
from shiftcal.training.fit import fit_model
from shiftcal.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("quick_estimate")


@pytest.fixture
def network(tiny_transformer: nn.Module) -> Classifier:
    torch.manual_seed(0)
    statistics = InputStatistics(torch.tensor([0.5]), torch.tensor([0.2]))
    blueprint = Blueprint(lambda: build_backbone(tiny_transformer, (1, 8, 8), statistics), 3, has_target=True)
    return CrossDomainTransformer().build(blueprint)


@pytest.fixture
def image_batch() -> Batch:
    source, target = torch.rand(2, 6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 0, 1, 1, 0, 1])
    return Batch(
        source_inputs=source,
        source_labels=labels,
        soft_labels=torch.eye(3)[labels],
        is_pseudo=torch.zeros(6, dtype=torch.bool),
        target_inputs=target,
        target_rows=torch.arange(6),
        views=ViewMaker(0, 0),
        progress=0.5,
    )


def with_labels(batch: Batch, labels: list[int | None]) -> Batch:
    chosen = torch.stack([torch.zeros(3) if label is None else torch.eye(3)[label] for label in labels])
    return batch._replace(target_soft_labels=chosen)


def test_during_the_warm_up_it_is_source_only(network: Classifier, image_batch: Batch) -> None:
    (update,) = CrossDomainTransformer().training_step(network, image_batch)
    expected = cross_entropy(network(image_batch.source_inputs)[0], image_batch.source_labels)
    torch.testing.assert_close(update.loss, expected)


def test_losses_pair_by_pair(network: Classifier, image_batch: Batch) -> None:
    """Rows 1 and 4 have no label, row 5 one that no source row of the batch has."""
    labels = [0, None, 1, 1, None, 2]
    batch = with_labels(image_batch, labels)
    assert batch.target_inputs is not None
    method = CrossDomainTransformer(cross_weight=0.6, distillation_weight=0.3)
    (update,) = method.training_step(network, batch)

    source_features, target_features = (
        network(values)[1].detach().double() for values in (batch.source_inputs, batch.target_inputs)
    )
    crossed = distilled = 0.0
    for row in (0, 2, 3):
        label = labels[row]
        assert label is not None
        candidates = (batch.source_labels == label).nonzero().flatten().tolist()
        partner = max(
            candidates, key=lambda other: torch.cosine_similarity(source_features[other], target_features[row], dim=0)
        )
        pair = (
            own_branch(network.backbone, values[None])
            for values in (batch.source_inputs[partner], batch.target_inputs[row])
        )
        cross = torch.log_softmax(network.head(cross_branch(network.backbone, *pair)), dim=-1)[0].double()
        own = torch.log_softmax(network(batch.target_inputs[row][None])[0], dim=-1)[0].double()
        crossed -= cross[label].item() / 6
        distilled -= (cross.exp() * own).sum().item() / 6
    task_loss = cross_entropy(network(batch.source_inputs)[0], batch.source_labels).item()
    assert update.logged["cross_loss"].item() == pytest.approx(crossed, rel=1e-4)
    assert update.logged["distillation_loss"].item() == pytest.approx(distilled, rel=1e-4)
    assert update.loss.item() == pytest.approx(task_loss + 0.6 * crossed + 0.3 * distilled, rel=1e-4)


def test_the_cross_branch_teaches_and_is_not_taught(network: Classifier, image_batch: Batch) -> None:
    """The gradient of distillation is that of cross-entropy with fixed soft labels of the cross branch."""
    batch = with_labels(image_batch, [0, 1, 0, 1, 0, 1])
    (update,) = CrossDomainTransformer().training_step(network, batch)
    weight = network.head.weight
    (gradient,) = torch.autograd.grad(update.logged["distillation_loss"], [weight], retain_graph=True)
    assert batch.target_inputs is not None
    source, target = (own_branch(network.backbone, values) for values in (batch.source_inputs, batch.target_inputs))
    partners, _ = find_partners(
        source.features, batch.source_labels, target.features, torch.tensor([0, 1, 0, 1, 0, 1])
    )
    with torch.no_grad():
        taught = torch.softmax(network.head(cross_branch(network.backbone, source.rows(partners), target)), dim=-1)
    expected = cross_entropy(network.head(target.features), taught)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, [weight])[0])


@pytest.mark.parametrize("labels", [[None] * 6, [2] * 6])
def test_without_pairs_only_the_source_has_a_loss(
    network: Classifier, image_batch: Batch, labels: list[int | None]
) -> None:
    (update,) = CrossDomainTransformer().training_step(network, with_labels(image_batch, labels))
    assert update.logged["cross_loss"].item() == update.logged["distillation_loss"].item() == 0
    torch.testing.assert_close(update.loss, update.logged["task_loss"])
    update.loss.backward()  # type: ignore[no-untyped-call]
    assert all(torch.isfinite(value.grad).all() for value in network.parameters() if value.grad is not None)


def test_partners_are_the_nearest_of_the_same_label() -> None:
    source, target = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 2.0]]), torch.tensor([[2.0, 0.1], [0.1, 1.0]])
    partners, paired = find_partners(source, torch.tensor([1, 0, 0]), target, torch.tensor([0, 0]))
    assert (partners.tolist(), paired.tolist()) == ([1, 2], [True, True])
    _, paired = find_partners(source, torch.tensor([1, 0, 0]), target, torch.tensor([2, 1]))
    assert paired.tolist() == [False, True]


def test_labels_are_those_by_centres_that_the_source_confirms(network: Classifier, outputs_view: Any) -> None:
    generator = torch.Generator().manual_seed(0)

    def outputs(noise: float) -> Outputs:
        features = 2 * torch.eye(3, 4)[torch.arange(30) % 3] + noise * torch.randn(30, 4, generator=generator)
        return Outputs(torch.randn(30, 3, generator=generator), torch.ones(30), features)

    source, target, labels = outputs(0.5), outputs(1.5), torch.arange(30) % 3
    method = CrossDomainTransformer(warmup_share=0.5)

    def chosen_before(epoch: int) -> tuple[list[int], list[int]] | None:
        chosen = method.choose_pseudo_labels(network, outputs_view(epoch, 4, source, target, labels))
        return None if chosen is None else (chosen.rows.tolist(), chosen.labels.tolist())

    assert chosen_before(1) is None
    given = centre_similarities(target.features, torch.softmax(target.logits, dim=-1)).argmax(dim=-1)
    confirmed = agree_both_ways(source.features, labels, target.features, given).nonzero().flatten()
    assert 0 < len(confirmed) < 30
    assert chosen_before(2) == (confirmed.tolist(), given[confirmed].tolist())


def test_it_refuses_other_backbones_by_name_of_those_that_work(images: ShiftProblem) -> None:
    with pytest.raises(InvalidInputError, match="vit_tiny_patch16_224"):
        fit_model(images, Recipe.from_names("cdtrans"))


def test_pairs_are_trained_on_after_the_warm_up(many_images: ShiftProblem, tiny_transformer: nn.Module) -> None:
    how = Recipe.from_names("cdtrans", backbone=tiny_transformer, training={"epochs": 6, "batch_size": 32})
    model = fit_model(many_images, how)
    assert ["cross_loss" in record for record in model.history] == [False, False, True, True, True, True]
    assert model.history[-1]["cross_loss"] < model.history[2]["cross_loss"]
    assert many_images.target is not None

    def predicted(values: Tensor) -> list[int]:
        labels: list[int] = values.argmax(dim=-1).tolist()
        return labels

    found = predicted(model.predict(many_images.target.inputs).logits)
    assert np.mean(np.array(found) == many_images.source.labels) > 0.9
    assert one_hot(torch.tensor(found), 2).sum(dim=0).min() > 0
