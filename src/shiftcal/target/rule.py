"""The constants of the rule that says how far what is seen of a target is believed.

The first four were found by `benchmarks/accuracy_estimates/fit.py` on the tasks recorded beside it, and judged with
whole data sets left out. The others were settled by hand while looking at errors, with target labels, on tasks of
Office-31, Office-Home (features of EfficientNet-Lite2) and digits; where one was found on something else, that stands
beside it. They are options of the calibrator `target-scaling`, so `compare` can sweep them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from shiftcal.core.options import option


@dataclass(frozen=True, kw_only=True)
class TrustRule:
    """How far clusters and second models are believed, and what they weigh."""

    purity_midpoint: float = option(
        0.4, "chance-corrected purity of source clusters at which the target's structure counts half", at_least=0
    )
    purity_slope: float = option(10.0, "how fast that grows with purity", above=0)
    novelty_slope: float = option(
        8.0, "share of rows outside the source, times this, is how far held-out rows say nothing", at_least=0
    )
    interval_scale: float = option(1.39, "half width of the 90 % interval, in multiples of its spread", above=0)
    cluster_vote: float = option(
        0.5, "log scale that the clusters' agreement adds to a single row, where they are trusted", at_least=0
    )
    # On halves of classes too: a target that lacks classes moved it from 0.75 to here.
    full_domain_auc: float = option(
        0.65, "of outputs; from here on the shift is said to change what the classifier says", above=0.5, at_most=1
    )
    # Halves of 47 tasks, with half of the classes.
    absent_frequency: float = option(
        0.15, "of a class among predictions, as a multiple of the source's, below which it is absent", at_least=0
    )
    # MNIST -> SVHN, where a classifier ran into two classes.
    most_absent: float = option(
        2 / 3,
        "share of the source whose classes a target may lack; more, and all classes count",
        at_least=0,
        at_most=1,
    )
    # Halves, as above.
    largest_class_weight: float = option(
        10.0, "of a held-out row, for classes that are predicted more often on the target", above=0
    )
    # Fewer rows are told apart by chance.
    fewest_held_out: int = option(
        10,
        "held-out rows of classes that the target has; with fewer, a shift is taken for granted",
        at_least=2,
        at_most=1_000_000_000,
    )

    def shift_degree(self, domain_auc: float | None) -> float:
        """How far a shift changes what the classifier says, from 0 to 1; 1 where that is not known."""
        if domain_auc is None:
            return 1.0
        return _share((domain_auc - 0.5) / (self.full_domain_auc - 0.5))

    def cluster_reliability(self, purity: float) -> float:
        """How far clusters can be relied on that have this purity on the source, from 0 to 1."""
        # Beyond 700 the exponential is no float any more, and the share is 0 all the same.
        return 1 / (1 + math.exp(min(-self.purity_slope * (purity - self.purity_midpoint), 700.0)))

    def outside_degree(self, novelty: float) -> float:
        """How far a target of this novelty is outside of what held-out rows can speak for, from 0 to 1."""
        return _share(self.novelty_slope * novelty)


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)
