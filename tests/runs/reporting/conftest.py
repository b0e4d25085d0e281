"""Small runs with known numbers."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from shiftcal.runs.predictions import ExampleImages, Predictions
from shiftcal.runs.reporting import RunContents

MakePredictions = Callable[..., Predictions]
MakeRun = Callable[..., RunContents]


def binary_predictions(
    first_class: Sequence[float],
    labels: Sequence[int] | None = None,
    ratio: Sequence[float] | None = None,
    classes: tuple[str, str] = ("cat", "dog"),
) -> Predictions:
    probability = np.array(first_class, dtype=np.float64)
    return Predictions(
        ids=np.array([f"input {row}" for row in range(len(probability))]),
        probabilities=np.stack([probability, 1 - probability], axis=1),
        density_ratio=np.ones(len(probability)) if ratio is None else np.array(ratio, dtype=np.float64),
        classes=classes,
        labels=None if labels is None else np.array(labels, dtype=np.int64),
    )


def random_predictions(
    num_inputs: int,
    num_classes: int,
    *,
    seed: int = 0,
    labelled: bool = True,
    shifted: bool = True,
    image_side: int | None = None,
    classes: tuple[str, ...] | None = None,
) -> Predictions:
    generator = np.random.default_rng(seed)
    examples = None
    if image_side is not None:
        rows = np.arange(min(num_inputs, 20))
        shape = (len(rows), image_side, image_side, 1 if image_side < 64 else 3)
        examples = ExampleImages(rows, generator.integers(0, 256, shape, dtype=np.uint8))
    return Predictions(
        ids=np.array([f"folder/input_{row}.png" for row in range(num_inputs)]),
        probabilities=generator.dirichlet(np.full(num_classes, 0.3), num_inputs),
        density_ratio=np.exp(generator.normal(0, 0.7, num_inputs)) if shifted else np.ones(num_inputs),
        classes=classes or tuple(f"class {index}" for index in range(num_classes)),
        labels=generator.integers(0, num_classes, num_inputs) if labelled else None,
        examples=examples,
    )


def random_run(
    name: str = "drl",
    num_inputs: int = 200,
    num_classes: int = 5,
    *,
    labelled: bool = True,
    shifted: bool = True,
    image_side: int | None = 28,
    classes: tuple[str, ...] | None = None,
) -> RunContents:
    history = [{"epoch": epoch, "task_loss": 1 / epoch, "ratio_loss": 0.7} for epoch in range(1, 6)]
    card = {"seed": 1, "configuration": {"method": {"name": name}}, "versions": {"torch": "2"}}
    source = random_predictions(num_inputs, num_classes, seed=1, shifted=shifted, classes=classes)
    target = random_predictions(
        num_inputs, num_classes, seed=2, labelled=labelled, shifted=shifted, image_side=image_side, classes=classes
    )
    return RunContents(name, card, history, source, target)


@pytest.fixture
def binary() -> MakePredictions:
    """Predictions of two classes from the probabilities of the first one."""
    return binary_predictions


@pytest.fixture
def make_predictions() -> MakePredictions:
    """Random predictions."""
    return random_predictions


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """Random run."""
    return random_run
