"""What was found of a target without its labels, as typed values and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

# In a percentage with one digit.
_VISIBLE = 0.0005
# Domain AUC of outputs below which the target is called like the source.
_ALIKE = 0.55


@dataclass(frozen=True)
class Diagnosis:
    """The accuracy to be expected on a target, and what it rests on; None: not asked, or not to be had."""

    accuracy: float
    mean_confidence: float
    """On the target, of the classifier as it was before any scaling."""
    difference_of_confidences: float | None = None
    thresholded_confidence: float | None = None
    cluster_agreement: float | None = None
    cluster_purity: float | None = None
    cluster_compactness: float | None = None
    domain_auc: float | None = None
    """Of the outputs; None where too few source rows were held out to tell."""
    trust: float = 0.0
    """From 0 to 1, how far the clusters (or, without features, the thresholded confidence) decided."""
    has_held_out: bool = True
    """Whether source rows were held out; else rows that were trained on stood for them."""
    before_adaptation: float | None = None
    """The accuracy that was expected before adaptation, where it still has a say."""

    def verdict(self) -> str:
        """In words, what to expect and how far to believe it."""
        expected = f"Accuracy to be expected on the target, found without its labels: {self.accuracy:.1%}."
        return f"{expected} {self._basis()}"

    def _basis(self) -> str:
        if self.before_adaptation is not None:
            return (
                f"Take it with care: it lies between {self.before_adaptation:.1%}, expected before the classifier "
                "was adapted to the target, and what is expected of it now."
            )
        if not self.has_held_out:
            return (
                "Take it with care: no source rows were held out, and on rows that it was trained on a classifier is "
                "more often right than on new ones."
            )
        if self.difference_of_confidences is None:
            return "Take it with care: a single estimator was asked, and nothing else speaks for it."
        if self.domain_auc is None:
            return (
                "Take it with care: too few source rows were held out to tell whether the shift changes what the "
                "classifier says, so it was taken for granted that it does."
            )
        if self.domain_auc is not None and self.domain_auc < _ALIKE:
            return "What the classifier says of the target looks as on the source, so held-out source data decides."
        if self.cluster_agreement is None:
            return (
                "Take it with care: it rests on probabilities alone. Features of the inputs, such as embeddings, "
                "would say much more."
            )
        return self._by_clusters(self.cluster_agreement)

    def _by_clusters(self, agreement: float) -> str:
        assert self.difference_of_confidences is not None
        span = f"{agreement:.1%} by the target's clusters, {self.difference_of_confidences:.1%} by confidence"
        if self.accuracy < min(agreement, self.difference_of_confidences) - _VISIBLE:
            span += "; held down to how confident the classifier is"
        if self.trust < 0.5:
            return (
                f"Take it with care ({span}): the classes form no clear clusters, or the shift is mild, so it rests "
                "mostly on held-out source data, which says little about a shifted target."
            )
        return f"It rests on how often the classifier agrees with the target's own clusters ({span})."


@dataclass(frozen=True)
class AdaptationCheck:
    """Whether an adapted classifier was kept, by how often it and one of the source alone agree with clusters."""

    adapted_agreement: float
    source_agreement: float
    p_value: float
    """Of the paired test that the adapted classifier agrees no less often."""
    could_judge: bool
    """Whether the classes form clusters that can be believed."""
    fell_back: bool

    def verdict(self) -> str:
        """In words, whether adapting to the target was worth it."""
        compared = (
            f"the adapted classifier agrees with the target's own clusters on {self.adapted_agreement:.1%} of its "
            f"rows, one trained on the source alone on {self.source_agreement:.1%} (paired test, p = "
            f"{self.p_value:.2g})"
        )
        if self.fell_back:
            return f"FELL BACK to the source alone: {compared}. Adapting has done harm, it seems."
        if not self.could_judge:
            return (
                "Whether adapting did good or harm could not be judged: the classes form no clear clusters. Compare "
                "with a model of the source alone before you rely on it."
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
            None if diagnosis is None else Diagnosis(**diagnosis),
            None if adaptation is None else AdaptationCheck(**adaptation),
        )

    def numbers(self) -> dict[str, float]:
        """Flat, by the names that tables of results have; what is None is left out."""
        found: dict[str, float | None] = {}
        if self.diagnosis is not None:
            values = asdict(self.diagnosis)
            found["estimated_accuracy"] = values.pop("accuracy")
            # The metrics of the run have the mean confidence after scaling.
            values.pop("mean_confidence")
            values.pop("has_held_out")
            found |= values
        if self.adaptation is not None:
            found |= {name: float(value) for name, value in asdict(self.adaptation).items()}
        return {name: value for name, value in found.items() if value is not None}
