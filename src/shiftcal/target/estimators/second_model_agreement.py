"""Second-model agreement: how much less often another classifier agrees on the target than on the source.

    estimate = held-out accuracy - ( agreement on held-out rows - agreement on the target )

Two classifiers that learned from different rows agree about as often as either is right (generalization disagreement
equality: Jiang, Nagarajan, Baek, Kolter, ICLR 2022), and lose agreement under a shift as they lose accuracy (Baek,
Jiang, Raghunathan, Kolter, NeurIPS 2022). The second one learns labels of source rows from leading principal
components: a logistic regression and a random forest, of which the one that loses more agreement counts. Where inputs
lie outside of what the source has, such as under noise, the two extrapolate in other ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict

from shiftcal.core.options import option
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.evidence import ShiftEvidence
from shiftcal.target.row_order import content_order
from shiftcal.target.sampling import sampled_rows

_NUM_COMPONENTS = 32
_NUM_FOLDS = 4
# Of a class, on the average.
_FEWEST_ROWS = 3


@dataclass(frozen=True, kw_only=True)
class SecondModelAgreement(AccuracyEstimator):
    """Held-out accuracy, less what a second model's agreement loses from source to target (GDE)."""

    most_rows: int = option(
        2_000, "of each domain that second models learn from and are asked about", at_least=10, at_most=10_000
    )

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says."""
        lost = [agreement_lost(evidence, model, self.most_rows) for model in _second_models()]
        return min(max(evidence.held_out_accuracy - max(lost), 0.0), 1.0)


def agreement_lost(evidence: ShiftEvidence, model: ClassifierMixin, most_rows: int) -> float:
    """How much less often a second model agrees with the classifier on the target than on held-out rows.

    It learns from the rows that the classifier learned from, or else from the held-out rows, which are then asked out
    of fold.
    """
    parts = [part[:, :_NUM_COMPONENTS].numpy() for part in evidence.structure.components]
    chosen = [sampled_rows(len(part), most_rows) for part in parts]
    # Folds and samples of trees go by row numbers: in this order they are the same, whichever order rows come in.
    order = content_order(parts[0][chosen[0]], evidence.source_labels[chosen[0]])
    chosen[0] = chosen[0][order]
    if evidence.training is None:
        chosen[1] = chosen[0]
    source, held_out, target = (part[rows] for part, rows in zip(parts, chosen, strict=True))
    labels = evidence.source_labels[chosen[0]].numpy()
    counts = np.bincount(labels)
    if len(labels) - counts.max() < 2 * _NUM_FOLDS or _FEWEST_ROWS * (counts > 0).sum() > len(labels):
        # There is nothing to learn for a second model.
        return 0.0
    if evidence.training is None:
        own = cross_val_predict(model, source, labels, cv=KFold(_NUM_FOLDS, shuffle=True, random_state=0))
        model.fit(source, labels)
    else:
        own = model.fit(source, labels).predict(held_out)
    said, said_of_target = (
        rows.predicted[which].numpy()
        for rows, which in ((evidence.held_out, chosen[1]), (evidence.target, chosen[2]))
    )
    return float((own == said).mean() - (model.predict(target) == said_of_target).mean())


def _second_models() -> tuple[ClassifierMixin, ...]:
    return (
        LogisticRegression(C=0.3, max_iter=200),
        RandomForestClassifier(40, min_samples_leaf=2, random_state=0),
    )
