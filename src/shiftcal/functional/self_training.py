"""Which target rows self-training takes as labelled, as what, and how sure a network may become of them.

Class-balanced selection: Zou et al., ECCV 2018. Confidence regularisation: Zou et al., ICCV 2019. Angular visual
hardness: Chen et al., ICML 2020.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

ModelRegularizer = Literal["mrkld", "mrent", "mrl2"]


class Selection(NamedTuple):
    """Rows that are taken as labelled, in ascending order, and their labels."""

    rows: Tensor
    """(K,)"""
    labels: Tensor
    """(K,) class numbers."""


def num_warmup_epochs(num_epochs: int, warmup_share: float) -> int:
    """Epochs on the source alone."""
    # Rounded first: 0.3 * 10 is more than 3 in floating point.
    return math.ceil(round(warmup_share * num_epochs, 9))


def growing_portion(
    epoch: int, num_epochs: int, *, warmup_share: float, first_portion: float, last_portion: float
) -> float | None:
    """The portion to select before an epoch, growing evenly to the last epoch; None during the warm-up."""
    num_warmup = num_warmup_epochs(num_epochs, warmup_share)
    if epoch < num_warmup:
        return None
    grown = (epoch - num_warmup) / max(num_epochs - num_warmup - 1, 1)
    return first_portion + grown * (last_portion - first_portion)


def highest(scores: Tensor, portion: float) -> Tensor:
    """Positions of the highest `portion` of scores (N,), at least one of them, the highest first."""
    count = max(1, round(portion * len(scores)))
    return scores.argsort(descending=True, stable=True)[:count]


def class_thresholds(scores: Tensor, predicted: Tensor, num_classes: int, portion: float) -> Tensor:
    """For each class (C,) the lowest score among the highest `portion` of the rows that are predicted as it.

    Infinite for a class that no row is predicted as: nothing is selected for it.

    Args:
        scores: (N,), higher is easier.
        predicted: (N,) class numbers.
        num_classes: C.
        portion: of the rows of each class; at least one row of each is within.
    """
    thresholds = torch.full((num_classes,), torch.inf, dtype=scores.dtype)
    for label in set(predicted.tolist()):
        own = scores[predicted == label]
        thresholds[label] = own[highest(own, portion)[-1]]
    return thresholds


def fair_thresholds(scores: Tensor, predicted: Tensor, class_shares: Tensor, portion: float) -> Tensor:
    """For each class (C,) the lowest score among its highest ones, of which none has more than its fair number.

    That is `portion` of the rows that it would have if the classes were as frequent as on the source. A class that
    attracts the rows of others, as under a shift some do, so has no more of a say than its share.

    Args:
        scores: (N,), higher is easier.
        predicted: (N,) class numbers.
        class_shares: (C,) of the source, summing to 1.
        portion: of the rows that each class would have.
    """
    thresholds = torch.full_like(class_shares, torch.inf, dtype=scores.dtype)
    for label in set(predicted.tolist()):
        own = scores[predicted == label].sort(descending=True).values
        fair = max(1, round(portion * float(class_shares[label]) * len(scores)))
        thresholds[label] = own[min(fair, len(own)) - 1]
    return thresholds


def normalized_confidence(probabilities: Tensor, portion: float) -> Tensor:
    """p_c / exp(-k_c), (N, C), where exp(-k_c) is the threshold of class c (Zou et al. 2018)."""
    confidence, predicted = probabilities.max(dim=-1)
    return probabilities / class_thresholds(confidence, predicted, probabilities.shape[1], portion)


def select_class_balanced(probabilities: Tensor, portion: float) -> Selection:
    """The rows whose largest p_c / exp(-k_c) is at least 1, labelled with its class (Zou et al. 2018).

    Of the rows that are predicted as a class the most confident `portion` is selected, and with it any row that is
    as near to the threshold of another class.

    Args:
        probabilities: (N, C), of double precision where networks are very sure: equal confidences are selected
            together.
        portion: in (0, 1].
    """
    confidence, labels = normalized_confidence(probabilities, portion).max(dim=-1)
    rows = (confidence >= 1).nonzero().squeeze(-1)
    return Selection(rows, labels[rows])


def select_easiest(scores: Tensor, predicted: Tensor, num_classes: int, portion: float) -> Selection:
    """Of the rows (N,) that are predicted as a class, the `portion` with the highest scores (N,), as predicted."""
    thresholds = class_thresholds(scores, predicted, num_classes, portion)
    rows = (scores >= thresholds[predicted]).nonzero().squeeze(-1)
    return Selection(rows, predicted[rows])


def entropy_regularized_labels(normalized: Tensor, weight: float) -> Tensor:
    """Soft labels (N, C) of the label regulariser LRENT (Zou et al. 2019).

    The distribution q that minimises  -sum_c q_c log(p_c / exp(-k_c)) + weight sum_c q_c log q_c,  which is
    q_c proportional to  (p_c / exp(-k_c))^(1 / weight).

    Args:
        normalized: (N, C) p_c / exp(-k_c), see `normalized_confidence`; a row must not be all 0.
        weight: above 0; towards 0 the labels become one-hot.
    """
    return torch.softmax(normalized.log() / weight, dim=-1)


def model_regularizer(logits: Tensor, regularizer: ModelRegularizer) -> Tensor:
    """Model regulariser of each row, (N, C) to (N,), smallest for a uniform prediction (Zou et al. 2019).

    mrkld: -1/C sum_c log p_c;  mrent: sum_c p_c log p_c;  mrl2: sum_c p_c^2.
    """
    log_probabilities = torch.log_softmax(logits, dim=-1)
    if regularizer == "mrkld":
        return -log_probabilities.mean(dim=-1)
    if regularizer == "mrent":
        return (log_probabilities.exp() * log_probabilities).sum(dim=-1)
    return log_probabilities.exp().square().sum(dim=-1)


def angular_hardness(features: Tensor, class_weights: Tensor) -> Tensor:
    """AVH of each row and class: angle(x, w_c) / sum_k angle(x, w_k), lower is easier (Chen et al. 2020).

    Args:
        features: (N, F).
        class_weights: (C, F) of a linear head, without its biases.

    Returns:
        (N, C), rows sum to 1.
    """
    unit_features, unit_weights = (
        torch.nn.functional.normalize(values, dim=-1) for values in (features, class_weights)
    )
    # Rounding may carry a cosine beyond 1, where there is no angle.
    angles = torch.arccos((unit_features @ unit_weights.T).clamp(-1, 1))
    return angles / angles.sum(dim=-1, keepdim=True)
