"""Classes of CIFAR-10 and STL-10, and the nine that both have."""

from __future__ import annotations

import numpy as np

from shiftcal.data.domains import LabelledDomain

CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STL_CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
SHARED_CLASSES = tuple(name for name in CIFAR_CLASSES if name != "frog")
"""CIFAR-10's names; STL-10 calls the automobile a car and has a monkey for the frog."""


def nine_shared_classes(domain: LabelledDomain) -> LabelledDomain:
    """The rows of the nine shared classes, under CIFAR-10's names."""
    names = ["automobile" if name == "car" else name for name in domain.classes]
    codes = np.array([SHARED_CLASSES.index(name) if name in SHARED_CLASSES else -1 for name in names])
    labels = codes[domain.labels]
    kept = np.flatnonzero(labels >= 0)
    return LabelledDomain(domain.name, domain.inputs.subset(kept), labels[kept], SHARED_CLASSES)
