"""Is everything here that shiftcal needs, and what of the rest? What `shiftcal doctor` prints."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import torch

from shiftcal import __version__
from shiftcal.core.errors import MissingDependencyError
from shiftcal.core.vision_guard import import_timm, import_torchvision
from shiftcal.data.catalog.registry import list_datasets
from shiftcal.data.catalog.roots import DATA_VARIABLE, data_roots

_PACKAGES = ("torch", "numpy", "scikit-learn", "scipy", "pandas", "lightning-fabric")
# Extras by a package of each that nothing else here needs.
_EXTRAS = {
    "demo": "mlxtend",
    "tables": "pyarrow",
    "backbones": "efficientnet-lite-pytorch",
    "onnx": "onnxruntime",
    "completion": "shtab",
}
_LEAST_DISK = 1e9


class Check(NamedTuple):
    """Something that was looked at."""

    what: str
    found: str
    is_fine: bool = True
    advice: str = ""


def examine() -> list[Check]:
    """Look at the installation, the machine and the data."""
    return [
        Check("shiftcal", f"{__version__}, Python {platform.python_version()} at {sys.prefix}"),
        Check("packages", ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)),
        _device(),
        _vision("torchvision", import_torchvision),
        _vision("timm", import_timm),
        *(_extra(name, package) for name, package in _EXTRAS.items()),
        _disk(),
        _data(),
    ]


def _device() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return Check("computes on", f"{cores} cores, {torch.get_num_threads()} threads, {name}")


def _vision(name: str, load: Callable[[], object]) -> Check:
    try:
        load()
    except MissingDependencyError as error:
        return Check(name, "not installed, and not needed for features and tables", advice=str(error))
    except (ImportError, RuntimeError, AttributeError) as error:
        return Check(name, f"can't be imported: {error}", is_fine=False, advice="install a build that fits torch's")
    return Check(name, importlib.metadata.version(name))


def _extra(name: str, package: str) -> Check:
    try:
        return Check(f"extra {name}", f"{package} {importlib.metadata.version(package)}")
    except importlib.metadata.PackageNotFoundError:
        return Check(f"extra {name}", "not installed", advice=f"pip install 'shiftcal[{name}]'")


def _disk() -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    return Check(
        "free disk",
        f"{free / 1e9:.1f} GB at {folder}",
        is_fine=free >= _LEAST_DISK,
        advice="" if free >= _LEAST_DISK else "checkpoints need room",
    )


def _data() -> Check:
    rows = list_datasets()
    here = sum(row.available for row in rows)
    roots = ", ".join(map(str, data_roots()))
    advice = (
        "" if DATA_VARIABLE in os.environ else f"set {DATA_VARIABLE} to a folder with benchmark data, if you have any"
    )
    return Check("data sets", f"{here} of {len(rows)} here; looked in {roots}", advice=advice)
