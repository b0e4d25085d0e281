"""Distributionally robust self-training: each epoch is a new shift problem, labelled by the robust classifier itself.

Wang et al., "Learning Calibrated Uncertainties for Domain Shift: A Distributionally Robust Learning Approach",
IJCAI 2023, arXiv 2010.05784, section on unsupervised domain adaptation; class-balanced selection as of `cbst`.

    loss       that of `drl`, with selected target rows and their pseudo-labels y-hat in the source
    y-hat      argmax_c p_c / exp(-k_c), where that is at least 1
    p          proportional to f_c(x) q_c(x)^trust b_c, see `shiftcal.methods.shared.robust_labelling`

and with "auto" predictions are made together with the clusters too:

    p          proportional to (f_c(x) (q_c(x)^trust b_c)^t(x))^(s^t(x)),   t = max(0, (1 - R) / (1 + R))

Clusters of the target have no say on inputs that are more like the source, and s makes the mean confidence on the
target the accuracy that is to be expected there.

Selected images are shown in strong views (`shiftcal.data.views`): of a picture that it labelled itself the network
learns something new. This too is ours. Images of other than 1 or 3 channels have weak views only.

The paper's own form, without all this, is `ratio_strength=1` with a `class_regularization` above 0. Also ours, and
off by default: soft labels, and weights for source rows by their likeness to the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from shiftcal.core.errors import InvalidInputError
from shiftcal.core.options import option
from shiftcal.core.processes import mean_over_batch
from shiftcal.data.batches import Batch, PseudoLabels
from shiftcal.functional.self_training import select_class_balanced
from shiftcal.methods.base import EpochOutlook, Evidence, Outputs, Update
from shiftcal.methods.drl import RobustNetwork
from shiftcal.methods.shared.robust_labelling import RobustLabelling, share_findings
from shiftcal.methods.shared.rounds import SelfTrainingRounds
from shiftcal.target.caution import power_for_confidence


@dataclass(frozen=True, kw_only=True)
class DistributionallyRobustSelfTraining(SelfTrainingRounds, RobustLabelling):
    """DRST: self-training on the target rows that DRL is surest of, class by class."""

    strong_views: bool = option(
        True, "change selected images at random, and strongly, when they are shown (needs ratio_strength auto)"
    )
    soft_labels: bool = option(False, "train on p itself instead of its largest entry (needs ratio_strength auto)")
    ratio_weight: float = option(
        0.0, "source rows count by R to the power of minus this (needs ratio_strength auto)", at_least=0
    )

    def __post_init__(self) -> None:
        plain = self.ratio_strength == "auto" and self.class_regularization == 0
        if (self.soft_labels or self.ratio_weight) and not plain:
            raise InvalidInputError(
                "soft_labels and ratio_weight are for ratio_strength 'auto' and class_regularization 0; got "
                f"{self.ratio_strength!r} and {self.class_regularization!r}"
            )

    def training_step(self, network: RobustNetwork, batch: Batch) -> Iterator[Update]:
        """As `drl`, with strong views of pseudo-labelled images; the twin sees none of them."""
        yield from self.twin_updates(network, batch)
        # With a fixed strength pseudo-labelled rows are source to the ratio, which would learn to tell views.
        wanted = self.strong_views and self.ratio_strength == "auto" and network.task.backbone.takes_images
        if wanted and batch.is_pseudo.any():
            # All rows are changed, so that what is random in a row does not depend on which rows are selected.
            can_be_strong = batch.source_inputs.shape[1] in (1, 3)
            changed = (batch.views.strong if can_be_strong else batch.views.weak)(batch.source_inputs)
            shown = torch.where(batch.is_pseudo[:, None, None, None], changed, batch.source_inputs)
            batch = batch._replace(source_inputs=shown)
        yield from super().training_step(network, batch)

    def predict(self, network: RobustNetwork, inputs: Tensor) -> Outputs:
        """As `drl`, together with the clusters."""
        outputs = super().predict(network, inputs)
        if not self.by_clusters(network):
            return outputs
        part = _part_of_clusters(outputs.density_ratio).unsqueeze(-1)
        scores = self.label_scores(network, inputs, outputs, part)
        return outputs._replace(logits=network.sharpness**part * scores)

    def find_strength(self, network: RobustNetwork, evidence: Evidence) -> dict[str, float]:
        """As `drl`, and how sharp predictions together with the clusters may be."""
        findings = super().find_strength(network, evidence)
        if findings and self.by_clusters(network):
            network.sharpness.fill_(self._sharpness(network, evidence, findings["estimated_accuracy"]))
        return findings

    def _sharpness(self, network: RobustNetwork, evidence: Evidence, accuracy: float) -> float:
        assert evidence.target is not None
        network.sharpness.fill_(1)

        def observe(inputs: Tensor) -> tuple[Tensor, Tensor]:
            outputs = self.predict(network, inputs)
            return outputs.logits, _part_of_clusters(outputs.density_ratio).unsqueeze(-1)

        scores, part = (values.double() for values in evidence.observe(observe, evidence.target.inputs))
        return power_for_confidence(scores, accuracy, part)

    def task_loss(self, logits: Tensor, batch: Batch, domain_logit: Tensor) -> Tensor:
        """As `drl`; with soft labels, and with weights of mean one that favour source rows like the target."""
        if not (self.soft_labels or self.ratio_weight):
            return super().task_loss(logits, batch, domain_logit)
        weights = torch.where(batch.is_pseudo, 1.0, torch.exp(-self.ratio_weight * domain_logit))
        losses = cross_entropy(logits, batch.soft_labels, reduction="none")
        return (losses * weights / mean_over_batch(weights)).mean()

    def choose_pseudo_labels(self, network: RobustNetwork, outlook: EpochOutlook) -> PseudoLabels | None:
        """None during the warm-up, then a growing portion of each class."""
        portion = self.portion(outlook)
        if portion is None:
            return None
        probabilities = torch.softmax(self.prepare_labels(network, outlook), dim=-1)
        share_findings(network, outlook)
        rows, labels = select_class_balanced(probabilities, portion)
        soft_labels = probabilities[rows].float().numpy() if self.soft_labels else None
        return PseudoLabels(rows.numpy(), labels.numpy(), soft_labels)


def _part_of_clusters(density_ratio: Tensor) -> Tensor:
    """t of (N,) ratios R: 0 for inputs that are more like the source, towards 1 as R falls."""
    return ((1 - density_ratio) / (1 + density_ratio)).clamp_min(0)
