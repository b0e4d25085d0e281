"""A classifier with a density ratio that is learned along with it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from shiftcal.data.batches import Batch
from shiftcal.functional.density_ratio import bounded_domain_logit
from shiftcal.methods.networks.classifiers import Blueprint, Classifier, DomainClassifier, DomainOutputs
from shiftcal.methods.networks.label_estimate import LabelEstimate

# A head on the task's features, on these and how sure task and clusters are, or a network of its own.
RatioNet: TypeAlias = Literal["shared", "confidence", "separate"]
PlainRatioNet: TypeAlias = Literal["shared", "separate"]
_NUM_PROBABILITIES = 5
_NUM_SHARES = 2


class RatioForm(NamedTuple):
    """What a ratio is made of."""

    hidden: int
    """Width of its head."""
    bound: float
    """R stays within 1/bound and bound."""
    network: RatioNet = "shared"
    is_learned: bool = True
    """Whether it is trained beside the task."""


class SeenRows(NamedTuple):
    """Rows as a ratio sees them, which no gradients reach."""

    values: Tensor
    """(N, ...)"""
    shares: Tensor | None = None
    """(N, C) of the target's clusters in each, where the ratio sees these."""


class RatioLoss(NamedTuple):
    """What a ratio learns in a step, and what it says before it has."""

    loss: Tensor
    log_ratio: Tensor
    """(N + M,) log R of source rows and then of target rows, without gradients."""
    logged: dict[str, Tensor]


class ClassifierWithRatio(nn.Module):
    """A classifier with a density ratio on what it makes of inputs, on a network of its own, or without.

    What tells domains apart in features is style most of all, which says little of which rows are hard. A ratio that
    sees the largest class probabilities too, in falling order and whatever their classes, takes rows on which the
    task is unsure for less like the source. It also sees the share of the predicted class among the target's clusters
    in a row, and the largest share.
    """

    def __init__(self, blueprint: Blueprint, form: RatioForm) -> None:
        super().__init__()
        self.task = Classifier(blueprint)
        self.bound = form.bound
        self.ratio: nn.ModuleDict | None = None
        self.label_estimate: LabelEstimate | None = None
        self.num_probabilities = min(_NUM_PROBABILITIES, blueprint.num_classes)
        if blueprint.has_target and form.is_learned:
            num_seen = self.task.backbone.feature_dim
            if form.network == "confidence":
                self.label_estimate = LabelEstimate(self.structure_dim, blueprint.num_classes)
                num_seen += self.num_probabilities + _NUM_SHARES
            self.ratio = nn.ModuleDict({"head": DomainClassifier(num_seen, form.hidden)})
            if form.network == "separate":
                self.ratio["backbone"] = blueprint.new_backbone()

    @property
    def structure_dim(self) -> int:
        """Columns of what `structure` gives."""
        backbone = self.task.backbone
        return backbone.feature_dim if backbone.takes_images else backbone.mean.numel()

    def structure(self, inputs: Tensor, features: Tensor) -> Tensor:
        """What clusters are looked for in, as of `Outputs.structure`."""
        return features if self.task.backbone.takes_images else inputs

    @torch.no_grad()
    def seen_by_ratio(self, inputs: Tensor, outputs: DomainOutputs) -> SeenRows:
        """What the ratio sees of rows (N, ...): them, or what the task makes of them."""
        if self.ratio is not None and "backbone" in self.ratio:
            return SeenRows(inputs)
        if self.label_estimate is None:
            return SeenRows(outputs.features.detach())
        largest, classes = torch.softmax(outputs.logits, dim=-1).topk(self.num_probabilities)
        shares = self.label_estimate.shares(self.structure(inputs, outputs.features))
        of_clusters = shares.gather(-1, classes[:, :1]), shares.amax(dim=-1, keepdim=True)
        return SeenRows(torch.cat([outputs.features, largest, *of_clusters], dim=-1), shares)

    def seen_of_both(self, batch: Batch, source: DomainOutputs, target: DomainOutputs) -> SeenRows:
        """The same of the rows of a batch: of its source, and then of its target."""
        assert batch.target_inputs is not None
        # Apart, so that pictures, of which the ratio sees features alone, are not copied.
        own = self.seen_by_ratio(batch.source_inputs, source)
        others = self.seen_by_ratio(batch.target_inputs, target)
        shares = None if own.shares is None or others.shares is None else torch.cat([own.shares, others.shares])
        return SeenRows(torch.cat([own.values, others.values]), shares)

    def log_ratio(self, seen: SeenRows) -> Tensor:
        """log R (N,), within its bound, of rows as the ratio sees them; 0 where none is learned.

        Both domains go in one pass: batch norm of a ratio network of its own must not see them apart.
        """
        values = seen.values
        if self.ratio is None:
            return torch.zeros(len(values), dtype=values.dtype, device=values.device)
        features = self.ratio["backbone"](values) if "backbone" in self.ratio else values
        return bounded_domain_logit(self.ratio["head"](features), self.bound)


RatioNetworkT = TypeVar("RatioNetworkT", bound=ClassifierWithRatio)
