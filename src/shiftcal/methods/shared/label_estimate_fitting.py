"""Fits `LabelEstimate` to the target as a network stands: clusters start from its predictions."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import Inputs
from shiftcal.methods.base import TrainingView
from shiftcal.methods.networks.density_ratio import ClassifierWithRatio
from shiftcal.target.estimators.combined import held_out_purity
from shiftcal.target.evidence import ObservedRows, ShiftEvidence, held_out_temperature
from shiftcal.target.rule import TrustRule
from shiftcal.target.sampling import sampled_rows

# Of each domain.
_MOST_ROWS = 2_000


def fitted_label_estimate(network: ClassifierWithRatio, view: TrainingView) -> dict[str, Tensor]:
    """Values of the buffers, by name."""
    source, labels = _labelled(network, view, view.source)
    # Where no rows were held out, those of training stand for them, and say nothing of a temperature.
    held_out, known = (source, labels) if view.held_out is None else _labelled(network, view, view.held_out)
    chosen = sampled_rows(len(view.target), _MOST_ROWS)
    target = _observed(network, view, view.target.inputs.subset(chosen))
    evidence = ShiftEvidence(held_out, known, target, source, labels)
    clusters, reliability = evidence.target_clusters, TrustRule().cluster_reliability(held_out_purity(evidence))
    temperature = 1.0 if view.held_out is None else held_out_temperature(held_out.logits, known)
    return {
        "units": clusters.units,
        "centre": clusters.centre,
        "centroids": clusters.centroids,
        "reliability": torch.tensor(reliability),
        "temperature": torch.tensor(temperature),
    }


def _labelled(
    network: ClassifierWithRatio, view: TrainingView, domain: LabelledDomain
) -> tuple[ObservedRows, Tensor]:
    rows = sampled_rows(len(domain), _MOST_ROWS)
    return _observed(network, view, domain.inputs.subset(rows)), torch.from_numpy(domain.labels[rows])


def _observed(network: ClassifierWithRatio, view: TrainingView, inputs: Inputs) -> ObservedRows:
    def observe_batch(batch: Tensor) -> tuple[Tensor, ...]:
        logits, features = network.task(batch)
        return logits, torch.ones_like(logits[:, 0]), network.structure(batch, features)

    return ObservedRows(*view.observe(observe_batch, inputs)).double()
