"""A classifier with a density ratio that is learned along with it."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from shiftcal.functional.density_ratio import bounded_domain_logit
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, DomainClassifier


class RatioForm(NamedTuple):
    """What a ratio is made of."""

    hidden: int
    """Width of its head."""
    bound: float
    """R stays within 1/bound and bound."""
    separate: bool = False
    """Whether it has a network of its own instead of a head on the task's features."""


class RatioRows(NamedTuple):
    """Rows of a domain, of which a ratio sees one or the other."""

    inputs: Tensor
    task_features: Tensor
    """(N, F)."""


class ClassifierWithRatio(nn.Module):
    """A classifier with a density ratio on its features, on a network of its own, or (without a target) with none."""

    def __init__(self, blueprint: Blueprint, form: RatioForm) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        self.bound = form.bound
        self.ratio: nn.ModuleDict | None = None
        if blueprint.has_target:
            self.ratio = nn.ModuleDict({"head": DomainClassifier(self.task.backbone.feature_dim, form.hidden)})
            if form.separate:
                self.ratio["backbone"] = blueprint.new_backbone()

    def log_ratio(self, inputs: Tensor, task_features: Tensor) -> Tensor:
        """log R (N,), within its bound, 0 where there is no target; gradients never reach the task network."""
        if self.ratio is None:
            return torch.zeros(len(task_features), dtype=task_features.dtype, device=task_features.device)
        features = self.ratio["backbone"](inputs) if "backbone" in self.ratio else task_features.detach()
        return bounded_domain_logit(self.ratio["head"](features), self.bound)

    def log_ratios(self, source: RatioRows, target: RatioRows) -> Tensor:
        """log R (N + M,) in one pass: batch norm of a ratio network of its own must not see the domains apart."""
        features = torch.cat([source.task_features, target.task_features])
        takes_inputs = self.ratio is not None and "backbone" in self.ratio
        inputs = torch.cat([source.inputs, target.inputs]) if takes_inputs else features
        return self.log_ratio(inputs, features)


RatioNetworkT = TypeVar("RatioNetworkT", bound=ClassifierWithRatio)
