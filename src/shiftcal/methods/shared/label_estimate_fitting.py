"""Fits `LabelEstimate` to the target as a network stands: clusters start from its predictions."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftcal.data.inputs import Inputs
from shiftcal.functional.temperature import fit_temperature
from shiftcal.methods.base import TrainingView
from shiftcal.methods.networks.density_ratio import ClassifierWithRatio
from shiftcal.target.estimators.combined import source_purity
from shiftcal.target.evidence import ObservedRows, ShiftEvidence
from shiftcal.target.rule import TrustRule
from shiftcal.target.sampling import sampled_rows

# Of each domain.
_MOST_ROWS = 2_000


def is_due(view: TrainingView) -> bool:
    """After the first epoch, each time that their number has doubled, and at the end: predictions settle."""
    return view.epoch == view.num_epochs or (view.epoch > 0 and view.epoch & (view.epoch - 1) == 0)


def fitted_label_estimate(network: ClassifierWithRatio, view: TrainingView) -> dict[str, Tensor]:
    """Values of the buffers, by name."""
    chosen = sampled_rows(len(view.source), _MOST_ROWS)
    source = _observed(network, view, view.source.inputs.subset(chosen))
    target = view.target.inputs.subset(sampled_rows(len(view.target), _MOST_ROWS))
    evidence = ShiftEvidence(source, torch.from_numpy(view.source.labels[chosen]), _observed(network, view, target))
    clusters, reliability = evidence.target_clusters, TrustRule().cluster_reliability(source_purity(evidence))
    return {
        "units": clusters.units,
        "centre": clusters.centre,
        "centroids": clusters.centroids,
        "reliability": torch.tensor(reliability),
        "temperature": torch.tensor(_held_out_temperature(network, view)),
    }


def _held_out_temperature(network: ClassifierWithRatio, view: TrainingView) -> float:
    if view.held_out is None:
        return 1.0
    logits = _observed(network, view, view.held_out.inputs).logits
    return fit_temperature(logits, torch.from_numpy(view.held_out.labels))


def _observed(network: ClassifierWithRatio, view: TrainingView, inputs: Inputs) -> ObservedRows:
    def observe_batch(batch: Tensor) -> tuple[Tensor, ...]:
        logits, features = network.task(batch)
        return logits, torch.ones_like(logits[:, 0]), network.structure(batch, features)

    return ObservedRows(*view.observe(observe_batch, inputs)).double()
