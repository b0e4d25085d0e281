"""A classifier with a density ratio that is learned along with it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from shiftcal.data.batches import Batch
from shiftcal.functional.density_ratio import bounded_domain_logit
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, DomainClassifier, DomainOutputs

# A head on the task's features, on these and its largest class probabilities, or a network of its own.
RatioNet: TypeAlias = Literal["shared", "confidence", "separate"]
_NUM_PROBABILITIES = 5


class RatioForm(NamedTuple):
    """What a ratio is made of."""

    hidden: int
    """Width of its head."""
    bound: float
    """R stays within 1/bound and bound."""
    network: RatioNet = "shared"


class RatioLoss(NamedTuple):
    """What a ratio learns in a step, and what it says before it has."""

    loss: Tensor
    log_ratio: Tensor
    """(N + M,) log R of source rows and then of target rows, without gradients."""
    logged: dict[str, Tensor]


class ClassifierWithRatio(nn.Module):
    """A classifier with a density ratio on what it makes of inputs, on a network of its own, or (no target) without.

    What tells domains apart in features is style most of all, which says little of which rows are hard. A ratio that
    sees the largest class probabilities too, in falling order and whatever their classes, takes rows on which the
    task is unsure for less like the source.
    """

    def __init__(self, blueprint: Blueprint, form: RatioForm) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        self.bound = form.bound
        self.ratio: nn.ModuleDict | None = None
        self.num_probabilities = min(_NUM_PROBABILITIES, blueprint.num_classes) if form.network == "confidence" else 0
        if blueprint.has_target:
            num_seen = self.task.backbone.feature_dim + self.num_probabilities
            self.ratio = nn.ModuleDict({"head": DomainClassifier(num_seen, form.hidden)})
            if form.network == "separate":
                self.ratio["backbone"] = blueprint.new_backbone()

    @torch.no_grad()
    def seen_by_ratio(self, inputs: Tensor, outputs: DomainOutputs) -> Tensor:
        """What the ratio sees of rows (N, ...): them, or what the task makes of them, which no gradients reach."""
        if self.ratio is not None and "backbone" in self.ratio:
            return inputs
        if self.ratio is None or not self.num_probabilities:
            return outputs.features.detach()
        probabilities = torch.softmax(outputs.logits, dim=-1).topk(self.num_probabilities).values
        return torch.cat([outputs.features, probabilities], dim=-1)

    def seen_of_both(self, batch: Batch, source: DomainOutputs, target: DomainOutputs) -> Tensor:
        """The same of the rows of a batch: of its source, and then of its target."""
        assert batch.target_inputs is not None
        if self.ratio is not None and "backbone" in self.ratio:
            return torch.cat([batch.source_inputs, batch.target_inputs])
        both = (torch.cat([own.detach(), other.detach()]) for own, other in zip(source, target, strict=True))
        return self.seen_by_ratio(batch.source_inputs, DomainOutputs(*both))

    def log_ratio(self, seen: Tensor) -> Tensor:
        """log R (N,), within its bound, of rows as the ratio sees them; 0 where there is no target.

        Both domains go in one pass: batch norm of a ratio network of its own must not see them apart.
        """
        if self.ratio is None:
            return torch.zeros(len(seen), dtype=seen.dtype, device=seen.device)
        features = self.ratio["backbone"](seen) if "backbone" in self.ratio else seen
        return bounded_domain_logit(self.ratio["head"](features), self.bound)


RatioNetworkT = TypeVar("RatioNetworkT", bound=ClassifierWithRatio)
