"""Training methods: one file each, listed here and nowhere else."""

from __future__ import annotations

from typing import Any

from shiftcal.errors import UnknownNameError
from shiftcal.methods.base import Method
from shiftcal.methods.bayes_by_backprop import BayesByBackprop
from shiftcal.methods.confidence_penalty import ConfidencePenalty
from shiftcal.methods.deep_ensemble import DeepEnsemble
from shiftcal.methods.drl import DistributionallyRobust
from shiftcal.methods.importance_weighting import ImportanceWeighting
from shiftcal.methods.label_smoothing import LabelSmoothing
from shiftcal.methods.mc_dropout import MonteCarloDropout
from shiftcal.methods.rba import RobustBiasAware
from shiftcal.methods.source_only import SourceOnly
from shiftcal.methods.vada import VirtualAdversarial

METHODS: dict[str, type[Method[Any]]] = {
    "bayes-by-backprop": BayesByBackprop,
    "confidence-penalty": ConfidencePenalty,
    "deep-ensemble": DeepEnsemble,
    "drl": DistributionallyRobust,
    "importance-weighting": ImportanceWeighting,
    "label-smoothing": LabelSmoothing,
    "mc-dropout": MonteCarloDropout,
    "rba": RobustBiasAware,
    "source-only": SourceOnly,
    "vada": VirtualAdversarial,
}


def method_class(name: str) -> type[Method[Any]]:
    """The method of that name.

    Raises:
        UnknownNameError: there is none; with the closest that there is.
    """
    if name not in METHODS:
        raise UnknownNameError("method", name, METHODS)
    return METHODS[name]
