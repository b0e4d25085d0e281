"""Real processes, joined by files: what they work out together is what one alone does."""

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
