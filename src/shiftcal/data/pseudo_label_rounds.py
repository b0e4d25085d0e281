"""What a method took as labelled of the target, round by round: for the history of a run and for its report.

The chosen labels are kept, not only numbers about them, so that they can be judged after training, where labels of
the target are at hand for evaluation. Training itself never sees those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftcal.core.array_reading import open_own_file, write_own_file
from shiftcal.core.errors import InvalidInputError
from shiftcal.data.batches import PseudoLabels

NOT_CHOSEN = -1
Labels = NDArray[np.int16] | NDArray[np.int32]


@dataclass(frozen=True)
class PseudoLabelRounds:
    """The pseudo-labels of each epoch that had any."""

    epochs: NDArray[np.int64]
    """(rounds,) counted from 1, as in the history."""
    labels: Labels
    """(rounds, target rows) class numbers, or NOT_CHOSEN; of as few bytes as the number of classes allows."""
    estimated_precision: NDArray[np.float64]
    """(rounds,) mean probability that the model gave to the labels it chose."""
    true_precision: NDArray[np.float64] | None = None
    """(rounds,) share of the chosen labels that are right, where labels were given for evaluation."""

    @classmethod
    def none_yet(cls, num_rows: int, num_classes: int) -> PseudoLabelRounds:
        """No round so far, for a target of so many rows."""
        # The smallest type of a negative number is a signed one.
        label_type = np.result_type(np.int16, np.min_scalar_type(-num_classes))
        return cls(np.empty(0, np.int64), np.empty((0, num_rows), label_type), np.empty(0))

    def with_round(self, epoch: int, chosen: PseudoLabels, estimated_precision: float) -> PseudoLabelRounds:
        """These rounds and one more."""
        labels = np.full((1, self.labels.shape[1]), NOT_CHOSEN, self.labels.dtype)
        labels[0, chosen.rows] = chosen.labels
        return replace(
            self,
            epochs=np.append(self.epochs, epoch),
            labels=np.concatenate([self.labels, labels]),
            estimated_precision=np.append(self.estimated_precision, estimated_precision),
        )

    def __len__(self) -> int:
        return len(self.epochs)

    @property
    def share(self) -> NDArray[np.float64]:
        """(rounds,) of the target rows that were chosen."""
        return np.asarray((self.labels != NOT_CHOSEN).mean(axis=1))

    @property
    def agreement(self) -> NDArray[np.float64]:
        """(rounds,) share of equal labels among rows of both this round and the one before; NaN if there are none."""
        agreement = np.full(len(self), np.nan)
        for number in range(1, len(self)):
            before, now = self.labels[number - 1], self.labels[number]
            in_both = (before != NOT_CHOSEN) & (now != NOT_CHOSEN)
            if in_both.any():
                agreement[number] = (before == now)[in_both].mean()
        return agreement

    def class_shares(self, num_classes: int) -> NDArray[np.float64]:
        """(C,) share of each class in the labels of the last round."""
        last = self.labels[-1]
        counts = np.bincount(last[last != NOT_CHOSEN], minlength=num_classes)
        return np.asarray(counts / counts.sum())

    def record(self, epoch: int, num_classes: int) -> dict[str, float]:
        """The numbers of the last round for the history, if it is of that epoch."""
        if epoch not in self.epochs[-1:]:
            return {}
        shares = self.class_shares(num_classes)
        # The last two rounds are enough, however many there are.
        agreement = replace(self, epochs=self.epochs[-2:], labels=self.labels[-2:]).agreement[-1]
        return {
            "pseudo_labels": int((self.labels[-1] != NOT_CHOSEN).sum()),
            "pseudo_share": float((self.labels[-1] != NOT_CHOSEN).mean()),
            "pseudo_smallest_class_share": float(shares.min()),
            "pseudo_largest_class_share": float(shares.max()),
            **({} if np.isnan(agreement) else {"pseudo_agreement": float(agreement)}),
            "pseudo_estimated_precision": float(self.estimated_precision[-1]),
        }

    def summary(self) -> dict[str, float]:
        """Of the last round: the share of target rows with a label, and how many of these are right, where known."""
        right = {} if self.true_precision is None else {"pseudo_label_precision": float(self.true_precision[-1])}
        return {"pseudo_label_share": float(self.share[-1]), **right}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All fields that are there, by name: what the constructor takes."""
        return {name: array for name, array in vars(self).items() if array is not None}

    def as_tensors(self) -> dict[str, Tensor]:
        """The same as tensors, for a checkpoint."""
        return {name: torch.from_numpy(array) for name, array in self.arrays().items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> PseudoLabelRounds:
        """The rounds that `as_tensors` was called on."""
        fields: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
        return cls(**fields)


@dataclass(frozen=True)
class LabelsOfEpoch:
    """Pseudo-labels that are chosen batch by batch, put together: the last of each target row in an epoch."""

    labels: Tensor
    """(target rows,) class numbers, or NOT_CHOSEN."""
    confidence: Tensor
    """(target rows,) that the model gave to each label; below 0 where none was chosen."""

    @classmethod
    def none_yet(cls, num_rows: int) -> LabelsOfEpoch:
        """No label so far, for a target of so many rows."""
        return cls(torch.full((num_rows,), NOT_CHOSEN), torch.full((num_rows,), -1.0))

    def note(self, rows: Tensor, labels: Tensor, confidence: Tensor) -> None:
        """Take in the labels (K,) of some rows (K,)."""
        self.labels[rows.cpu()] = labels.cpu()
        self.confidence[rows.cpu()] = confidence.float().cpu()

    @property
    def chosen(self) -> PseudoLabels:
        """Rows that have a label, with it."""
        rows = (self.labels != NOT_CHOSEN).nonzero().squeeze(-1)
        return PseudoLabels(rows.numpy(), self.labels[rows].numpy())

    @property
    def mean_confidence(self) -> float:
        """Over rows that have a label; there must be one."""
        return float(self.confidence[self.labels != NOT_CHOSEN].double().mean())


def save_pseudo_label_rounds(rounds: PseudoLabelRounds, path: Path) -> None:
    """Write a `.npz` that `load_pseudo_label_rounds` reads back without loss."""
    write_own_file(path, rounds.arrays())


def load_pseudo_label_rounds(path: Path, num_classes: int) -> PseudoLabelRounds:
    """Read what `save_pseudo_label_rounds` wrote of a problem with so many classes.

    Raises:
        DataUnavailableError: there is no such file.
        InvalidInputError: it is damaged or something else.
    """
    with open_own_file(path, "pseudo-labels") as file:
        epochs = file.read("epochs", "i", None)
        labels = file.read("labels", "i", len(epochs), None)
        if not ((labels >= NOT_CHOSEN) & (labels < num_classes)).all():
            raise InvalidInputError(f"expected labels from {NOT_CHOSEN} to {num_classes - 1}, got others")
        shares = {
            name: file.read(name, "f", len(epochs))
            for name in ("estimated_precision", "true_precision")
            if name in file or name == "estimated_precision"
        }
        return PseudoLabelRounds(epochs, labels, **shares)
