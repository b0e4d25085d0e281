"""Training methods: one file each, listed here and nowhere else."""

from __future__ import annotations

from typing import Any

from shiftcal.core.errors import UnknownNameError
from shiftcal.methods.adamatch import AdaMatch
from shiftcal.methods.adda import AdversarialDiscriminative
from shiftcal.methods.adr import AdversarialDropout
from shiftcal.methods.asg import ProxyGuidance
from shiftcal.methods.base import Method
from shiftcal.methods.bayes_by_backprop import BayesByBackprop
from shiftcal.methods.brer import RenyiEntropy
from shiftcal.methods.cbst import ClassBalancedSelfTraining
from shiftcal.methods.cbst_avh import AngularSelfTraining
from shiftcal.methods.cdan import ConditionalAdversarial
from shiftcal.methods.cdtrans import CrossDomainTransformer
from shiftcal.methods.confidence_penalty import ConfidencePenalty
from shiftcal.methods.cpga import ContrastivePrototypes
from shiftcal.methods.crst import ConfidenceRegularizedSelfTraining
from shiftcal.methods.dann import DomainAdversarial
from shiftcal.methods.deep_coral import DeepCoral
from shiftcal.methods.deep_ensemble import DeepEnsemble
from shiftcal.methods.drl import DistributionallyRobust
from shiftcal.methods.drssl import DistributionallyRobustSemiSupervised
from shiftcal.methods.drst import DistributionallyRobustSelfTraining
from shiftcal.methods.fixmatch import FixMatch
from shiftcal.methods.flexmatch import FlexMatch
from shiftcal.methods.freematch import FreeMatch
from shiftcal.methods.gradual_self_training import GradualSelfTraining
from shiftcal.methods.importance_weighting import ImportanceWeighting
from shiftcal.methods.label_smoothing import LabelSmoothing
from shiftcal.methods.mc_dropout import MonteCarloDropout
from shiftcal.methods.mcc import MinimumClassConfusion
from shiftcal.methods.mcd import MaximumClassifierDiscrepancy
from shiftcal.methods.mean_teacher import MeanTeacher
from shiftcal.methods.muda import ModelUncertainty
from shiftcal.methods.pseudo_label import PseudoLabelling
from shiftcal.methods.rba import RobustBiasAware
from shiftcal.methods.source_only import SourceOnly
from shiftcal.methods.vada import VirtualAdversarial

METHODS: dict[str, type[Method[Any]]] = {
    "adamatch": AdaMatch,
    "adda": AdversarialDiscriminative,
    "adr": AdversarialDropout,
    "asg": ProxyGuidance,
    "bayes-by-backprop": BayesByBackprop,
    "brer": RenyiEntropy,
    "cbst": ClassBalancedSelfTraining,
    "cbst-avh": AngularSelfTraining,
    "cdan": ConditionalAdversarial,
    "cdtrans": CrossDomainTransformer,
    "confidence-penalty": ConfidencePenalty,
    "cpga": ContrastivePrototypes,
    "crst": ConfidenceRegularizedSelfTraining,
    "dann": DomainAdversarial,
    "deep-coral": DeepCoral,
    "deep-ensemble": DeepEnsemble,
    "drl": DistributionallyRobust,
    "drssl": DistributionallyRobustSemiSupervised,
    "drst": DistributionallyRobustSelfTraining,
    "fixmatch": FixMatch,
    "flexmatch": FlexMatch,
    "freematch": FreeMatch,
    "gradual-self-training": GradualSelfTraining,
    "importance-weighting": ImportanceWeighting,
    "label-smoothing": LabelSmoothing,
    "mc-dropout": MonteCarloDropout,
    "mcc": MinimumClassConfusion,
    "mcd": MaximumClassifierDiscrepancy,
    "mean-teacher": MeanTeacher,
    "muda": ModelUncertainty,
    "pseudo-label": PseudoLabelling,
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
