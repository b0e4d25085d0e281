"""Small problems that tests of several layers share."""

import importlib.util
import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import nn

from shiftcal.core.vision_guard import import_timm
from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.target.estimators.combined import Combined
from shiftcal.target.estimators.mean_confidence import MeanConfidence

# The networks of the tests are too small to gain from threads, and test processes that run side by side lose by them.
torch.set_num_threads(1)

# Properties are tried on a few examples, the same ones each time; `make fuzz` tries many.
settings.register_profile(
    "tests", max_examples=int(os.environ.get("FUZZ_CASES", "20")), deadline=None, derandomize=True
)
settings.load_profile("tests")


def gaussian_problem(num_rows: int = 120, *, shift: float = 1.0, seed: int = 0) -> ShiftProblem:
    """Three Gaussian classes in four dimensions; the target is moved by `shift` along every axis."""
    generator = np.random.default_rng(seed)
    centres = 3 * np.eye(3, 4)
    labels = np.arange(num_rows, dtype=np.int64) % 3
    source = centres[labels] + generator.normal(size=(num_rows, 4))
    target = centres[labels] + generator.normal(size=(num_rows, 4)) + shift
    return ShiftProblem(
        LabelledDomain("source", ArrayInputs(torch.from_numpy(source).float()), labels, ("a", "b", "c")),
        UnlabelledDomain("target", ArrayInputs(torch.from_numpy(target).float())),
    )


def image_problem(num_rows: int = 48, *, size: int = 8) -> ShiftProblem:
    """Two classes of bright and dark noise; the target has less contrast."""
    generator = np.random.default_rng(0)
    labels = np.arange(num_rows, dtype=np.int64) % 2
    level = 60 + 120 * labels[:, None, None, None]
    source = (level + generator.integers(-40, 40, (num_rows, 1, size, size))).astype(np.uint8)
    target = (source // 2 + 60).astype(np.uint8)
    return ShiftProblem(
        LabelledDomain("source", ArrayInputs(torch.from_numpy(source)), labels, (0, 1)),
        UnlabelledDomain("target", ArrayInputs(torch.from_numpy(target))),
    )


@pytest.fixture(scope="session")
def features() -> ShiftProblem:
    return gaussian_problem()


@pytest.fixture(scope="session")
def images() -> ShiftProblem:
    return image_problem()


@pytest.fixture(scope="session")
def many_images() -> ShiftProblem:
    return image_problem(120)


@pytest.fixture(scope="session")
def tiny_transformer() -> nn.Module:
    """A vision transformer of timm for the images above, with the same weights each time."""
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformer: nn.Module = import_timm().models.vision_transformer.VisionTransformer(
            img_size=8, patch_size=4, in_chans=1, num_classes=0, embed_dim=16, depth=2, num_heads=2
        )
    return transformer


EstimateQuickly = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="session")
def estimate_quickly() -> EstimateQuickly:
    """Makes the accuracy on a target that of the mean confidence, and domains not to be told apart.

    For tests that ask something else: the whole estimate takes ten times as long as training one of their networks.
    """

    def patch_estimate(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Combined, "diagnose", lambda _, evidence: MeanConfidence().diagnose(evidence))
        patch.setattr("shiftcal.target.structure.fit_domain_classifier", lambda *_: None)

    return patch_estimate


@pytest.fixture(scope="module")
def quick_estimate(estimate_quickly: EstimateQuickly) -> Iterator[None]:
    """The same for all of a file: `pytestmark = pytest.mark.usefixtures("quick_estimate")`."""
    with pytest.MonkeyPatch.context() as patch:
        estimate_quickly(patch)
        yield
