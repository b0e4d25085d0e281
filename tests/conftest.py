"""Fixtures that tests of several layers share.

What they need is imported by them, not here: this file is read by the process that hands out tests to the others as
well, which runs none and has no use for torch.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from torch import nn

    from shiftcal.data.batches import ShiftProblem

# Properties are tried on a few examples, the same ones each time; `make fuzz` tries many.
settings.register_profile(
    "tests", max_examples=int(os.environ.get("FUZZ_CASES", "20")), deadline=None, derandomize=True
)
settings.load_profile("tests")


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
    """Makes the accuracy on a target that of the mean confidence, and domains not to be told apart.

    For tests that ask something else: the whole estimate takes ten times as long as training one of their networks.
    """

    from shiftcal.target.estimators.combined import Combined
    from shiftcal.target.estimators.mean_confidence import MeanConfidence

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


@pytest.fixture
def coarse_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole estimate with a small forest and one penalty, where tests ask what holds of any."""
    from sklearn.ensemble import RandomForestClassifier

    monkeypatch.setattr(
        "shiftcal.target.estimators.second_model_agreement.RandomForestClassifier",
        lambda _, **options: RandomForestClassifier(4, **options),
    )
    monkeypatch.setattr("shiftcal.target.domain_classifier._INVERSE_PENALTIES", (0.1,))
