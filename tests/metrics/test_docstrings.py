from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import shiftcal.metrics
from shiftcal.metrics import StreamingMetric

MODULES = sorted(module.name for module in pkgutil.walk_packages(shiftcal.metrics.__path__, "shiftcal.metrics."))
SHOWN = [
    name
    for name in shiftcal.metrics.__all__
    if inspect.isfunction(getattr(shiftcal.metrics, name)) or name.startswith("Streaming")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


@pytest.mark.parametrize("name", SHOWN)
def test_every_public_metric_has_an_example(name: str) -> None:
    if name != StreamingMetric.__name__:
        assert ">>>" in (getattr(shiftcal.metrics, name).__doc__ or "")


def test_all_is_sorted_and_complete() -> None:
    assert shiftcal.metrics.__all__ == sorted(shiftcal.metrics.__all__)
