"""What a report is made of: runs, as read from their folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.pseudo_label_rounds import PseudoLabelRounds
from shiftcal.runs.predictions import Predictions

Domain = Literal["source", "target"]
Curve = Sequence[Mapping[str, float]]
"""A mapping per epoch, for example {"epoch": 1, "accuracy": 0.7}."""
CellCurves = Mapping[tuple[str, str, int], Curve]
"""Of a comparison, by task, method and seed."""


@dataclass(frozen=True)
class RunContents:
    """What a report shows of one run, all read from its folder."""

    name: str
    """For example "drl" or "source-only + temperature"."""
    card: Mapping[str, Any]
    """Nested plain values: configuration, versions, seed, duration, command, notes."""
    history: Sequence[Mapping[str, float]]
    """One mapping per epoch, for example {"epoch": 1, "task_loss": 0.7, "ratio_loss": 0.6}."""
    source: Predictions
    """Held-out source data."""
    target: Predictions
    """Target data, with labels only if they were given for evaluation."""
    pseudo_labels: PseudoLabelRounds | None = None
    """What self-training took as labelled; None for other methods."""
    verdicts: Sequence[str] = ()
    """Sentences about the target, the most important first."""
    learning_curve: Curve = ()
    """Metrics of the target after each epoch; empty if none were asked for."""

    @property
    def domains(self) -> Iterator[tuple[Domain, Predictions]]:
        """Source and target with their names, in that order everywhere in a report."""
        yield "source", self.source
        yield "target", self.target

    @property
    def models_shift(self) -> bool:
        """Whether any density ratio differs from 1."""
        return not all(np.allclose(predictions.density_ratio, 1.0) for _, predictions in self.domains)


def check_runs(runs: Sequence[RunContents]) -> None:
    """Raise `InvalidInputError` for runs that no report can be made of."""
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        raise InvalidInputError(f"expected runs of different names, got {names!r}; rename the repeated ones")
    for run in runs:
        for domain, predictions in run.domains:
            where = f"{domain} predictions of run {run.name!r}"
            if len(predictions) == 0:
                raise InvalidInputError(f"expected at least one input in the {where}, got none")
            ratio = predictions.density_ratio
            if not (np.isfinite(ratio) & (ratio >= 0)).all():
                wrong = ratio[~(np.isfinite(ratio) & (ratio >= 0))][0]
                raise InvalidInputError(f"expected finite density ratios >= 0 in the {where}, got {wrong!r}")
