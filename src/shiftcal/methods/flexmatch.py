"""FlexMatch: FixMatch with a threshold for each class, lower as long as the class is not learned.

Zhang, Wang, Hou, Wu, Wang, Okumura, Shinozaki, "FlexMatch: Boosting Semi-Supervised Learning with Curriculum Pseudo
Labeling", NeurIPS 2021, section 3, with its warm-up and convex mapping. The loss is that of FixMatch with

    threshold_c = threshold beta_c / (2 - beta_c),   beta_c = sigma_c / max( max_c sigma_c, sigma_none )

sigma_c counts the target rows whose last prediction with a confidence of at least the full threshold was class c,
sigma_none those that never had one. So as published all rows have a part at first, when none was sure. The thresholds
of a step are those before its rows are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shiftcal.core.processes import whole_batch
from shiftcal.data.batches import Batch
from shiftcal.functional.adaptive_thresholds import NO_LABEL, curriculum_thresholds
from shiftcal.methods.fixmatch import FixMatch
from shiftcal.methods.networks.classifiers import Blueprint, Classifier


class CurriculumClassifier(Classifier):
    """A classifier that remembers the last sure label of every target row."""

    row_labels: Tensor

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__(blueprint)
        self.register_buffer("row_labels", torch.full((blueprint.num_target_rows,), NO_LABEL))


@dataclass(frozen=True, kw_only=True)
class FlexMatch(FixMatch):
    """FixMatch with a curriculum of thresholds per class."""

    def build(self, blueprint: Blueprint) -> CurriculumClassifier:
        """A classifier with a memory of labels."""
        return CurriculumClassifier(blueprint)

    def thresholds(self, network: Classifier, batch: Batch, probabilities: Tensor) -> Tensor:
        """(N,) by the predicted class; then the sure rows of the batch are remembered."""
        assert isinstance(network, CurriculumClassifier)
        assert batch.target_rows is not None
        confidence, labels = probabilities.max(dim=-1)
        thresholds = curriculum_thresholds(network.row_labels, probabilities.shape[1], self.threshold)[labels]
        # Of all processes: each has the whole memory.
        sure = whole_batch(confidence) >= self.threshold
        network.row_labels[whole_batch(batch.target_rows)[sure]] = whole_batch(labels)[sure]
        return thresholds
