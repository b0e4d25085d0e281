"""Mean Teacher: agree with a moving average of oneself, under noise, on all inputs.

Tarvainen, Valpola, "Mean teachers are better role models: Weight-averaged consistency targets improve semi-supervised
deep learning results", NeurIPS 2017:

    loss    = mean_source cross_entropy( softmax(z(x)), y )
            + w ramp(t) mean_{source and target} mean_c ( softmax(z(x'))_c - softmax(z_teacher(x''))_c )^2
    teacher <- decay teacher + (1 - decay) network,  after every step

x' and x'' are weak views (of features: the features themselves) with Gaussian noise of 0.15 deviations of the inputs.
The ramp is exp(-5 (1 - t / T)^2) up to T, about a quarter of the training as in the paper. w = 100 is what the
authors' weight of 100 times the share of labelled rows amounts to: their cross-entropy is divided by all rows, ours
by the labelled ones. As published the teacher has noise, dropout and batch statistics of its own, and predicts.

Ours: the decay stays at 0.99, the paper's value for the ramp (its 0.999 for the rest suits 150,000 steps). In the
first steps the teacher is the plain mean of the networks so far, nearly as in the authors' code.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from shiftcal.core.options import option
from shiftcal.data.batches import Batch
from shiftcal.functional.ramps import gaussian_ramp
from shiftcal.methods.base import TASK, Method, OptimizerPlan, Outputs, Update
from shiftcal.methods.networks.classifiers import Blueprint, Classifier

RAMP_LENGTH = 0.27


class TaughtNetwork(nn.Module):
    """A classifier, the moving average that teaches it, and a step counter."""

    step: Tensor

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        self.teacher = copy.deepcopy(self.task).requires_grad_(False)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def move_teacher(self, decay: float) -> None:
        """Take the network as it stands into the average; batch-norm statistics are the teacher's own."""
        self.step += 1
        share = max(1 / int(self.step), 1 - decay)
        for taught, own in zip(self.teacher.parameters(), self.task.parameters(), strict=True):
            taught.lerp_(own, share)


@dataclass(frozen=True, kw_only=True)
class MeanTeacher(Method[TaughtNetwork]):
    """Consistency with a weight-averaged teacher."""

    needs_target: ClassVar[bool] = True

    unlabelled_weight: float = option(100.0, "w at the end, of agreeing with the teacher", at_least=0)
    unlabelled_multiple: int = option(1, "target rows for each source row of a batch", at_least=1, at_most=100)
    teacher_decay: float = option(0.99, "share that the teacher keeps of itself at a step", at_least=0, below=1)
    noise: float = option(0.15, "of the inputs, in their standard deviations", at_least=0)

    @property
    def target_multiple(self) -> int:
        """As the option says."""
        return self.unlabelled_multiple

    def build(self, blueprint: Blueprint) -> TaughtNetwork:
        """A classifier and its teacher."""
        return TaughtNetwork(blueprint)

    def optimizers(self, network: TaughtNetwork) -> dict[str, OptimizerPlan]:
        """The classifier's alone: the teacher follows."""
        return {TASK: self.optimizer_plan(network.task.parameters())}

    def training_step(self, network: TaughtNetwork, batch: Batch) -> Iterator[Update]:
        """One step of the network, then one of the teacher."""
        logits, _ = network.task(self._noisy_views(network.task, batch))
        with torch.no_grad():
            teacher_logits, _ = network.teacher(self._noisy_views(network.task, batch))
        task_loss = cross_entropy(logits[: len(batch.source_labels)], batch.source_labels)
        agreement_loss = mse_loss(logits.softmax(dim=-1), teacher_logits.softmax(dim=-1))
        weight = self.unlabelled_weight * gaussian_ramp(batch.progress, RAMP_LENGTH)
        yield Update(
            TASK, task_loss + weight * agreement_loss, {"task_loss": task_loss, "consistency_loss": agreement_loss}
        )
        network.move_teacher(self.teacher_decay)

    def predict(self, network: TaughtNetwork, inputs: Tensor) -> Outputs:
        """The teacher's logits, with ratio 1."""
        return Outputs.at_ratio_one(*network.teacher(inputs))

    def _noisy_views(self, task: Classifier, batch: Batch) -> Tensor:
        """Weak views of source and target, end to end for one pass, with noise."""
        assert batch.target_inputs is not None
        views = torch.cat([batch.views.weak(batch.source_inputs), batch.views.weak(batch.target_inputs)])
        return views + self.noise * task.backbone.deviation * torch.randn_like(views)
