"""The default estimate: by the target's structure where classes form clusters, by held-out rows where they do not.

    estimate     = g ( s - u c max(held-out accuracy - s, 0) ) + (1 - g) ( h - v x h (1 - h) )
                                                              g = sigmoid( slope (purity - midpoint) )
    s, by structure: (1 - d) median of cluster agreement, second-model agreement, COT, ATC and calibrated confidence
                   + d median of the first three,             d = min(1, (2 AUC - 1) / max(shifted share, 0.2))
    h, by held-out rows: (1 - l) ( (1 - n) importance-weighted calibration + n second-model agreement )
                   + l label probability,                     n = min(1, slope novelty), l a constant

(COT: confidence optimal transport, ATC: average thresholded confidence.)

- Purity: how well clusters hold the classes on the source, where labels are known, corrected for chance (0: no better
  than the most frequent class). Embeddings have it, most tables have not.
- AUC: how well what the classifier says of the target can be told from what it says of held-out rows
  (`shiftcal.target.domain_auc`). The more a shift changes that, the less confidence means what it meant. Where only
  a part has shifted, the other rows dilute the AUC, and d is that of the part. Without features there is no
  structure, and by_held_out goes over to COT by 2 AUC - 1.
- Novelty: the share of target rows outside of anything that the source has (`shiftcal.target.novelty`). Inside,
  held-out rows that are weighted to be like the target say what a confidence means there; outside they can't.
- Label probability: what labels of source rows, learned by boosted trees from columns as they are, say of the
  predictions. It is asked where clusters decide less than nine tenths and inputs have at most 120 columns, which is
  where it was measured; else l is 0.
- What all of them miss. Where a shift changes more than half of what the classifier says, accuracy falls further than
  clusters and second models see, on each kind of data: c = max(0, 2 d - 1), u a constant. Weights make held-out
  rows less like the target than they should: on tables they take off half of what confidence expects too much, and
  on text and embeddings a sixth. So as much is taken off as rows have shifted: x = the shifted share above 0.2, as a
  share of the rest, v a constant; learned labels leave little, and with them x = c. On i.i.d. targets c and x are 0,
  but for chance. Without features nothing of this was measured, and nothing is taken off.

- Between classes: the share of target rows in clusters that have moved from one class of the source towards another
  (`shiftcal.target.between_classes`). Dispersion: how much less the target's rows gather around their clusters than
  the source's around theirs (`shiftcal.target.dispersion`). Neither has a part in the estimate, but where one of them
  is high, no interval is bounded below.

Rows of new classes (`shiftcal.target.new_classes`) can only be wrong: they bound the estimate above, and the interval
reaches further down by their share.

Where other class frequencies explain all of the shift (`shiftcal.target.class_priors`), the estimate is the mean
probability of the predicted class after they were corrected for.

The estimate grows with each of the estimates that it is made from. Its six constants and the five of the interval are
fitted to tasks with known answers, and judged with whole data sets left out (benchmarks/accuracy_estimates). The
interval holds the truth on 90 % of left-out tasks. Too much is expected more often than too little, and for other
reasons, so that it reaches, with e the standard error of the accuracy a and constants of `TrustRule`,

    below:  b_1 e + b_2 |a - held-out accuracy| + b_3 (1 - g) shifted share sqrt( a (1 - a) )
    above:  a_1 e + a_2 deviation of the witnesses,           b_3 = 0 with label probability

A classifier that was trained on pseudo-labels of the target (`drst`, `drssl`) is sure of them whatever they are
worth, and differs from a second model for good reasons: then by_structure is the cluster agreement alone, by_held_out
the calibrated confidence, which also stands for the agreement as far as rows do not gather around clusters
(`shiftcal.target.dispersion.gathering`). As far as it is not judged by clusters of a network that learned from the
source alone, the mean of that and of the estimate before adaptation is taken.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

from torch import Tensor

from shiftcal.target.between_classes import class_centroids, share_between_classes
from shiftcal.target.class_priors import find_prior_shift
from shiftcal.target.clusters import Clusters, UnitRows
from shiftcal.target.diagnosis import Diagnosis, NewClasses, Witnesses
from shiftcal.target.dispersion import dispersion
from shiftcal.target.domain_auc import domain_auc_of_outputs
from shiftcal.target.estimators.average_thresholded_confidence import AverageThresholdedConfidence
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.estimators.calibrated_confidence import CalibratedConfidence
from shiftcal.target.estimators.cluster_agreement import agreement_estimate
from shiftcal.target.estimators.confidence_optimal_transport import ConfidenceOptimalTransport
from shiftcal.target.estimators.importance_weighted_calibration import ImportanceWeightedCalibration
from shiftcal.target.estimators.label_probability import LabelProbability
from shiftcal.target.estimators.second_model_agreement import SecondModelAgreement
from shiftcal.target.evidence import BeforeAdaptation, ShiftEvidence, mean_confidence
from shiftcal.target.new_classes import find_new_classes
from shiftcal.target.rule import TrustRule

# Reliability of clusters from which on held-out rows have too little weight for trees to be learned from them.
_CLUSTERS_DECIDE = 0.9
# Of one row: an accuracy of 0 or 1 on some rows is not exact.
_LEAST_VARIANCE = 0.01


@dataclass(frozen=True, kw_only=True)
class Combined(TrustRule, AccuracyEstimator):
    """By the target's structure where classes form clusters, by held-out rows where not; the default."""

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        return self.diagnose(evidence).accuracy

    def diagnose(self, evidence: ShiftEvidence) -> Diagnosis:
        """The same with all that it rests on, and what speaks against it."""
        found = self._with_doubts(evidence, self.of_known_classes(evidence))
        # A target that looks like known classes in other proportions has no others.
        new = None if found.prior_explains else self.new_classes(evidence)
        return found if new is None else found.with_new_classes(new)

    def new_classes(self, evidence: ShiftEvidence) -> NewClasses | None:
        """Rows of the target that are of none of the source's classes; None where none are seen."""
        if not evidence.has_features or not self.forms_clusters(source_purity(evidence)):
            return None
        structure, labels = evidence.structure, evidence.source_labels
        classes = class_centroids(structure.source_rows, labels)
        target = structure.target_rows
        return find_new_classes(structure.source_rows, labels, classes, target, evidence.target_clusters, self)

    def of_known_classes(self, evidence: ShiftEvidence) -> Diagnosis:
        """The estimate for a target that is taken to have the source's classes and no others, in their clusters."""
        before = evidence.before_adaptation
        if before is not None:
            return self._adapted(evidence, before)
        prior = find_prior_shift(evidence, self)
        found = replace(self.concluded(evidence, self.witnesses(evidence)), prior_shift=prior)
        return found.explained_by(prior) if prior.explains else found

    def witnesses(self, evidence: ShiftEvidence) -> Witnesses:
        """What the estimate is made from."""
        first = self._first_witnesses(evidence)
        return replace(
            first,
            novelty=evidence.structure.novelty if evidence.has_features else 0.0,
            domain_auc=domain_auc_of_outputs(
                evidence.held_out.logits,
                evidence.target.logits,
                fewest=self.fewest_held_out,
                largest_weight=self.largest_class_weight,
            ),
            importance_weighted_calibration=ImportanceWeightedCalibration().estimate(evidence),
            second_model_agreement=SecondModelAgreement().estimate(evidence),
            label_probability=self._label_probability(evidence, first.cluster_purity),
            thresholded_confidence=AverageThresholdedConfidence().estimate(evidence),
            optimal_transport=ConfidenceOptimalTransport(most_rows=500).estimate(evidence),
        )

    def _label_probability(self, evidence: ShiftEvidence, purity: float | None) -> float | None:
        is_asked = purity is not None and self.cluster_reliability(purity) <= _CLUSTERS_DECIDE
        if not is_asked or not LabelProbability.sees_columns(evidence):
            return None
        return LabelProbability().of_enough(evidence)

    def _first_witnesses(self, evidence: ShiftEvidence) -> Witnesses:
        """Those that an adapted classifier is judged by too."""
        return Witnesses(
            held_out_accuracy=evidence.held_out_accuracy,
            calibrated_confidence=CalibratedConfidence().estimate(evidence),
            cluster_agreement=agreement_estimate(evidence, self) if evidence.has_features else None,
            cluster_purity=source_purity(evidence) if evidence.has_features else None,
        )

    def _with_doubts(self, evidence: ShiftEvidence, found: Diagnosis) -> Diagnosis:
        """With what has no part in the estimate of an adapted classifier, and none in labels that follow from it."""
        if found.witnesses is None or found.witnesses.cluster_purity is None:
            return found
        structure, purity = evidence.structure, found.witnesses.cluster_purity
        seen = replace(found.witnesses, novelty=structure.novelty)
        if self.forms_clusters(purity):
            between = newly_between_classes(evidence, self.least_margin)
            dispersed = dispersion(
                *(structure.source_rows, evidence.source_clusters),
                *(structure.target_rows, evidence.target_clusters),
            )
            seen = replace(seen, between_classes=between, dispersion=dispersed)
        return self._noted(found, seen)

    def _noted(self, found: Diagnosis, seen: Witnesses) -> Diagnosis:
        return replace(
            found,
            witnesses=seen,
            is_between_classes=seen.between_classes >= self.mostly_between,
            is_dispersed=seen.dispersion >= self.most_dispersion,
        )

    def concluded(self, evidence: ShiftEvidence, seen: Witnesses) -> Diagnosis:
        """The estimate that follows from these witnesses."""
        outside = self.outside_degree(seen.novelty)
        assert seen.importance_weighted_calibration is not None
        assert seen.second_model_agreement is not None
        by_held_out = (1 - outside) * seen.importance_weighted_calibration + outside * seen.second_model_agreement
        if seen.label_probability is not None:
            by_held_out += self.label_share * (seen.label_probability - by_held_out)
        by_structure = statistics.median(seen.estimates())
        auc = 0.5 if seen.domain_auc is None else seen.domain_auc
        if seen.cluster_agreement is None:
            assert seen.optimal_transport is not None
            by_held_out += (2 * auc - 1) * (seen.optimal_transport - by_held_out)
        share = evidence.structure.shifted.share
        of_shifted = self.shifted_degree(auc, share)
        by_structure += of_shifted * (statistics.median(seen.beyond_confidence()) - by_structure)
        if seen.cluster_agreement is not None:
            changed = self.mostly_changed(of_shifted)
            by_structure -= self.unseen_drop * changed * max(seen.held_out_accuracy - by_structure, 0.0)
            unlike = self.surely_shifted(share) if seen.label_probability is None else changed
            by_held_out -= self.held_out_excess * unlike * by_held_out * (1 - by_held_out)
        return self._diagnosis(evidence, seen, by_structure, by_held_out)

    def _diagnosis(
        self, evidence: ShiftEvidence, seen: Witnesses, by_structure: float, by_held_out: float
    ) -> Diagnosis:
        reliability = 0.0 if seen.cluster_purity is None else self.cluster_reliability(seen.cluster_purity)
        accuracy = min(max(reliability * by_structure + (1 - reliability) * by_held_out, 0.0), 1.0)
        rows = 1 / len(evidence.target.logits) + 1 / len(evidence.held_out_labels)
        of_a_row = math.sqrt(max(accuracy * (1 - accuracy), _LEAST_VARIANCE))
        shifted_share = evidence.structure.shifted.share
        reach = self.reach(
            error=of_a_row * math.sqrt(rows),
            change=abs(accuracy - seen.held_out_accuracy),
            unclustered=(1 - reliability) * shifted_share * of_a_row if seen.label_probability is None else 0.0,
            deviation=statistics.pstdev([*seen.estimates(), by_held_out]),
        )
        found = Diagnosis(
            accuracy=accuracy,
            mean_confidence=mean_confidence(evidence.target.logits),
            reach=reach,
            cluster_reliability=reliability,
            mostly_outside=self.mostly_outside,
            shifted_share=shifted_share,
        )
        return self._noted(found, seen)

    def _adapted(self, evidence: ShiftEvidence, before: BeforeAdaptation) -> Diagnosis:
        seen = self._first_witnesses(evidence)
        confidence = seen.calibrated_confidence
        by_structure = confidence
        if seen.cluster_agreement is not None:
            # In what a reference has learned all rows gather, those that it confuses too.
            is_of_reference = evidence.target.reference_features is not None
            gathered = 1.0 if is_of_reference else evidence.gathering
            by_structure += gathered * (seen.cluster_agreement - confidence)
        found = self._diagnosis(evidence, replace(seen, domain_auc=before.domain_auc), by_structure, confidence)
        if before.prior_explains:
            # What an adapted classifier says of the target does not tell any more whether they explain it.
            found = found.explained_by(find_prior_shift(evidence, self))
        in_doubt = 1.0 if evidence.target.reference_features is None else 1 - found.cluster_reliability
        expected = found.accuracy + in_doubt * (before.accuracy - found.accuracy) / 2
        return replace(found, before_adaptation=before.accuracy).moved_to(expected)


