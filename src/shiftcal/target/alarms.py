"""When to raise an alarm: so seldom by chance that a year of batches like the reference has a stated number of them.

With e = false alarms a year / batches a year, the error rate of a batch, tests share e (Bonferroni):

    accuracy    calibrated confidence of this batch is lower than on the reference             e / 4
                the same over the last batches together: small drops that persist              e / 4
    drift       some column has drifted, by p-values that are corrected for all columns        e / 2

or twice that, where one of the two signals is watched alone. Accuracy also raises an alarm where the estimate is
lower than the accuracy on the reference by more than its 90 % interval reaches to either side: under no shift the
estimate stays so far within that that this adds nothing to e (measured: benchmarks/monitoring).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shiftcal.core.errors import InvalidInputError, UnknownNameError
from shiftcal.target.batch_status import Alarm, Signal
from shiftcal.target.drift import ColumnDrift

SIGNALS: tuple[Signal, ...] = ("accuracy", "drift")
# Columns that an alarm names; the status has all.
_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class AlarmRule:
    """How often a false alarm may come, and what is watched."""

    false_alarms_per_year: float = 1.0
    batches_per_year: float = 365.0
    watch: tuple[Signal, ...] = SIGNALS

    def __post_init__(self) -> None:
        if not 0 < self.false_alarms_per_year < self.batches_per_year:
            raise InvalidInputError(
                "false_alarms_per_year: expected more than 0 and less than there are batches in a year "
                f"({self.batches_per_year:g}), got {self.false_alarms_per_year!r}"
            )
        for signal in self.watch:
            if signal not in SIGNALS:
                raise UnknownNameError("signal to watch", signal, SIGNALS)
        if not self.watch:
            raise InvalidInputError(f"watch: expected at least one of {', '.join(SIGNALS)}, got none")

    @property
    def error_rate(self) -> float:
        """Of a batch."""
        return self.false_alarms_per_year / self.batches_per_year

    @property
    def level(self) -> float:
        """Of each signal."""
        return self.error_rate / len(set(self.watch))

    def stands_out(self, high: float, reference_accuracy: float, confidence_p_value: float) -> bool:
        """Whether a batch says by itself that accuracy may have fallen, by its interval or by its confidence."""
        return high < reference_accuracy or confidence_p_value <= self.level / 2

    def accuracy_alarms(self, seen: AccuracySigns) -> tuple[Alarm, ...]:
        """Where the accuracy has fallen, with all reasons for that in one alarm."""
        if "accuracy" not in self.watch:
            return ()
        reasons = []
        if seen.accuracy + seen.reach < seen.reference_accuracy:
            reasons.append(
                f"estimated accuracy {seen.accuracy:.1%} ({seen.low:.1%} to {seen.high:.1%}) is below the "
                f"{seen.reference_accuracy:.1%} of the reference"
            )
        if seen.confidence_p_value <= self.level / 2:
            reasons.append(
                f"calibrated confidence {seen.confidence:.1%} is lower than on the reference "
                f"(p {_written(seen.confidence_p_value)})"
            )
        elif seen.window_p_value <= self.level / 2:
            reasons.append(
                f"calibrated confidence over the last {seen.window_batches} batches together is lower than on the "
                f"reference (p {_written(seen.window_p_value)})"
            )
        return (Alarm("accuracy", _sentence("; ".join(reasons))),) if reasons else ()

    def drift_alarms(self, columns: Sequence[ColumnDrift]) -> tuple[Alarm, ...]:
        """Where columns have drifted."""
        if "drift" not in self.watch:
            return ()
        drifted = sorted((column for column in columns if column.corrected <= self.level), key=_strength)
        if not drifted:
            return ()
        named = ", ".join(
            f"{column.name} (distance {column.distance:.2f}, p {_written(column.corrected)})"
            for column in drifted[:_MOST_NAMED]
        )
        more = f" and {len(drifted) - _MOST_NAMED} more" if len(drifted) > _MOST_NAMED else ""
        return (Alarm("drift", f"{len(drifted)} of {len(columns)} columns drifted: {named}{more}."),)


@dataclass(frozen=True)
class AccuracySigns:
    """What speaks of the accuracy on a batch."""

    accuracy: float
    low: float
    high: float
    reach: float
    """How far the interval of an estimate reaches, to the side on which it reaches further."""
    reference_accuracy: float
    confidence: float
    confidence_p_value: float
    window_p_value: float
    window_batches: int


def _strength(column: ColumnDrift) -> tuple[float, float]:
    return column.corrected, -column.distance


def _written(p_value: float) -> str:
    return "< 1e-16" if p_value < 1e-16 else f"= {p_value:.1g}"


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
