"""Changed versions of small colour photos, for a shift of known kind on pictures whose votes by people are known.

| domain | what is done to every picture |
|---|---|
| low-contrast | contrast cut to 0.3 around the picture's mean |
| blurred | Gaussian blur with a deviation of 1 pixel |
| noisy | Gaussian noise of a deviation of 0.1 of the full range |

The kinds are of Hendrycks, Dietterich, "Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations", ICLR 2019, at about the third of their five strengths. Noise is from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.ndimage import gaussian_filter1d
from torch import Tensor

from shiftcal.core.errors import InvalidInputError
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import ArrayInputs

_CONTRAST = 0.3
_BLUR = 1.0
_NOISE = 0.1


def low_contrast(domain: LabelledDomain) -> LabelledDomain:
    """Each picture moved towards its mean."""

    def change(values: Tensor) -> Tensor:
        mean = values.mean(dim=(1, 2, 3), keepdim=True)
        return mean + _CONTRAST * (values - mean)

    return _changed(domain, change)


def blurred(domain: LabelledDomain) -> LabelledDomain:
    """Each picture blurred."""

    def change(values: Tensor) -> Tensor:
        rows = gaussian_filter1d(values.numpy(), _BLUR, axis=2, mode="nearest")
        return torch.from_numpy(gaussian_filter1d(rows, _BLUR, axis=3, mode="nearest"))

    return _changed(domain, change)


def noisy(domain: LabelledDomain) -> LabelledDomain:
    """Noise added to every pixel."""

    def change(values: Tensor) -> Tensor:
        noise = np.random.RandomState(0).normal(0, 255 * _NOISE, values.shape)
        return values + torch.from_numpy(noise.astype(np.float32))

    return _changed(domain, change)


def _changed(domain: LabelledDomain, change: Callable[[Tensor], Tensor]) -> LabelledDomain:
    if not isinstance(domain.inputs, ArrayInputs) or domain.inputs.values.dtype != torch.uint8:
        raise InvalidInputError(f"{domain.name!r}: expected pictures in memory to change")
    values = change(domain.inputs.values.float()).round().clamp(0, 255).to(torch.uint8)
    return LabelledDomain(domain.name, ArrayInputs(values), domain.labels, domain.classes)
