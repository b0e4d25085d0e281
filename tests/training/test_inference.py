from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from shiftcal.data.inputs import ArrayInputs
from shiftcal.methods.base import Method, Outputs
from shiftcal.training.inference import predict_inputs

CPU = torch.device("cpu")


class LeftHalf:
    """Stands for a method: all that it says of an image follows from the brightness of its left half."""

    def predict(self, network: nn.Module, inputs: Tensor) -> Outputs:
        brightness = inputs.flatten(1)[:, :1] if inputs.ndim == 2 else inputs[..., :2].mean(dim=(1, 2, 3))[:, None]
        logits = torch.cat([brightness, -brightness], dim=1)
        return Outputs(logits, 10 ** brightness.squeeze(1), brightness)


def predicted(values: Tensor, *, flip_average: bool) -> Outputs:
    method = cast(Method[Any], LeftHalf())
    return predict_inputs(method, nn.Identity(), ArrayInputs(values), device=CPU, flip_average=flip_average)


def images() -> Tensor:
    """600 images, so more than a batch, of which the left half is -1 and the right one 1, or twice that."""
    halves = torch.tensor([-1.0, -1.0, 1.0, 1.0])
    scale = 1.0 + torch.arange(600) % 2
    return scale[:, None, None, None] * halves.expand(600, 3, 4, 4)


def test_images_are_averaged_with_their_mirror_images() -> None:
    plain, averaged = (predicted(images(), flip_average=flip_average) for flip_average in (False, True))
    sure, surer = 1 / (1 + np.exp(2)), 1 / (1 + np.exp(4))
    np.testing.assert_allclose(plain.logits.softmax(dim=-1)[:2], [[sure, 1 - sure], [surer, 1 - surer]], rtol=1e-5)
    # Sure of one class, and as sure of the other in the mirror.
    np.testing.assert_allclose(averaged.logits.exp(), np.full((600, 2), 0.5), rtol=1e-6)
    np.testing.assert_allclose(plain.density_ratio[:2], [1 / 10, 1 / 100], rtol=1e-5)
    np.testing.assert_allclose(averaged.density_ratio, np.ones(600), rtol=1e-5)
    np.testing.assert_allclose(averaged.features, np.zeros((600, 1)), atol=1e-6)


def test_probabilities_are_averaged_and_not_logits() -> None:
    values = torch.zeros(1, 1, 4, 4)
    values[..., 2:] = 3.0
    averaged = predicted(values, flip_average=True)
    expected = (0.5 + 1 / (1 + np.exp(-6))) / 2
    np.testing.assert_allclose(averaged.logits.exp(), [[expected, 1 - expected]], rtol=1e-6)
    np.testing.assert_allclose(averaged.density_ratio, [10**1.5], rtol=1e-5)
    np.testing.assert_allclose(averaged.features, [[1.5]])


def test_features_have_no_mirror_image() -> None:
    values = torch.tensor([[1.0, 5.0], [2.0, -5.0]])
    plain, averaged = (predicted(values, flip_average=flip_average) for flip_average in (False, True))
    assert all(torch.equal(one, other) for one, other in zip(plain[:3], averaged[:3], strict=True))
