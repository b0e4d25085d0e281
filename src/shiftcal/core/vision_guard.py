"""The one place that imports torchvision and timm, so that both also work beside a CPU build of torch.

torchvision's wheel is a CUDA build. Beside a CPU torch its compiled operators can't be loaded, and `import
torchvision` stops at "operator torchvision::nms does not exist", although models, data sets and transforms need none
of them. Declaring the signatures that it looks for is enough; calling such an operator still is an error.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

import torch

from shiftcal.core.errors import MissingDependencyError

_MISSING_OPERATOR = "operator torchvision::"
_SIGNATURES = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
# A torch library takes its operators with it when it is collected, so it has to live as long as the process.
_declarations: list[torch.library.Library] = []


def import_torchvision() -> ModuleType:
    """Import torchvision, with or without its compiled operators.

    Raises:
        MissingDependencyError: torchvision is not installed.
    """
    if importlib.util.find_spec("torchvision") is None:
        raise MissingDependencyError("reading and downloading standard image data sets", "torchvision", "vision")
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if _MISSING_OPERATOR not in str(error):
            raise
    _forget_half_imported_modules()
    _declare_operators()
    return importlib.import_module("torchvision")


def import_timm() -> ModuleType:
    """Import timm, which itself imports torchvision.

    Raises:
        MissingDependencyError: timm or torchvision is not installed.
    """
    if importlib.util.find_spec("timm") is None:
        raise MissingDependencyError("a timm model", "timm", "vision")
    import_torchvision()
    return importlib.import_module("timm")


def _forget_half_imported_modules() -> None:
    """Drop what a failed import left behind: those modules would refer to a package that no longer is there."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]


def _declare_operators() -> None:
    if _declarations:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, signature in _SIGNATURES.items():
        if not hasattr(torch.ops.torchvision, name):
            library.define(signature)  # type: ignore[no-untyped-call]
    _declarations.append(library)
