"""The default estimate: cluster agreement as far as clusters are trusted, the difference of confidences for the rest.

    estimate = trust cluster agreement + (1 - trust) difference of confidences

Trust is the product of three answers between 0 and 1, whose constants are those of `shiftcal.target.rule`.

- Does the shift change what the classifier says? The domain AUC of its outputs (`shiftcal.target.domain_auc`).
- Do classes form clusters in these features? Purity: what the same clustering achieves on the source, where labels
  are known, corrected for chance (0: no better than the most frequent class).
- Are the target's clusters compact? Loose ones, as of bags of words, contradict a classifier that is right.

Where nothing but probabilities is known there are no clusters; the average thresholded confidence stands in their
place. Of a classifier whose method recorded what was known before adaptation (`drst`, `drssl`), and as far as it is
not judged by trusted clusters of a network that learned from the source alone, the mean of the estimates before and
after adaptation is taken. The estimate is never above the mean confidence: nothing here can justify more confidence
without labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from shiftcal.target.clusters import common_units, fit_clusters
from shiftcal.target.diagnosis import Diagnosis
from shiftcal.target.domain_auc import domain_auc_of_outputs
from shiftcal.target.estimators.average_thresholded_confidence import AverageThresholdedConfidence
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.estimators.cluster_agreement import agrees_with_clusters, judging_features
from shiftcal.target.estimators.difference_of_confidences import DifferenceOfConfidences
from shiftcal.target.evidence import ShiftEvidence, mean_confidence
from shiftcal.target.rule import TrustRule


@dataclass(frozen=True, kw_only=True)
class Combined(TrustRule, AccuracyEstimator):
    """Cluster agreement as far as clusters are trusted, the difference of confidences for the rest; the default."""

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        return self.diagnose(evidence).accuracy

    def diagnose(self, evidence: ShiftEvidence) -> Diagnosis:
        """The same with all that it rests on."""
        held_out, target, before = evidence.held_out, evidence.target, evidence.before_adaptation
        if before is not None:
            auc = before.domain_auc
        else:
            auc = domain_auc_of_outputs(
                held_out.logits,
                target.logits,
                fewest=self.fewest_held_out,
                largest_weight=self.largest_class_weight,
            )
        found = Diagnosis(
            accuracy=0.0,
            mean_confidence=mean_confidence(target.logits),
            difference_of_confidences=DifferenceOfConfidences().estimate(evidence),
            domain_auc=auc,
        )
        features, source_features = judging_features(target), judging_features(evidence.source)
        if features is None or source_features is None:
            found = self._by_outputs(evidence, found)
        else:
            found = self._by_clusters(evidence, found, features, source_features)
        return self._with_before_adaptation(evidence, found)

    def _by_outputs(self, evidence: ShiftEvidence, found: Diagnosis) -> Diagnosis:
        above = AverageThresholdedConfidence().estimate(evidence)
        trust = self.shift_degree(found.domain_auc)
        return self._weighed(replace(found, thresholded_confidence=above, trust=trust), above, evidence.num_classes)

    def _by_clusters(
        self, evidence: ShiftEvidence, found: Diagnosis, features: Tensor, source_features: Tensor
    ) -> Diagnosis:
        target, units = evidence.target, common_units(source_features)
        agrees = agrees_with_clusters(features, target.logits, evidence.source_labels, self, units)
        purity = chance_corrected_purity(source_features, evidence.source.logits, evidence.source_labels, units)
        compactness = fit_clusters(features, target.probabilities, units).compactness(features)
        found = replace(
            found,
            cluster_agreement=float(agrees.double().mean()),
            cluster_purity=purity,
            cluster_compactness=compactness,
            trust=self.shift_degree(found.domain_auc) * self.cluster_reliability(purity, compactness),
        )
        assert found.cluster_agreement is not None
        return self._weighed(found, found.cluster_agreement, evidence.num_classes)

    def _weighed(self, found: Diagnosis, under_shift: float, num_classes: int) -> Diagnosis:
        assert found.difference_of_confidences is not None
        expected = found.trust * under_shift + (1 - found.trust) * found.difference_of_confidences
        return replace(found, accuracy=min(max(expected, 1 / num_classes), found.mean_confidence))

    def _with_before_adaptation(self, evidence: ShiftEvidence, found: Diagnosis) -> Diagnosis:
        before = evidence.before_adaptation
        if before is None:
            return found
        # Trusted clusters of a network that learned from the source alone need no correction.
        in_doubt = 1.0 if evidence.target.reference_features is None else 1 - found.trust
        if in_doubt == 0:
            return found
        expected = found.accuracy + in_doubt * (before.accuracy - found.accuracy) / 2
        return replace(found, accuracy=min(expected, found.mean_confidence), before_adaptation=before.accuracy)


def chance_corrected_purity(features: Tensor, logits: Tensor, labels: Tensor, units: Tensor) -> float:
    """How often clusters of labelled rows hold the true class, 0 for no better than the most frequent one."""
    chance = float(labels.bincount().max()) / len(labels)
    if chance == 1:
        return 0.0
    clusters = fit_clusters(features, logits.softmax(dim=-1), units)
    right = float((clusters.assigned(features) == labels).double().mean())
    return (right - chance) / (1 - chance)
