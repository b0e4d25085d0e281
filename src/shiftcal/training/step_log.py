"""What the steps of an epoch log, read once in a while: each reading waits until the device has got there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from shiftcal.core.errors import InvalidInputError

# A training that diverges is so found after some more steps, which cost nothing that is kept.
_STEPS_AT_A_TIME = 10


@dataclass
class StepLog:
    """Sums over the steps of one epoch."""

    totals: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """How many steps logged each: a step leaves out what has no value in it."""
    _unread: list[dict[str, Tensor]] = field(default_factory=list)

    def add(self, logged: Mapping[str, Tensor]) -> None:
        """Scalars of one more step."""
        self._unread.append({name: value.detach() for name, value in logged.items()})

    @property
    def is_due(self) -> bool:
        """Whether enough has come together for a look."""
        return len(self._unread) >= _STEPS_AT_A_TIME

    def read(self, epoch: int, step: int) -> dict[str, float]:
        """Take in what has come, up to a step of an epoch, both counted from 1; gives the values of that step.

        Raises:
            InvalidInputError: some value is not finite.
        """
        first = step - len(self._unread) + 1
        values: dict[str, float] = {}
        unread, self._unread = self._unread, []
        for number, logged in enumerate(unread, start=first):
            values = {name: float(value) for name, value in logged.items()}
            for name, value in values.items():
                if not math.isfinite(value):
                    raise divergence(f"{name} is {value}", epoch, number)
                self.totals[name] = self.totals.get(name, 0.0) + value
                self.counts[name] = self.counts.get(name, 0) + 1
        return values

    @property
    def means(self) -> dict[str, float]:
        """Of all that was read."""
        return {name: total / self.counts[name] for name, total in self.totals.items()}


def divergence(what: str, epoch: int, step: int) -> InvalidInputError:
    """The error of a training whose numbers have left what is finite."""
    return InvalidInputError(
        f"training diverged: {what} in epoch {epoch}, step {step}; try a smaller learning_rate or set gradient_clip"
    )
