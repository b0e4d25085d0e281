"""Small problems, and less of what takes most of the time of a small run, for tests of several layers."""

import itertools

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from shiftcal.data.batches import Batch, ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.target.estimators.combined import Combined
from shiftcal.target.estimators.mean_confidence import MeanConfidence
from shiftcal.training.trainer import Trainer


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


def estimate_quickly(patch: pytest.MonkeyPatch) -> None:
    """Make the accuracy on a target that of the mean confidence, and domains not to be told apart.

    For tests that ask something else: the whole estimate takes ten times as long as training one of their networks.
    """
    patch.setattr(Combined, "diagnose", lambda _, evidence, **_options: MeanConfidence().diagnose(evidence))
    patch.setattr("shiftcal.target.structure.fit_domain_classifier", lambda *_: None)


def estimate_coarsely(patch: pytest.MonkeyPatch) -> None:
    """The whole estimate with a small forest for second model, one penalty in place of four and two folds of five."""
    patch.setattr(
        "shiftcal.target.estimators.second_model_agreement.RandomForestClassifier",
        lambda _, **options: RandomForestClassifier(4, **options),
    )
    patch.setattr("shiftcal.target.domain_classifier._INVERSE_PENALTIES", (0.1,))
    own = ("estimators.label_probability", "estimators.second_model_agreement")
    for module in ("domain_auc", "domain_classifier", *own):
        patch.setattr(f"shiftcal.target.{module}._NUM_FOLDS", 2)


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    """Leave the figures of reports empty: drawing takes most of the time of a small run, and has tests of its own."""
    patch.setattr("shiftcal.runs.reporting.figure_sections.as_data_uri", lambda draw, info: "data:,")


def stop_training_after(patch: pytest.MonkeyPatch, num_steps: int) -> None:
    """Pretend that a signal came during the step of that number."""
    step, numbers = Trainer._step, itertools.count(1)

    def counted(self: Trainer, batch: Batch) -> dict[str, torch.Tensor]:
        self._interruption.requested = next(numbers) >= num_steps
        return step(self, batch)

    patch.setattr(Trainer, "_step", counted)
