"""Real processes: what two work out together is what one alone does; the first import of torchvision in one."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from tests.processes import Programs

from shiftcal.core.processes import whole_batch
from shiftcal.functional.class_confusion import class_confusion_loss

# Each process holds four of eight rows; as in training, gradients are averaged over the processes.
PROGRAM = """
import torch.distributed as processes
from shiftcal.functional.class_confusion import class_confusion_loss
from shiftcal.core.processes import whole_batch
processes.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
rows, scale = torch.load(f"{folder}/rows.pt"), torch.ones(3, requires_grad=True)
loss = class_confusion_loss(whole_batch(scale * rows[4 * rank : 4 * rank + 4]), 1.0)
loss.backward()
torch.save((loss.detach(), scale.grad), f"{folder}/{rank}.pt")
processes.destroy_process_group()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_loss_of_the_whole_batch_has_the_value_and_gradient_of_one_process(
    programs: Programs, tmp_path: Path
) -> None:
    rows = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    torch.save(rows, tmp_path / "rows.pt")
    programs.finish(*[programs.start(PROGRAM, folder=str(tmp_path), rank=rank) for rank in range(2)])

    scale = torch.ones(3, requires_grad=True)
    loss = class_confusion_loss(whole_batch(scale * rows), 1.0)
    loss.backward()  # type: ignore[no-untyped-call]
    (first_loss, first), (second_loss, second) = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    torch.testing.assert_close(torch.stack([first_loss, second_loss]), loss.detach().repeat(2))
    torch.testing.assert_close((first + second) / 2, scale.grad)


# A process of its own: the guard only acts at the first import, and warnings must not leak from it. In the process of
# the tests it acts too, on a first import that nobody has tried before.
VISION = """
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


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
def test_data_sets_transforms_and_models_run_after_an_earlier_failed_import(programs: Programs) -> None:
    process = programs.start(VISION)
    programs.finish(process)
    assert (programs.said(process), programs.printed(process)) == ("", "done\n")
