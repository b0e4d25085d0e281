"""What a monitor says of a batch: typed values, plain ones for files, and one line in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from shiftcal.target.drift import ColumnDrift

Signal = Literal["accuracy", "drift"]


@dataclass(frozen=True)
class Alarm:
    """One reason to look at a batch."""

    signal: Signal
    words: str


@dataclass(frozen=True)
class BatchStatus:
    """A batch against the reference."""

    time: str
    """Name of the batch: its date, its file, its number."""
    num_rows: int
    accuracy: float
    """Estimated without labels."""
    low: float
    """Of the 90 % interval of the accuracy."""
    high: float
    confidence: float
    """Mean confidence, calibrated on the reference."""
    confidence_p_value: float
    """Of a drop of that confidence, in this batch."""
    window_p_value: float
    """The same over the last batches together."""
    shifted_share: float
    """Of the rows that are not as on the reference."""
    kind_of_shift: str
    """none, prior, part, covariate, new classes or outside."""
    class_frequencies: tuple[float, ...]
    """Estimated, in the order of the classes of the reference."""
    prior_distance: float
    """Total variation of these from those of the reference."""
    drift: tuple[ColumnDrift, ...]
    alarms: tuple[Alarm, ...]
    true_accuracy: float | None = None
    """Where labels have come; nothing else here is made from them."""

    @property
    def alarm(self) -> bool:
        """Whether there is a reason to look."""
        return bool(self.alarms)

    @property
    def reason(self) -> str:
        """In words; empty without an alarm."""
        return " ".join(alarm.words for alarm in self.alarms)

    def __str__(self) -> str:
        line = f"{self.time}: {self.num_rows} rows, accuracy {self.accuracy:.1%} ({self.low:.1%} to {self.high:.1%})"
        if self.true_accuracy is not None:
            line += f", true {self.true_accuracy:.1%}"
        return f"{line}, shifted {self.shifted_share:.0%}" + (f"  ALARM: {self.reason}" if self.alarm else "")

    def as_plain(self) -> dict[str, Any]:
        """Nested plain values, from which `from_plain` makes the same."""
        return {**asdict(self), "alarm": self.alarm}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> BatchStatus:
        """What `as_plain` was called on."""
        values = {name: value for name, value in plain.items() if name != "alarm"}
        parts = {
            "class_frequencies": tuple(plain["class_frequencies"]),
            "drift": tuple(ColumnDrift(**column) for column in plain["drift"]),
            "alarms": tuple(Alarm(**alarm) for alarm in plain["alarms"]),
        }
        return cls(**{**values, **parts})
