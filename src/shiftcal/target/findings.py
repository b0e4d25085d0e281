"""All that was found of a target, and how it is written down: what to expect there, and whether adapting was kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shiftcal.target.diagnosis import Diagnosis, NewClasses, PriorShift, Witnesses
from shiftcal.target.input_checks import InputChecks


@dataclass(frozen=True)
class AdaptationCheck:
    """Whether an adapted classifier was kept, by how often it and one of the source alone agree with clusters."""

    adapted_agreement: float
    source_agreement: float
    p_value: float
    """Of the paired test that the adapted classifier agrees no less often."""
    could_judge: bool
    """Whether the classes form clusters that can be believed, and enough of them are found on the target. Without
    clusters an adapted classifier is given up."""
    fell_back: bool

    def verdict(self) -> str:
        """In words, whether adapting to the target was worth it."""
        compared = (
            f"the adapted classifier agrees with the target's own clusters on {self.adapted_agreement:.1%} of its "
            f"rows, one trained on the source alone on {self.source_agreement:.1%} (paired test, p = "
            f"{self.p_value:.2g})"
        )
        if self.fell_back and not self.could_judge:
            return (
                "FELL BACK to the source alone: the classes form no clusters, so that nothing could tell whether "
                "adapting does good or harm."
            )
        if self.fell_back:
            return f"FELL BACK to the source alone: {compared}. Adapting has done harm, it seems."
        if not self.could_judge:
            return (
                "Whether adapting did good or harm could not be judged: most classes are absent from the target. "
                "Compare with a model of the source alone before you rely on it."
            )
        return f"{compared[0].upper()}{compared[1:]}: adapting has done no harm, it seems."


@dataclass(frozen=True)
class TargetFindings:
    """All that was found of a target: what to expect there, and whether adapting to it was kept."""

    diagnosis: Diagnosis | None = None
    adaptation: AdaptationCheck | None = None

    @property
    def fell_back(self) -> bool:
        """Whether a classifier of the source alone stands in for the adapted one."""
        return self.adaptation is not None and self.adaptation.fell_back

    def verdicts(self) -> tuple[str, ...]:
        """Sentences for users, the most important first."""
        parts = (self.adaptation, self.diagnosis)
        return tuple(part.verdict() for part in parts if part is not None)

    def as_plain(self) -> dict[str, Any]:
        """Nested plain values, from which `from_plain` makes the same."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TargetFindings:
        """What `as_plain` was called on."""
        diagnosis, adaptation = plain.get("diagnosis"), plain.get("adaptation")
        return cls(
            None if diagnosis is None else _diagnosis_from_plain(diagnosis),
            None if adaptation is None else AdaptationCheck(**adaptation),
        )

    def numbers(self) -> dict[str, float]:
        """Flat, by the names that tables of results have; what is None is left out."""
        found: dict[str, float | None] = {}
        if self.diagnosis is not None:
            values = asdict(self.diagnosis)
            found["estimated_accuracy"] = values.pop("accuracy")
            if self.diagnosis.interval is not None:
                found["estimated_accuracy_low"], found["estimated_accuracy_high"] = self.diagnosis.interval
            new = values.pop("new_classes")
            found["new_class_share"] = None if new is None else new["share"]
            prior = values.pop("prior_shift")
            found["prior_distance"] = None if prior is None else prior["distance"]
            # The metrics of the run have the mean confidence after scaling.
            for name in ("mean_confidence", "mostly_outside", "has_held_out", "reach", "inputs", "looked_at"):
                values.pop(name)
            found |= values.pop("witnesses") or {}
            found |= values
        if self.adaptation is not None:
            found |= asdict(self.adaptation)
        return {name: float(value) for name, value in found.items() if value is not None}


def _diagnosis_from_plain(plain: Mapping[str, Any]) -> Diagnosis:
    seen, prior, inputs, reach, new = (
        plain.get(name) for name in ("witnesses", "prior_shift", "inputs", "reach", "new_classes")
    )
    parts = {
        "new_classes": None if new is None else NewClasses(**new),
        "reach": None if reach is None else tuple(reach),
        "inputs": None if inputs is None else InputChecks.from_plain(inputs),
        "witnesses": None if seen is None else Witnesses(**seen),
        "prior_shift": None if prior is None else PriorShift(**{**prior, "frequencies": tuple(prior["frequencies"])}),
    }
    return Diagnosis(**{**plain, **parts})