def chance_corrected_purity(rows: UnitRows, clusters: Clusters, labels: Tensor) -> float:
    """How often clusters of labelled rows hold the true class, 0 for no better than the most frequent one."""
    return _chance_corrected(clusters.nearest(rows.directions), labels)


def held_out_purity(evidence: ShiftEvidence) -> float:
    """The same of held-out rows in clusters of the source's: a network may know its training rows by heart."""
    features = evidence.held_out.judging_features
    assert features is not None
    return _chance_corrected(
        evidence.source_clusters.log_posteriors(features).argmax(dim=-1), evidence.held_out_labels
    )


def _chance_corrected(found: Tensor, labels: Tensor) -> float:
    chance = float(labels.bincount().max()) / len(labels)
    if chance == 1:
        return 0.0
    return (float((found == labels).double().mean()) - chance) / (1 - chance)


def source_purity(evidence: ShiftEvidence) -> float:
    """Of clusters of the source, where there are features."""
    before = evidence.before_adaptation
    if before is not None and before.cluster_purity is not None:
        return before.cluster_purity
    return chance_corrected_purity(evidence.structure.source_rows, evidence.source_clusters, evidence.source_labels)


def newly_between_classes(evidence: ShiftEvidence, least_margin: float) -> float:
    """Share of target rows in clusters between classes, beyond that of the source: classes may be alike there too."""
    source, target = evidence.structure.source_rows, evidence.structure.target_rows
    classes = class_centroids(source, evidence.source_labels)
    found, usual = (
        share_between_classes(rows, clusters, classes, least_margin)
        for rows, clusters in ((target, evidence.target_clusters), (source, evidence.source_clusters))
    )
    return max(found - usual, 0.0)
