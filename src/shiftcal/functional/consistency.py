"""Pseudo-labels of one view of an input that supervise another (Sohn et al., NeurIPS 2020, Eq. 4)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import cross_entropy


class ConsistencyLoss(NamedTuple):
    """The loss, and which rows had a part in it."""

    loss: Tensor
    kept: Tensor
    """(N,) whether a row's pseudo-label was sure enough."""


def consistency_loss(
    weak_probabilities: Tensor, strong_logits: Tensor, threshold: float | Tensor, num_rows: int | None = None
) -> ConsistencyLoss:
    """mean_n 1[ max p(weak_n) >= threshold ] cross_entropy( argmax p(weak_n), softmax(z(strong_n)) ).

    The mean is over all rows, so rows that are left out make the loss smaller. No gradient passes through the
    pseudo-labels.

    Args:
        weak_probabilities: (N, C) of the view that gives the pseudo-labels, by any predictive form.
        strong_logits: (N, C) of the view that is to agree with them.
        threshold: the least confidence of a pseudo-label; for all rows, or (N,) for each.
        num_rows: how many the mean is over, where N are those of them that may be kept.
    """
    confidence, labels = weak_probabilities.detach().max(dim=-1)
    kept = confidence >= threshold
    losses = cross_entropy(strong_logits, labels, reduction="none")
    return ConsistencyLoss((losses * kept).sum() / (num_rows or len(losses)), kept)


def pseudo_label_record(weak_probabilities: Tensor, kept: Tensor, num_rows: int | None = None) -> dict[str, Tensor]:
    """What can be said of pseudo-labels without labels, by name: the share that is kept, and how sure they are.

    The mean confidence of those kept is left out where none is: it has no value then. `num_rows`: see
    `consistency_loss`.
    """
    record = {"pseudo_coverage": kept.float().sum() / (num_rows or len(kept))}
    if kept.any():
        record["pseudo_confidence"] = weak_probabilities.detach().amax(dim=-1)[kept].mean()
    return record


def align_probabilities(probabilities: Tensor, wanted: Tensor, found: Tensor) -> Tensor:
    """Probabilities (N, C) times wanted / found (C,), normalised (Berthelot et al., ICLR 2022, section 3.2).

    Distribution alignment: where `found` is the mean of the probabilities, the mean afterwards is close to `wanted`.
    """
    aligned = probabilities * log_alignment(wanted, found).exp()
    return aligned / aligned.sum(dim=-1, keepdim=True)


def log_alignment(wanted: Tensor, found: Tensor) -> Tensor:
    """log(wanted / found) (C,) of two frequencies of classes."""
    # As in the authors' code: a class that is found nowhere must not take all.
    return ((wanted + 1e-6) / (found + 1e-6)).log()
