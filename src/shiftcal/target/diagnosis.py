"""What was found of a target without its labels, as typed values and in words."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shiftcal.target.input_checks import InputChecks

# Of words alone, in `kind_of_shift`: domain AUC of outputs below which the target is called like the source,
_ALIKE = 0.55
# of the inputs from which on they have shifted, whatever the classifier makes of them,
_MOVED = 0.65
# and share of rows that have shifted below which a shift is said to be of a part.
_A_PART = 0.8
# Standard errors that a normal variable is within 90 % of the time.
_NORMAL_90 = 1.645


@dataclass(frozen=True)
class Witnesses:
    """What the combined estimate is made from: estimates of the accuracy, and what says how far they are believed."""

    held_out_accuracy: float
    calibrated_confidence: float
    novelty: float = 0.0
    """Share of target rows outside of anything that the source has."""
    domain_auc: float | None = None
    """How well outputs of both domains can be told apart; None where too few source rows were held out to tell."""
    cluster_agreement: float | None = None
    cluster_purity: float | None = None
    """Of clusters of the source, corrected for chance."""
    importance_weighted_calibration: float | None = None
    second_model_agreement: float | None = None
    label_probability: float | None = None
    """None also where clusters decide, or inputs have more columns than it was measured with."""
    thresholded_confidence: float | None = None
    optimal_transport: float | None = None
    between_classes: float = 0.0
    """Share of target rows in clusters that lie between classes of the source, beyond that of source rows."""
    dispersion: float = 0.5
    """How much less target rows gather around their clusters than source rows around theirs: an AUC."""

    def estimates(self) -> list[float]:
        """Those whose median counts where classes form clusters."""
        said = (
            self.calibrated_confidence,
            self.thresholded_confidence,
            self.optimal_transport,
            self.second_model_agreement,
            self.cluster_agreement,
        )
        return [value for value in said if value is not None]

    def beyond_confidence(self) -> list[float]:
        """Those of them that do not take a confidence to mean on the target what it means on the source."""
        said = (self.optimal_transport, self.second_model_agreement, self.cluster_agreement)
        return [value for value in said if value is not None]


@dataclass(frozen=True)
class PriorShift:
    """Class frequencies of the target, and how far they explain the shift."""

    frequencies: tuple[float, ...]
    """Of each class on the target, as estimated."""
    distance: float
    """Total variation from those of the source, 0 to 1."""
    by_chance: float
    """What that would be on the average if nothing had changed."""
    domain_auc: float
    """Of the inputs."""
    weighted_domain_auc: float
    """The same with held-out rows weighted to these frequencies: 0.5 where they explain all of it."""
    accuracy: float
    """To be expected if they do."""
    explains: bool
    """Whether the frequencies have changed, and nothing else."""
    standard_error: float = 0.0
    """Of that accuracy, by what is not known of the frequencies."""


@dataclass(frozen=True)
class NewClasses:
    """Rows of a target that are of none of the source's classes."""

    share: float
    """Of its rows, as estimated."""
    seen_share: float
    """Of its rows, those that are seen to be: the others are too much like rows of known classes."""
    num_clusters: int
    """That those gather into."""


