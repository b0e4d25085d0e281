"""What there is to choose from, as lines of text: read from the registries, so that nothing is listed twice."""

from __future__ import annotations

from collections.abc import Mapping

from shiftcal.calibrators import CALIBRATORS
from shiftcal.core.options import describe
from shiftcal.data.catalog.registry import list_datasets
from shiftcal.methods import METHODS
from shiftcal.methods.networks.backbones import BACKBONES
from shiftcal.metrics import METRICS
from shiftcal.runs.reproduction import REPRODUCTIONS
from shiftcal.runs.tasks import SUITES
from shiftcal.target.estimators import ESTIMATORS
from shiftcal.training.compositions import COMPOSITIONS
from shiftcal.training.options import TrainingOptions


def methods() -> list[str]:
    """Each method with its options."""
    return _classes(METHODS)


def calibrators() -> list[str]:
    """Each calibrator with its options."""
    return _classes(CALIBRATORS)


def estimators() -> list[str]:
    """Each estimator of the accuracy on a target, with its options."""
    return _classes(ESTIMATORS)


def compositions() -> list[str]:
    """Each composition with what it is made of."""
    return [_entry(name, f"{whole.parts}: {whole.doc}") for name, whole in COMPOSITIONS.items()]


def datasets() -> list[str]:
    """Each data set of the catalog, and whether it is here."""
    return [
        _entry(name, f"{'[here] ' if available else '[absent] '}{description}")
        for name, description, available, _ in list_datasets()
    ]


def backbones() -> list[str]:
    """Our own backbones; timm has many more."""
    own = [_entry(name, backbone.doc) for name, backbone in BACKBONES.items()]
    return [
        *own,
        _entry("any timm model", "resnet50, or resnet50:pretrained for its weights; needs shiftcal[vision]"),
        _entry("NAME+WIDTH", "any of these with a dense layer behind it, such as resnet101:pretrained+512"),
    ]


def metrics() -> list[str]:
    """Each metric of an evaluation."""
    return [_entry(name, metric.doc) for name, metric in METRICS.items()]


def tasks() -> list[str]:
    """Each suite with its tasks."""
    lines = []
    for name, suite in SUITES.items():
        lines += [_entry(name, f"{len(suite)} tasks"), *(f"    {task.name}" for task in suite)]
    return lines


def reproductions() -> list[str]:
    """Each table and figure of the paper that can be made."""
    return [_entry(name, f"{found.item}: {found.question}") for name, found in REPRODUCTIONS.items()]


def training() -> list[str]:
    """Options of the engine."""
    return _options(TrainingOptions)


def _classes(registry: Mapping[str, type]) -> list[str]:
    lines = []
    for name, cls in registry.items():
        lines += [_entry(name, _summary(cls)), *_options(cls)]
    return lines


def _entry(name: str, text: str) -> str:
    return f"{name:<32} {text}"


def _summary(cls: type) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


def _options(cls: type) -> list[str]:
    return [f"    {name:<22} {doc} ({kind}; default {default})" for name, kind, default, doc in describe(cls)]
