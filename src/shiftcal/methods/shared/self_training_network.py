"""What `drst` and `drssl` train: a classifier with a ratio, a label model, and perhaps a source reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from shiftcal.core.options import option
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import Inputs
from shiftcal.methods.base import TrainingView
from shiftcal.methods.networks.classifiers import Blueprint, Classifier
from shiftcal.methods.networks.density_ratio import ClassifierWithRatio, RatioForm
from shiftcal.methods.shared.label_model import LabelBuffers, fit_label_model
from shiftcal.methods.shared.rounds import GrowingRounds
from shiftcal.methods.shared.source_reference import new_source_reference
from shiftcal.target.evidence import BeforeAdaptation, ObservedRows, ShiftEvidence
from shiftcal.target.sampling import sampled_rows

ClusterLabels = bool | Literal["auto"]
RobustForm = Callable[[Tensor, Tensor], Tensor]
"""From logits (N, C) and log R (N,) to the logits of the predictive form."""


class SelfTrainingNetwork(ClassifierWithRatio):
    """A classifier with a ratio that labels the target itself."""

    def __init__(self, blueprint: Blueprint, form: RatioForm, *, source_reference: bool) -> None:
        super().__init__(blueprint, form)
        backbone = self.task.backbone
        structure_dim = backbone.feature_dim if backbone.takes_images else backbone.mean.numel()
        self.labels = LabelBuffers(structure_dim, blueprint.num_classes)
        self.reference: Classifier | None = None
        if source_reference and backbone.takes_images:
            self.reference = new_source_reference(blueprint)

    def structure(self, inputs: Tensor, features: Tensor) -> Tensor:
        """What clusters are looked for in, as of `Outputs.structure`."""
        return features if self.task.backbone.takes_images else inputs

    def observed(self, inputs: Tensor, logits: Tensor, features: Tensor, robust: RobustForm) -> ObservedRows:
        """Rows of a batch in the robust form, given what the task network says of them or of views of them."""
        log_ratio = self.log_ratio(inputs, features)
        return ObservedRows(robust(logits, log_ratio), torch.sigmoid(-log_ratio), self.structure(inputs, features))

    def judged(self, inputs: Tensor, logits: Tensor) -> tuple[Tensor, ...]:
        """Logits, and features of the reference where there is one: what the accuracy is judged by."""
        return (logits,) if self.reference is None else (logits, self.reference(inputs)[1])

    def uses_clusters(self, cluster_labels: ClusterLabels) -> bool:
        """Whether clusters take part in labelling; with "auto" unless the network learns what is clustered."""
        return not self.task.backbone.takes_images if cluster_labels == "auto" else cluster_labels

    def fit_labels(
        self,
        view: TrainingView,
        robust: RobustForm,
        *,
        cluster_labels: ClusterLabels,
        correct_prior: bool,
        for_threshold: bool,
    ) -> dict[str, Tensor]:
        """Values of the buffers of this network for a label model of the target as it stands."""

        def observe_batch(inputs: Tensor) -> tuple[Tensor, ...]:
            logits, features = self.task(inputs)
            rows = self.observed(inputs, logits, features, robust)
            assert rows.features is not None
            logits, *reference = self.judged(inputs, rows.logits)
            return logits, rows.target_probability, rows.features, *reference

        def observe(inputs: Inputs, rows: np.ndarray) -> ObservedRows:
            return ObservedRows(*(values.double() for values in view.observe(observe_batch, inputs.subset(rows))))

        def labelled(domain: LabelledDomain) -> tuple[ObservedRows, Tensor]:
            rows = sampled_rows(len(domain))
            return observe(domain.inputs, rows), torch.from_numpy(domain.labels[rows])

        source, target = labelled(view.source), observe(view.target.inputs, sampled_rows(len(view.target)))
        held_out = source if view.held_out is None else labelled(view.held_out)
        evidence = ShiftEvidence(*source, *held_out, target, self.labels.known_before)
        model, found = fit_label_model(
            evidence,
            by_clusters=self.uses_clusters(cluster_labels),
            correct_prior=correct_prior and view.held_out is not None,
            for_threshold=for_threshold and view.held_out is not None,
        )
        values: Mapping[str, Tensor] = self.labels.values(model, found)
        return {f"labels.{name}": value for name, value in values.items()}

    def label_scores(self, view: TrainingView, robust: RobustForm) -> tuple[Tensor, Tensor]:
        """log p and the log-probabilities of f b (N, C) of all target rows, in double precision."""

        def score(inputs: Tensor) -> tuple[Tensor, Tensor]:
            logits, features = self.task(inputs)
            rows = self.observed(inputs, logits, features, robust)
            model = self.labels.model
            without_clusters = torch.log_softmax(
                model.scaling.scaled_logits(rows) + model.log_prior_correction, dim=-1
            )
            return model.log_scores(rows), without_clusters

        scores, without_clusters = view.observe(score, view.target.inputs)
        return scores.double(), without_clusters.double()


@dataclass(frozen=True, kw_only=True)
class TargetAwareLabelling(GrowingRounds):
    """Options of methods that label the target by a network of this kind, in rounds that grow."""

    judges_apart: ClassVar[bool] = True
    labels_by_threshold: ClassVar[bool] = False
    """Whether labels are accepted by a threshold on confidence, see `fit_label_model`."""

    labelling: Literal["target-aware", "confidence"] = option(
        "target-aware", "by scaled prediction, clusters and prior correction; or by the prediction, as in the paper"
    )
    cluster_labels: ClusterLabels = option(
        "auto", "let the target's clusters take part in labelling; auto: unless the network learns what is clustered"
    )
    prior_correction: bool = option(
        True, "label as if classes were as frequent as on the source, as far as there is a shift"
    )
    source_reference: bool = option(
        True, "train a second network on the source alone, to judge the accuracy on images"
    )

    @property
    def is_target_aware(self) -> bool:
        """Whether labels are not by the prediction alone."""
        return self.labelling == "target-aware"

    @property
    def has_reference(self) -> bool:
        """Whether networks for images get a source reference."""
        return self.source_reference and self.is_target_aware

    def fit_buffers(self, network: SelfTrainingNetwork, view: TrainingView) -> Mapping[str, Tensor]:
        """The label model as the network stands; none during the warm-up."""
        if self.portion(view) is None or not self.is_target_aware:
            return {}
        return network.fit_labels(
            view,
            self.robust_logits,
            cluster_labels=self.cluster_labels,
            correct_prior=self.prior_correction,
            for_threshold=self.labels_by_threshold,
        )

    if TYPE_CHECKING:  # of `DistributionallyRobust`, which every method of these options is

        def robust_logits(self, logits: Tensor, log_ratio: Tensor) -> Tensor:
            """Theorem 1 in its inference form."""

    def before_adaptation(self, network: SelfTrainingNetwork) -> BeforeAdaptation | None:
        """As it was found before the first pseudo-labels."""
        return network.labels.known_before