@dataclass(frozen=True)
class Diagnosis:
    """The accuracy to be expected on a target, and what it rests on; None: not asked, or not to be had."""

    accuracy: float
    mean_confidence: float
    """On the target, of the classifier as it was before any scaling."""
    reach: tuple[float, float] | None = None
    """How far the 90 % interval reaches below and above the accuracy."""
    witnesses: Witnesses | None = None
    cluster_reliability: float = 0.0
    """From 0 to 1, how far the structure of the target decided."""
    is_between_classes: bool = False
    """Whether most rows lie in clusters between classes of the source."""
    is_dispersed: bool = False
    """Whether rows gather around no clusters as those of the source do."""
    mostly_outside: float = 0.5
    """Share of rows outside of the source from which on no estimate is bounded."""
    shifted_share: float = 1.0
    """Of the target's rows, the share that is not as on the source."""
    prior_shift: PriorShift | None = None
    new_classes: NewClasses | None = None
    """Where there are rows of such, which can only be wrong: see `with_new_classes`."""
    has_held_out: bool = True
    """Whether source rows were held out; else rows that were trained on stood for them."""
    before_adaptation: float | None = None
    """The accuracy that was expected before adaptation, where it still has a say."""
    inputs: InputChecks | None = None
    """The columns of the inputs against those of the source, where inputs are a table."""
    looked_at: str | None = None
    """What structure was looked for in, in words, where that was chosen by itself."""

    @property
    def domain_auc(self) -> float | None:
        """Of the outputs; None where it was not asked, or too few source rows were held out to tell."""
        return None if self.witnesses is None else self.witnesses.domain_auc

    @property
    def prior_explains(self) -> bool:
        """Whether other class frequencies are all that has changed."""
        return self.prior_shift is not None and self.prior_shift.explains

    @property
    def trust(self) -> float:
        """How far clusters of the target are believed about a row of it, from 0 to 1."""
        return self.cluster_reliability * self.shifted_share

    @property
    def interval(self) -> tuple[float, float] | None:
        """That holds the accuracy with a probability of 90 %; where most rows lie outside, all these may be wrong.

        Rows that are seen to be of new classes bound it above.
        """
        if self.reach is None:
            return None
        low, high = self.accuracy - self.reach[0], self.accuracy + self.reach[1]
        if self.is_outside:
            low = min(low, self.accuracy * (1 - self.outside_share))
        return max(low, 0.0), min(high, 1.0 if self.new_classes is None else 1 - self.new_classes.seen_share)

    @property
    def confidence_to_reach(self) -> float:
        """The mean confidence on the target that scaling aims at.

        That is the accuracy, as far as the target's own structure speaks for it. Where it does not, an estimate is no
        better than what a classifier says of itself that is calibrated on the source: its confidence is left alone
        within the interval, and brought to the nearer end of it from outside.
        """
        adapted = self.before_adaptation is not None
        if self.interval is None or adapted or self.prior_explains:
            return self.accuracy
        low, high = self.interval
        by_itself = min(max(self.mean_confidence, low), high)
        return by_itself + self.cluster_reliability * (self.accuracy - by_itself)

    @property
    def is_outside(self) -> bool:
        """Whether so much of the target lies outside of the source that intervals must say so."""
        return self.outside_share >= self.mostly_outside or (self.inputs is not None and bool(self.inputs.findings))

    @property
    def outside_share(self) -> float:
        """Of the target's rows, those outside of anything that the source has: by the structure, or by a column."""
        if self.is_between_classes or self.is_dispersed:
            # Where most clusters have left their classes, the others can't be relied on either.
            return 1.0
        novelty = 0.0 if self.witnesses is None else self.witnesses.novelty
        return max(novelty, 0.0 if self.inputs is None else self.inputs.affected_share)

    def moved_to(self, accuracy: float) -> Diagnosis:
        """The same with another estimate; what it was moved by is not known any better than that."""
        further = abs(accuracy - self.accuracy)
        reach = None if self.reach is None else (self.reach[0] + further, self.reach[1] + further)
        return replace(self, accuracy=accuracy, reach=reach)

    def explained_by(self, prior: PriorShift) -> Diagnosis:
        """The same where other class frequencies are all that has changed.

        The interval is wider by what is not known of these, and reaches half of the way further to what would be
        expected without that explanation.
        """
        reach = None
        if self.reach is not None:
            unknown = _NORMAL_90 * prior.standard_error
            half_way = (self.accuracy - prior.accuracy) / 2
            reach = self.reach[0] + unknown + max(-half_way, 0.0), self.reach[1] + unknown + max(half_way, 0.0)
        return replace(self, accuracy=prior.accuracy, reach=reach, prior_shift=replace(prior, explains=True))

    def with_new_classes(self, new: NewClasses) -> Diagnosis:
        """The same where rows of new classes are seen, which can only be wrong.

        A part of a mixed target that has moved can look like new classes. So these bound what is expected above, and
        the interval reaches further down by their share, but else the estimate, and confidence with it, stays.
        """
        accuracy = min(self.accuracy, 1 - new.seen_share)
        reach = None if self.reach is None else (self.reach[0] + new.share, self.reach[1])
        # Rows that gather into clusters of their own explain that they do not around those of known classes.
        return replace(self, accuracy=accuracy, reach=reach, new_classes=new, is_dispersed=False)

    def kind_of_shift(self) -> str:
        """none, prior, part, covariate, new classes or outside, in words of the verdict."""
        if self.outside_share >= self.mostly_outside:
            return "outside"
        if self.new_classes is not None:
            return "new classes"
        if self.prior_explains:
            return "prior"
        inputs_moved = self.prior_shift is not None and self.prior_shift.domain_auc >= _MOVED
        if self._says_the_same and not inputs_moved:
            return "none"
        return "part" if self.shifted_share < _A_PART else "covariate"

    @property
    def _says_the_same(self) -> bool:
        """Whether outputs on the target can't be told from those on the source."""
        return self.domain_auc is not None and self.domain_auc < _ALIKE

    def verdict(self) -> str:
        """In words, what to expect and how far to believe it."""
        expected = f"Accuracy to be expected on the target, found without its labels: {self.accuracy:.1%}"
        if self.interval is not None:
            expected += " (90 % interval: {:.1%} to {:.1%})".format(*self.interval)
        odd = "" if self.inputs is None else self.inputs.verdict()
        parts = (odd, f"{expected}.", self._shift(), self._basis(), self._looked_at())
        return " ".join(part for part in parts if part)

    def _shift(self) -> str:
        seen = self.witnesses
        if seen is None:
            return ""
        if self.kind_of_shift() == "outside":
            if self.inputs is not None and self.inputs.findings:
                return ""  # the verdict begins with it
            if self.is_between_classes:
                return (
                    f"{seen.between_classes:.0%} of the target lies in clusters between those of the source's "
                    "classes: which class they are of can't be told without labels, nothing bounds the error there, "
                    "and no estimate can be relied on. Label some of these inputs."
                )
            if self.is_dispersed:
                return (
                    "The target's rows gather around no clusters as those of the source do: noise, columns that were "
                    "exchanged, or classes that the source does not have; nothing bounds the error there, and no "
                    "estimate can be relied on. Look at these inputs."
                )
            return (
                f"{self.outside_share:.0%} of the target lies outside of anything that the source has: nothing "
                "bounds the error there, and no estimate can be relied on. Look at these inputs (units, order of "
                "columns, noise), or label some of them."
            )
        if self.new_classes is not None:
            new = self.new_classes
            clusters = "a cluster" if new.num_clusters == 1 else f"{new.num_clusters} clusters"
            return (
                f"About {new.share:.0%} of its rows seem to be of new classes: {new.seen_share:.0%} gather into "
                f"{clusters} far from all classes of the source. What the classifier says of such rows can only be "
                "wrong: the interval reaches down by them. Label some of them."
            )
        return {
            "prior": "Other classes are frequent on it; beside that, it looks as the source does.",
            "none": "What the classifier says of it looks as on the source.",
            "part": f"About {self.shifted_share:.0%} of its rows have shifted, the rest are as on the source.",
            "covariate": "Its inputs have shifted, "
            + ("otherwise " if self.inputs is not None and self.inputs.findings else "")
            + "within what the source has"
            + ("; what the classifier says of them looks as on the source." if self._says_the_same else "."),
        }[self.kind_of_shift()]

    def _looked_at(self) -> str:
        if self.looked_at is None:
            return ""
        if self.witnesses is None or self.witnesses.cluster_agreement is None:
            return "Looked at: what the model says, alone."
        firm = "form clusters there" if self.cluster_reliability >= 0.5 else "form no clear clusters there"
        return f"Looked at: {self.looked_at}; classes {firm}."

    def _basis(self) -> str:
        seen = self.witnesses
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
        if seen is None:
            return "Take it with care: a single estimator was asked, and nothing else speaks for it."
        if self.kind_of_shift() == "outside":
            return ""
        if self.domain_auc is None:
            return (
                "Take it with care: too few source rows were held out to tell whether the shift changes what the "
                "classifier says."
            )
        unseen = "A change of what inputs mean (concept shift) could not be seen without labels."
        if seen.cluster_agreement is None:
            return (
                "Take it with care: it rests on probabilities alone. Features of the inputs, such as embeddings, "
                f"would say much more. {unseen}"
            )
        if self.cluster_reliability < 0.5:
            return f"It rests on held-out source rows that are like it. {unseen}"
        return (
            f"It rests on the target's own clusters ({seen.cluster_agreement:.1%}), on a second model "
            f"({seen.second_model_agreement:.1%}) and on confidence ({seen.calibrated_confidence:.1%}). {unseen}"
        )
