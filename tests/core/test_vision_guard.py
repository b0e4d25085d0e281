from __future__ import annotations

import importlib.util

import pytest

from shiftcal.core.errors import MissingDependencyError
from shiftcal.core.vision_guard import import_timm, import_torchvision


@pytest.mark.parametrize(("load", "package"), [(import_torchvision, "torchvision"), (import_timm, "timm")])
def test_absent_packages_name_the_extra(load: object, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=rf"'{package}'.*shiftcal\[vision\]"):
        load()  # type: ignore[operator]
