"""Label probability: how probable labels of the source make what the classifier says of the target.

    estimate = mean_target P( y = predicted | x ) + rectifier
    rectifier = mean_held-out ( right - P( y = predicted | x ) )

P is learned from source rows by gradient boosting (Friedman, Annals of Statistics 29, 2001), of held-out rows out of
fold. The first mean is the plug-in estimate: under covariate shift labels follow from inputs as on the source. The
second takes away what that is off by on the source, as the rectifier of prediction-powered inference does
(Angelopoulos, Bates, Fannjiang, Jordan, Zrnic, Science 382, 2023). Where held-out rows that are weighted to be like
the target, w = P_target / P_source, show another error than chance explains, the rectifier moves by what is beyond
two standard errors of the difference. Moved by all of it, this would be the doubly robust estimate (Robins,
Rotnitzky, Zhao, JASA 89, 1994), for which small tables have too few rows.

Unlike a confidence, P does not follow the classifier where this extrapolates: trees say of far inputs what they say
of the outermost ones of the source.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import Tensor

from shiftcal.core.options import option
from shiftcal.target.estimators.base import AccuracyEstimator
from shiftcal.target.estimators.importance_weighted_accuracy import importance_weights
from shiftcal.target.evidence import ShiftEvidence
from shiftcal.target.row_order import content_order, stratified_folds
from shiftcal.target.sampling import sampled_rows

# Trees look at columns one at a time, so that they are given as they are; of more than these, components.
_MOST_COLUMNS = 120
_NUM_COMPONENTS = 32
_NUM_FOLDS = 4
# Of a class, on the average: more than folds, so that one class at least is in all of them.
_FEWEST_ROWS = 5
_NUM_ITERATIONS = 60
# An iteration takes a tree for each class; with more than ten classes there are fewer iterations.
_MOST_TREES = 600
# Of a difference of means, in standard errors.
_BY_CHANCE = 2.0

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LabelProbability(AccuracyEstimator):
    """Mean probability of predicted classes, learned from labels of the source by boosted trees (plug-in)."""

    most_rows: int = option(5_000, "of the source that probabilities are learned from", at_least=10, at_most=100_000)
    largest_weight: float = option(10.0, "of a held-out row in the rectifier, P_target / P_source", above=1)

    def estimate(self, evidence: ShiftEvidence) -> float:
        """As the module says; the held-out accuracy where there is nothing to learn from."""
        found = self.of_enough(evidence)
        return evidence.held_out_accuracy if found is None else found

    @staticmethod
    def sees_columns(evidence: ShiftEvidence) -> bool:
        """Whether features are few enough to be learned from as they are."""
        return evidence.structure.target.shape[1] <= _MOST_COLUMNS

    def of_enough(self, evidence: ShiftEvidence) -> float | None:
        """The same; None where there is nothing to learn from."""
        source, held_out, target = (part.numpy() for part in _inputs(evidence))
        chosen = sampled_rows(len(source), self.most_rows)
        rows, labels = source[chosen], evidence.source_labels[chosen].numpy()
        if not _can_learn(labels):
            return None
        trees, of_target = _boosting(len(np.unique(labels))), sampled_rows(len(target))
        # Without others, the rows that are learned from are asked, each by trees that have not seen it.
        asked = chosen if evidence.training is None else sampled_rows(len(held_out))
        said, said_of_target = (
            part.predicted[own].numpy() for part, own in ((evidence.held_out, asked), (evidence.target, of_target))
        )
        out_of_fold = _out_of_fold(trees, rows, labels, said) if evidence.training is None else None
        trees.fit(rows, labels)
        known = _probability_of(trees, held_out[asked], said) if out_of_fold is None else out_of_fold
        weights = importance_weights(evidence, self.largest_weight)[asked].numpy()
        rectifier = _rectifier(evidence.right[asked].numpy() - known, weights / weights.sum())
        return float(np.clip(_probability_of(trees, target[of_target], said_of_target).mean() + rectifier, 0, 1))


def _inputs(evidence: ShiftEvidence) -> tuple[Tensor, Tensor, Tensor]:
    """Of source, held-out and target rows."""
    structure = evidence.structure
    if LabelProbability.sees_columns(evidence):
        return structure.source, structure.held_out, structure.target
    source, held_out, target = (part[:, :_NUM_COMPONENTS] for part in structure.components)
    return source, held_out, target


def _rectifier(errors: _Floats, weights: _Floats) -> float:
    """The mean of errors (N,), moved as far as weights (N,) that sum to 1 show another mean beyond chance."""
    further = weights - 1 / len(errors)
    difference = float(further @ errors)
    error = float(np.linalg.norm(further * (errors - weights @ errors)))
    return float(errors.mean() + np.sign(difference) * max(abs(difference) - _BY_CHANCE * error, 0.0))


def _can_learn(labels: _Integers) -> bool:
    counts = np.bincount(labels)
    others, classes = len(labels) - int(counts.max()), int((counts > 0).sum())
    return others >= 2 * _NUM_FOLDS and len(labels) >= _FEWEST_ROWS * classes


def _boosting(num_classes: int) -> HistGradientBoostingClassifier:
    iterations = max(min(_NUM_ITERATIONS, _MOST_TREES // num_classes), 1)
    return HistGradientBoostingClassifier(
        learning_rate=0.1,
        max_iter=iterations,
        max_leaf_nodes=8,
        max_bins=64,
        early_stopping=False,
        random_state=0,
    )


def _out_of_fold(trees: HistGradientBoostingClassifier, rows: _Floats, labels: _Integers, said: _Integers) -> _Floats:
    """Probabilities (N,) of the classes that were said."""
    # Rows of a most frequent class, and others, are in each fold: there is always something to learn. Of several such
    # classes, that of the first row by content: numbers of classes mean nothing.
    counts, ordered = np.bincount(labels), labels[content_order(rows)]
    frequent = ordered[counts[ordered] == counts.max()][0]
    folds = stratified_folds(rows, (labels == frequent).astype(np.int64), _NUM_FOLDS, seed=0)
    found = np.empty(len(rows))
    for number in range(_NUM_FOLDS):
        held = folds == number
        found[held] = _probability_of(trees.fit(rows[~held], labels[~held]), rows[held], said[held])
    return found


def _probability_of(trees: HistGradientBoostingClassifier, rows: _Floats, said: _Integers) -> _Floats:
    """Of the classes (N,) that were said of rows (N, F); 0 for one that was not learned."""
    place = np.searchsorted(trees.classes_, said).clip(max=len(trees.classes_) - 1)
    probability = trees.predict_proba(rows)[np.arange(len(rows)), place]
    return np.where(trees.classes_[place] == said, probability, 0.0)
