"""Small problems that tests of several layers share."""

import numpy as np
import torch

from shiftcal.data.batches import ShiftProblem
from shiftcal.data.domains import LabelledDomain, UnlabelledDomain
from shiftcal.data.inputs import ArrayInputs


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
