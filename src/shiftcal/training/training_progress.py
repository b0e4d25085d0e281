"""Where a training stands: with the networks and optimisers, all of the state that a resumed one needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftcal.data.batches import PseudoLabels
from shiftcal.data.pseudo_label_rounds import LabelsOfEpoch, PseudoLabelRounds
from shiftcal.methods.base import Accepted
from shiftcal.training.step_log import StepLog

EpochRecord = dict[str, float]

# Of a run of thousands of epochs, so many rounds of pseudo-labels are enough for any figure.
_MOST_ROUNDS = 100


@dataclass
class Progress:
    """Counts and records of a training of so many epochs."""

    num_epochs: int
    num_classes: int
    num_target_rows: int
    epoch: int = 0
    step: int = 0
    """Next step within the epoch."""
    log: StepLog = field(default_factory=StepLog)
    """Of the steps of this epoch."""
    history: list[EpochRecord] = field(default_factory=list)
    pseudo_labels: PseudoLabels | None = None
    pseudo_label_rounds: PseudoLabelRounds | None = None
    """Those of all epochs so far; None if there were none."""
    accepted: LabelsOfEpoch | None = None
    """What the steps of this epoch took as labelled, where the method chooses batch by batch."""

    def note_round(self, chosen: PseudoLabels, logits: Callable[[], Tensor]) -> None:
        """Pseudo-labels that were chosen before an epoch; their confidence, if not given, from logits (N, C)."""
        if not self._keeps_this_round:
            return
        confidence = chosen.confidence
        if confidence is None:
            probabilities = torch.softmax(logits().double(), dim=-1).numpy()
            confidence = float(np.mean(probabilities[chosen.rows, chosen.labels]))
        self._add_round(chosen, confidence)

    def note_accepted(self, accepted: Accepted) -> None:
        """Pseudo-labels that a step has chosen by itself."""
        if not self._keeps_this_round:
            return
        if self.accepted is None:
            self.accepted = LabelsOfEpoch.none_yet(self.num_target_rows)
        self.accepted.note(*accepted)

    def close_epoch(self, seconds: float, accepted: LabelsOfEpoch | None) -> EpochRecord:
        """The record of the epoch, and on to the next; `accepted` is by all processes."""
        record: EpochRecord = {"epoch": self.epoch + 1, **self.log.means}
        if accepted is not None and len(accepted.chosen) > 0:
            self._add_round(accepted.chosen, accepted.mean_confidence)
        if self.pseudo_label_rounds is not None:
            record |= self.pseudo_label_rounds.record(self.epoch + 1, self.num_classes)
        record["seconds"] = round(seconds, 3)
        self.history.append(record)
        self.epoch, self.step, self.log, self.accepted = self.epoch + 1, 0, StepLog(), None
        return record

    def as_plain(self) -> dict[str, Any]:
        """Plain values and tensors, from which `restored` makes the same."""
        pseudo, rounds = self.pseudo_labels, self.pseudo_label_rounds
        return {
            "epoch": self.epoch,
            "step": self.step,
            "totals": dict(self.log.totals),
            "num_logged": dict(self.log.counts),
            "history": [dict(record) for record in self.history],
            "pseudo_labels": None if pseudo is None else _as_tensors(pseudo),
            "pseudo_label_rounds": None if rounds is None else rounds.as_tensors(),
            "accepted": None if self.accepted is None else dict(vars(self.accepted)),
        }

    def restored(self, state: Mapping[str, Any]) -> Progress:
        """That of a training of as many epochs, on the same data, from what `as_plain` gave."""
        pseudo, rounds, accepted = (state[name] for name in ("pseudo_labels", "pseudo_label_rounds", "accepted"))
        return replace(
            self,
            epoch=state["epoch"],
            step=state["step"],
            log=StepLog(dict(state["totals"]), dict(state["num_logged"])),
            history=[dict(record) for record in state["history"]],
            pseudo_labels=None if pseudo is None else _from_tensors(pseudo),
            pseudo_label_rounds=None if rounds is None else PseudoLabelRounds.from_tensors(rounds),
            accepted=None if accepted is None else LabelsOfEpoch(**accepted),
        )

    @property
    def _keeps_this_round(self) -> bool:
        """Whether this epoch is among those, evenly spread, of which pseudo-labels are kept for diagnostics."""
        every = math.ceil(self.num_epochs / _MOST_ROUNDS)
        return (self.num_epochs - 1 - self.epoch) % every == 0

    def _add_round(self, chosen: PseudoLabels, confidence: float) -> None:
        rounds = self.pseudo_label_rounds
        if rounds is None:
            rounds = PseudoLabelRounds.none_yet(self.num_target_rows, self.num_classes)
        self.pseudo_label_rounds = rounds.with_round(self.epoch + 1, chosen, confidence)


def _as_tensors(pseudo: PseudoLabels) -> dict[str, Tensor]:
    arrays = {"rows": pseudo.rows, "labels": pseudo.labels, "soft_labels": pseudo.soft_labels}
    return {name: torch.from_numpy(array) for name, array in arrays.items() if array is not None}


def _from_tensors(tensors: Mapping[str, Tensor]) -> PseudoLabels:
    soft_labels = tensors.get("soft_labels")
    return PseudoLabels(
        tensors["rows"].numpy(), tensors["labels"].numpy(), None if soft_labels is None else soft_labels.numpy()
    )
