"""Parts of labelled domains, drawn class by class with a seed."""

from __future__ import annotations

import numpy as np

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.domains import LabelledDomain, Rows


def hold_out(domain: LabelledDomain, fraction: float, seed: int) -> tuple[LabelledDomain, LabelledDomain | None]:
    """Split off a share of each class at random; None if that share is less than one row of every class.

    Returns:
        The part to train on, which keeps at least one row of each class, and the part held out.
    """
    generator = np.random.default_rng(seed)
    held: list[Rows] = []
    for label in np.unique(domain.labels):
        rows = generator.permutation(np.flatnonzero(domain.labels == label))
        held.append(rows[: min(int(fraction * len(rows)), len(rows) - 1)])
    held_rows = np.sort(np.concatenate(held)).astype(np.int64)
    if len(held_rows) == 0:
        return domain, None
    kept_rows = np.setdiff1d(np.arange(len(domain), dtype=np.int64), held_rows)
    return domain.subset(kept_rows), domain.subset(held_rows)


def within_budget(domain: LabelledDomain, budget: int, seed: int) -> LabelledDomain:
    """At most `budget` rows at random, as many of each class as of the others; a class that has fewer gives all.

    What the small classes can't give goes to the others, so that the budget is used up wherever there are rows.

    Raises:
        InvalidInputError: the budget has not even one row for each class.
    """
    counts = np.bincount(domain.labels, minlength=len(domain.classes))
    num_classes = np.count_nonzero(counts)
    if budget < num_classes:
        raise InvalidInputError(
            f"label_budget {budget} is less than one row for each of the {num_classes} classes of {domain.name!r}"
        )
    shares = _fair_shares(counts, budget)
    generator = np.random.default_rng(seed)
    kept = [
        generator.permutation(np.flatnonzero(domain.labels == label))[: shares[label]]
        for label in np.flatnonzero(counts)
    ]
    return domain.subset(np.sort(np.concatenate(kept)).astype(np.int64))


def _fair_shares(counts: Rows, budget: int) -> Rows:
    """What each of several givers gives, the smallest first, so that `budget` is reached if it can be."""
    shares = np.zeros_like(counts)
    left = budget
    order = np.argsort(counts, kind="stable")
    for position, giver in enumerate(order):
        shares[giver] = min(counts[giver], left // (len(order) - position))
        left -= shares[giver]
    return shares
