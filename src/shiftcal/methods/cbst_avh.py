"""Class-balanced self-training that selects by angular visual hardness instead of confidence.

Chen, Liu, Yu, Kautz, Shrivastava, Garg, Anandkumar, "Angular Visual Hardness", ICML 2020: the AVH score and its use
in self-training.

    loss  mean_{source and selected} cross_entropy(softmax(z), y), with the predicted class for y on selected rows
    AVH   angle(x, w_y) / sum_c angle(x, w_c) of the features x and the weights w_c of the head, y the predicted class

Of the target rows that are predicted as a class, those with the lowest AVH are selected. Ours: biases of the head
take part in the prediction but not in the angles, and rounds are as of `cbst`.
"""

from __future__ import annotations

from dataclasses import dataclass

from shiftcal.data.batches import PseudoLabels
from shiftcal.functional.self_training import angular_hardness, select_easiest
from shiftcal.methods.base import Outputs
from shiftcal.methods.cbst import ClassBalancedSelfTraining
from shiftcal.methods.networks.classifiers import Classifier


@dataclass(frozen=True, kw_only=True)
class AngularSelfTraining(ClassBalancedSelfTraining):
    """Pseudo-labels for the part of each class whose features point most clearly to it."""

    def label(self, network: Classifier, outputs: Outputs, portion: float) -> PseudoLabels:
        """Select the easiest rows of each class, as predicted."""
        class_weights = network.head.weight.detach().cpu().double()
        predicted = outputs.logits.argmax(dim=-1)
        hardness = angular_hardness(outputs.features.double(), class_weights)
        scores = -hardness.gather(1, predicted[:, None]).squeeze(1)
        rows, labels = select_easiest(scores, predicted, len(class_weights), portion)
        return PseudoLabels(rows.numpy(), labels.numpy())
