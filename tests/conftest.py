"""Fixtures that tests of several layers share.

What they need is imported by them, not here: this file is read by the process that hands out tests to the others as
well, which runs none and has no use for torch.
"""

from __future__ import annotations

import gc
import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from tests.processes import Programs
    from torch import nn

    from shiftcal.data.batches import ShiftProblem

# Properties are tried on a few examples, the same ones each time; `make fuzz` tries many.
settings.register_profile(
    "tests", max_examples=int(os.environ.get("FUZZ_CASES", "20")), deadline=None, derandomize=True
)
settings.load_profile("tests")


def pytest_collection_finish() -> None:
    # What was imported stays: collections of garbage during the tests need not go through all of it again.
    gc.freeze()


class _OneServer(LoadFileScheduling):  # type: ignore[misc]
    """Files to workers; those whose tests start processes all to one, which has a server for them."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "processes" if file.endswith("processes.py") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> _OneServer:
    return _OneServer(config, log)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """The networks of the tests are too small to gain from threads, and processes side by side lose by them."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def features() -> ShiftProblem:
    from tests.problems import gaussian_problem

    return gaussian_problem()


@pytest.fixture(scope="session")
def images() -> ShiftProblem:
    from tests.problems import image_problem

    return image_problem()


@pytest.fixture(scope="session")
def many_images() -> ShiftProblem:
    from tests.problems import image_problem

    return image_problem(120)


@pytest.fixture(scope="session")
def tiny_transformer() -> nn.Module:
    """A vision transformer of timm for the images above, with the same weights each time."""
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    import torch

    from shiftcal.core.vision_guard import import_timm

    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformer: nn.Module = import_timm().models.vision_transformer.VisionTransformer(
            img_size=8, patch_size=4, in_chans=1, num_classes=0, embed_dim=16, depth=2, num_heads=2
        )
    return transformer


EstimateQuickly = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="session")
def estimate_quickly() -> EstimateQuickly:
    """See there."""
    from tests.problems import estimate_quickly as patch_estimate

    return patch_estimate


@pytest.fixture(scope="module")
def quick_estimate(estimate_quickly: EstimateQuickly) -> Iterator[None]:
    """The same for all of a file: `pytestmark = pytest.mark.usefixtures("quick_estimate")`."""
    with pytest.MonkeyPatch.context() as patch:
        estimate_quickly(patch)
        yield


@pytest.fixture(scope="module")
def coarse_estimate() -> Iterator[None]:
    """The whole estimate with few trees, penalties and folds, where tests of a file ask what holds of any."""
    from tests.problems import estimate_coarsely

    with pytest.MonkeyPatch.context() as patch:
        estimate_coarsely(patch)
        yield


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Starts processes; see tests/processes.py."""
    from tests.processes import Programs

    started = Programs(tmp_path_factory.mktemp("programs"))
    yield started
    started.kill_all()
