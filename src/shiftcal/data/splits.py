"""Splits of labelled domains."""

from __future__ import annotations

import numpy as np

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
