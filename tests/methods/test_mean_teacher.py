import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from shiftcal.data.batches import Batch
from shiftcal.methods.base import TASK
from shiftcal.methods.mean_teacher import MeanTeacher
from shiftcal.methods.networks.backbones import InputStatistics, build_backbone
from shiftcal.methods.networks.classifiers import Blueprint


@pytest.mark.parametrize(("progress", "ramp"), [(0.0, np.exp(-5)), (0.135, np.exp(-1.25)), (0.5, 1.0)])
def test_the_loss_by_hand(progress: float, ramp: float, blueprint: Blueprint, batch: Batch) -> None:
    method = MeanTeacher(noise=0.0, unlabelled_weight=10.0)
    network = method.build(blueprint)
    with torch.no_grad():
        network.task.head.weight.mul_(3)
    update = next(method.training_step(network, batch._replace(progress=progress)))

    assert batch.target_inputs is not None
    both = torch.cat([batch.source_inputs, batch.target_inputs])
    with torch.no_grad():
        own, taught = (model(both)[0].double().numpy() for model in (network.task, network.teacher))
    task_loss = -log_softmax(own[:16], axis=1)[np.arange(16), batch.source_labels.numpy()].mean()
    agreement = ((softmax(own, axis=1) - softmax(taught, axis=1)) ** 2).mean()
    assert agreement > 1e-3
    assert update.logged["consistency_loss"].item() == pytest.approx(agreement, rel=1e-4)
    assert update.loss.item() == pytest.approx(task_loss + 10 * ramp * agreement, rel=1e-4)


def test_the_teacher_is_the_mean_so_far_then_a_moving_average(blueprint: Blueprint, batch: Batch) -> None:
    method = MeanTeacher(teacher_decay=0.6)
    network = method.build(blueprint)
    weights, bias = [1.0, 2.0, 6.0, 8.0], network.task.head.bias
    seen = []
    for weight in weights:
        with torch.no_grad():
            bias.fill_(weight)
        list(method.training_step(network, batch))
        seen.append(network.teacher.head.bias[0].item())
    # Shares 1, 1/2, then 1 - 0.6.
    assert seen == pytest.approx([1.0, 1.5, 3.3, 5.18])


def test_the_teacher_is_not_trained_and_predicts(blueprint: Blueprint, batch: Batch) -> None:
    method = MeanTeacher()
    network = method.build(blueprint)
    update = next(method.training_step(network, batch))
    gradients = torch.autograd.grad(update.loss, list(network.task.parameters()), allow_unused=True)
    assert all(gradient is not None for gradient in gradients)
    assert not any(parameter.requires_grad for parameter in network.teacher.parameters())
    trained = {id(parameter) for parameter in method.optimizers(network)[TASK].parameters}
    assert trained == {id(parameter) for parameter in network.task.parameters()}
    with torch.no_grad():
        network.task.head.weight.zero_()
    outputs = method.predict(network, batch.source_inputs)
    assert torch.equal(outputs.logits, network.teacher(batch.source_inputs)[0])


def test_noise_is_in_deviations_of_the_inputs_and_its_own_for_each(batch: Batch) -> None:
    statistics = InputStatistics(torch.zeros(4), torch.tensor([1.0, 10.0, 100.0, 1000.0]))
    blueprint = Blueprint(lambda: build_backbone("linear", (4,), statistics), 3, has_target=True)
    method = MeanTeacher(noise=0.5)
    network = method.build(blueprint)
    wide = batch._replace(source_inputs=torch.zeros(2000, 4), target_inputs=torch.zeros(2000, 4))
    torch.manual_seed(0)
    first, second = (method._noisy_views(network.task, wide) for _ in range(2))
    torch.testing.assert_close(first.std(dim=0) / statistics.deviation, torch.full((4,), 0.5), rtol=0.05, atol=0)
    assert torch.corrcoef(torch.stack([first[:, 0], second[:, 0]]))[0, 1].abs() < 0.1


def test_both_see_source_and_target_in_one_pass_each(batch: Batch) -> None:
    statistics = InputStatistics(torch.zeros(4), torch.ones(4))
    blueprint = Blueprint(lambda: build_backbone(nn.BatchNorm1d(4), (4,), statistics), 3, has_target=True)
    method = MeanTeacher(noise=0.0)
    network = method.build(blueprint)
    list(method.training_step(network, batch))
    assert batch.target_inputs is not None
    mean = torch.cat([batch.source_inputs, batch.target_inputs]).mean(dim=0)
    for model in (network.task, network.teacher):
        body = model.backbone.body
        assert isinstance(body, nn.BatchNorm1d)
        assert body.num_batches_tracked == 1
        torch.testing.assert_close(body.running_mean, 0.1 * mean)
