from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from shiftcal.core.errors import MissingDependencyError
from shiftcal.core.vision_guard import import_timm, import_torchvision

# A process of its own: the guard only acts at the first import, and warnings must not leak from it. In the process of
# the tests it acts too, on a first import that nobody has tried before.
FRESH_PROCESS = """
try:
    import torchvision
except RuntimeError:
    pass
import warnings
warnings.simplefilter("error")
from shiftcal.core.vision_guard import import_timm, import_torchvision

torchvision = import_torchvision()
assert import_torchvision() is torchvision

import torch
from torchvision.datasets import FakeData
from torchvision.transforms import v2

transform = v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)])
image, _ = FakeData(size=1, image_size=(3, 32, 32), transform=transform)[0]
assert image.shape == (3, 32, 32)

timm = import_timm()
model = timm.create_model("resnet10t", pretrained=False, num_classes=4).eval()
with torch.no_grad():
    assert model(image[None]).shape == (1, 4)
print("done")
"""


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
def test_data_sets_transforms_and_models_run_after_an_earlier_failed_import() -> None:
    done = subprocess.run([sys.executable, "-c", FRESH_PROCESS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout.strip()) == (0, "", "done")


@pytest.mark.parametrize(("load", "package"), [(import_torchvision, "torchvision"), (import_timm, "timm")])
def test_absent_packages_name_the_extra(load: object, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=rf"'{package}'.*shiftcal\[vision\]"):
        load()  # type: ignore[operator]
