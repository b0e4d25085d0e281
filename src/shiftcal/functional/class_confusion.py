"""Class confusion of a batch of predictions (Jin et al., ECCV 2020, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftcal.functional.entropy import certainty_weights_of


def class_confusion_loss(logits: Tensor, temperature: float) -> Tensor:
    """Mean probability that a class shares with the others where it is predicted: (N, C) to a scalar in [0, 1).

    With p = softmax(logits / temperature) and weights w = 1 + exp(-H(p)) that take no part in gradients:

        K = p' diag(w) p,   K~[j, k] = K[j, k] / sum_k K[j, k],   loss = 1/C sum_{j != k} K~[j, k]

    Rows of p sum to one, so sum_k K[j, k] = sum_i w_i p_ij; rows of K~ do too, so loss = 1 - trace(K~) / C. Only the
    diagonal is needed: K~[j, j] = sum_i a_ij p_ij, where a_ij = w_i p_ij / sum_i w_i p_ij is a softmax over i and so
    finite even for a class that has no probability anywhere in the batch.
    """
    log_probabilities = torch.log_softmax(logits / temperature, dim=-1)
    log_weights = certainty_weights_of(log_probabilities.detach()).log()
    shares = torch.softmax(log_weights[:, None] + log_probabilities, dim=0)
    return 1 - (shares * log_probabilities.exp()).sum(dim=0).mean()
